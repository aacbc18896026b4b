#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/catalogue.h"
#include "cli/commands.h"
#include "graph/codec/codec.h"
#include "graph/print.h"

namespace stitch::cli {
namespace {

using nlohmann::json;

struct ShowOptions {
  std::string what = "plans", id, server;
  std::filesystem::path database;
  bool source = false, json = false;
};

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string cell(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.2f}", value.get<double>());
  return value.dump();
}

/// The columns that a person wants to see of a listing.
std::vector<std::string> columns_of(std::string_view what) {
  if (what == "plans") return {"id", "fragment", "status", "label", "predicted_us", "verified_share", "bytes"};
  if (what == "fragments") return {"key", "operators", "bytes", "name"};
  if (what == "devices") return {"key", "kind", "name", "architecture"};
  if (what == "models") return {"key", "format", "name"};
  return {"id", "kind", "state", "progress", "message"};
}

std::string to_table(std::string_view what, const json& items) {
  const std::vector<std::string> columns = columns_of(what);
  std::vector<std::vector<std::string>> rows = {columns};
  for (const json& item : items) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const std::string& column : columns) row.push_back(cell(item.value(column, json(""))));
  }
  std::vector<std::size_t> widths(columns.size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += i + 1 == row.size() ? row[i] : fmt::format("{:<{}}  ", row[i], widths[i]);
    }
    text += '\n';
  }
  return text;
}

std::string to_text(const api::Plan& plan) {
  std::string text =
      fmt::format("plan {}\n  fragment {}\n  for {} ({}, CUDA {}), generator {}\n", plan.id.hex(), plan.fragment.hex(),
                  plan.target.device, plan.target.architecture, plan.target.toolkit, plan.target.version);
  text +=
      fmt::format("  {}: {}; {:.1f} % of the outputs compared\n", plan.label, plan.judged, 100 * plan.verified_share);
  text += fmt::format("  predicted {:.2f} ± {:.2f} us{}, {} bytes, workspace {} bytes\n", plan.predicted_us,
                      plan.uncertainty_us,
                      plan.measured_us ? fmt::format(", measured {:.2f} us", *plan.measured_us) : std::string(),
                      plan.bytes, plan.workspace_bytes);
  for (std::size_t i = 0; i < plan.launches.size(); ++i) {
    const api::KernelLaunch& launch = plan.launches[i];
    text += fmt::format(
        "  launch {}: {}: {}\n    {} blocks of {} threads{}, {} bytes shared, {} bytes, {:.2f} ± {:.2f} us\n", i,
        launch.name, launch.description, launch.blocks, launch.threads,
        launch.cluster > 1 ? fmt::format(", clusters of {}", launch.cluster) : std::string(), launch.shared_bytes,
        launch.bytes, launch.predicted_us, launch.uncertainty_us);
    text += "    arguments";
    for (const api::LaunchArgument& argument : launch.arguments) {
      text += fmt::format(" {}:{}", api::to_string(argument.kind), argument.value);
    }
    text += '\n';
  }
  return text;
}

Result<Hash128> hash_of(std::string_view text) {
  const std::optional<Hash128> hash = Hash128::from_hex(text);
  if (!hash) return make_error(ErrorKind::invalid_argument, "'{}' is not an id of 32 hexadecimal digits", text);
  return *hash;
}

Result<ExitCode> show_plan(const ShowOptions& options, Catalogue& catalogue) {
  STITCH_ASSIGN(const Hash128 id, hash_of(options.id));
  STITCH_ASSIGN(const api::Plan plan, catalogue.plan(id));
  json document = api::to_document(plan);
  if (!options.json) print(to_text(plan));
  for (std::size_t i = 0; options.source && i < plan.launches.size(); ++i) {
    STITCH_ASSIGN(const std::string source, catalogue.source(plan, i));
    document["launches"][i]["source"] = source;
    if (!options.json) print(fmt::format("\n// launch {}\n{}", i, source));
  }
  if (options.json) print(document.dump() + "\n");
  return ExitCode::success;
}

/// A fragment as --json is a fragment file, which tune, explain and the client's examples read.
Result<ExitCode> show_fragment(const ShowOptions& options, Catalogue& catalogue) {
  STITCH_ASSIGN(const Hash128 key, hash_of(options.id));
  STITCH_ASSIGN(const graph::Graph fragment, catalogue.fragment(key));
  print(options.json ? graph::encode(fragment, graph::Encoding::json) + "\n" : graph::to_text(fragment));
  return ExitCode::success;
}

Result<ExitCode> show(const ShowOptions& options) {
  const SystemClock clock;
  std::unique_ptr<Catalogue> catalogue;
  if (options.server.empty()) {
    STITCH_ASSIGN(catalogue, open_database_catalogue(options.database, clock));
  } else {
    STITCH_ASSIGN(catalogue, open_server_catalogue(options.server));
  }
  if (options.what == "plan") return show_plan(options, *catalogue);
  if (options.what == "fragment") return show_fragment(options, *catalogue);
  STITCH_ASSIGN(const json items, catalogue->list(options.what));
  print(options.json ? items.dump() + "\n" : to_table(options.what, items));
  return ExitCode::success;
}

}  // namespace

void add_show_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<ShowOptions>();
  CLI::App* command = app.add_subcommand("show", "Look into a database or a server");
  command->add_option("what", options->what, "plans, fragments, devices, models, jobs; or one plan, one fragment")
      ->check(CLI::IsMember({"plans", "fragments", "devices", "models", "jobs", "plan", "fragment"}))
      ->capture_default_str();
  command->add_option("id", options->id, "of the plan, or key of the fragment");
  CLI::Option_group* place = command->add_option_group("where", "what is looked into");
  place->add_option("--db", options->database, "database file");
  place->add_option("--server", options->server, "unix:PATH or http://HOST:PORT");
  place->require_option(1);
  command->add_flag("--source", options->source, "also the kernels' sources (of a plan, with --db)");
  command->add_flag("--json", options->json, "as JSON; a fragment: as a fragment file");
  command->callback([options, &code] {
    const Result<ExitCode> result = show(*options);
    code = result ? *result : report(result.error(), options->json);
  });
}

}  // namespace stitch::cli
