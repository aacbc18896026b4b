#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/remote.h"
#include "client/why.h"
#include "daemon/stitchd.h"
#include "graph/codec/codec.h"
#include "import/import.h"
#include "tuning/models/model_fragments.h"
#include "tuning/plans/plan_record.h"

namespace stitch::cli {
namespace {

using Json = nlohmann::ordered_json;
using client::KeyDifference;

struct MissOptions {
  CommonOptions common;
  std::filesystem::path model;
  std::filesystem::path database = daemon::StitchdOptions::default_database_path();
  std::string server;  ///< asked instead of the database
  std::string fragment;
};

/// A fragment of the model, and what the store says to its key.
struct Finding {
  Hash128 key;
  std::string name;
  std::optional<Hash128> plan;     ///< that is served for it
  std::optional<Hash128> closest;  ///< the nearest plan, where none is
  std::vector<KeyDifference> differs;
};

/// Both sides of a field of the key. Of the fragment itself its inputs tell more than its hash.
Result<KeyDifference> difference(db::KeyField field, const tuning::ModelFragments::Entry& entry,
                                 const db::PlanKey& wanted, const db::PlanKey& stored, const db::Store& store) {
  using db::KeyField;
  const std::string name(to_string(field));
  switch (field) {
    case KeyField::version: return KeyDifference{name, wanted.target.version, stored.target.version};
    case KeyField::toolkit: return KeyDifference{name, wanted.target.toolkit, stored.target.toolkit};
    case KeyField::architecture: return KeyDifference{name, wanted.target.architecture, stored.target.architecture};
    case KeyField::device: return KeyDifference{name, wanted.target.device, stored.target.device};
    default: break;
  }
  STITCH_ASSIGN(const db::FragmentRecord record, store.get_fragment(stored.fragment));
  STITCH_ASSIGN(const graph::Graph other, graph::decode(record.graph, graph::Encoding::cbor));
  return KeyDifference{name, client::parameter_types(entry.graph), client::parameter_types(other)};
}

Result<Finding> look(const tuning::ModelFragments::Entry& entry, const db::Target& target, const db::Store& store) {
  Finding finding{entry.key, entry.name, {}, {}, {}};
  const db::PlanKey key{entry.key, target};
  STITCH_ASSIGN(const db::Lookup found, store.find_plan(key, entry.family));
  if (found.plan) {
    finding.plan = found.plan->id;
    return finding;
  }
  finding.closest = found.miss.closest_plan;
  if (!found.miss.closest) {
    finding.differs.push_back({"fragment", client::parameter_types(entry.graph), ""});
    return finding;
  }
  for (const db::KeyField field : found.miss.differs) {
    STITCH_ASSIGN(KeyDifference one, difference(field, entry, key, *found.miss.closest, store));
    finding.differs.push_back(std::move(one));
  }
  return finding;
}

/// Asks a server.
Result<Finding> look(const tuning::ModelFragments::Entry& entry, client::Client& server, api::PlanTarget& target) {
  client::FetchOptions options;
  options.name = entry.name;
  STITCH_ASSIGN(client::StoredPlan stored, client::why(server, entry.graph, options));
  target = stored.target;
  return Finding{stored.fragment, entry.name, stored.plan, stored.closest, std::move(stored.differs)};
}

Json document_of(const Finding& finding) {
  Json json = {{"key", finding.key.hex()}, {"name", finding.name}, {"found", finding.plan.has_value()}};
  if (finding.plan) json["plan"] = finding.plan->hex();
  if (finding.closest) json["closest_plan"] = finding.closest->hex();
  if (finding.plan) return json;
  json["differs"] = Json::array();
  for (const KeyDifference& one : finding.differs)
    json["differs"].push_back({{"field", one.field}, {"wanted", one.wanted}, {"stored", one.stored}});
  return json;
}

std::string text_of(const Finding& finding) {
  std::string text = fmt::format("{}  {}\n", finding.key.hex(), finding.name);
  if (finding.plan) return text + fmt::format("  found: plan {}\n", finding.plan->hex());
  if (!finding.closest) return text + fmt::format("  missed: nothing of its family is stored\n");
  text += fmt::format("  missed; the nearest is plan {}, which differs in\n", finding.closest->hex());
  for (const KeyDifference& one : finding.differs)
    text += fmt::format("    {:<13} wanted {}\n    {:<13} stored {}\n", one.field, one.wanted, "", one.stored);
  return text;
}

Result<ExitCode> explain_miss(const MissOptions& options) {
  const bool remote = !options.server.empty();
  if (!remote) STITCH_TRY(check_database(options.database, RealFileSystem()));
  STITCH_ASSIGN(const auto session, Session::open(options.common, {}, {remote ? "" : options.database}));
  std::unique_ptr<client::Client> server;
  if (remote) {
    STITCH_ASSIGN(server, connect(options.server));
  }
  import::ImportOptions asked;
  asked.constraints = options.common.constraints;
  STITCH_ASSIGN(auto imported, import::import_file(session->files, options.model, asked));
  STITCH_ASSIGN(const tuning::ModelFragments model, tuning::cut_model(std::move(imported), *session->tuner));
  api::PlanTarget target = tuning::to_wire(session->tuner->target());
  Json fragments = Json::array();
  std::string text;
  std::size_t found = 0;
  for (const tuning::ModelFragments::Entry& entry : model.entries) {
    if (!entry.key.hex().starts_with(options.fragment)) continue;
    STITCH_ASSIGN(const Finding finding,
                  remote ? look(entry, *server, target) : look(entry, session->tuner->target(), *session->store));
    fragments.push_back(document_of(finding));
    text += text_of(finding);
    found += finding.plan ? 1 : 0;
  }
  if (fragments.empty()) {
    return make_error(ErrorKind::not_found, "{}: no fragment{}", options.model.string(),
                      options.fragment.empty() ? "" : fmt::format(" whose key starts with '{}'", options.fragment));
  }
  text += fmt::format("{} of {} fragments have a plan for {}", found, fragments.size(), target.device);
  const Json json = {{"model", options.model.filename().string()},
                     {"target",
                      {{"device", target.device},
                       {"architecture", target.architecture},
                       {"toolkit", target.toolkit},
                       {"version", target.version}}},
                     {"fragments", std::move(fragments)}};
  std::printf("%s\n",
              options.common.json ? json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str() : text.c_str());
  return ExitCode::success;
}

}  // namespace

void add_explain_miss_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<MissOptions>();
  CLI::App* command = app.add_subcommand(
      "explain-miss", "Why a database or server has no plan for a model's fragments: which field differs");
  command->add_option("model", options->model, "model or fragment file")->required();
  add_common_options(*command, options->common);
  add_constraint_options(*command, options->common.constraints);
  auto* database = command->add_option("--db", options->database, "database that is asked; by default stitchd's");
  command->add_option("--server", options->server, "ask this stitchd: unix:PATH or http://HOST:PORT")
      ->excludes(database);
  command->add_option("--fragment", options->fragment, "only fragments whose key starts with this");
  command->callback([options, &code] {
    const Result<ExitCode> result = explain_miss(*options);
    code = result ? *result : report(result.error(), options->common.json);
  });
}

}  // namespace stitch::cli
