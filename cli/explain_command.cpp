#include <algorithm>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/commands.h"
#include "cli/contractions/product.h"
#include "cli/explain/explanation.h"
#include "cli/explain/page.h"
#include "cli/explain/pipeline_timeline.h"
#include "cli/explain/program_kernels.h"
#include "graph/simplify.h"
#include "import/import.h"
#include "tuning/programs/model_program.h"

namespace stitch::cli {
namespace {

struct ExplainOptions {
  CommonOptions common;
  std::filesystem::path model, html, database;
  std::string fragment;
  int pairs = 64;
  bool no_run = false;
  std::optional<tuning::ProductsBy> program;
};

/// Those of its program with kernels of ours whose operands are computed while they are loaded.
Result<std::vector<Product>> computing_products(const import::Imported& model, const tuning::Tuner& tuner) {
  tuning::ProgramRequest request;
  request.products = tuning::ProductsBy::ours;
  STITCH_ASSIGN(const api::Program program, tuning::outline_program(model, tuner, request));
  std::vector<Product> products = products_of(program);
  std::erase_if(products, [](const Product& product) {
    const auto* one = std::get_if<ContractionCase>(&product.of);
    return one == nullptr || one->problem.computed.empty();
  });
  return products;
}

/// The products of a simplified model, each with the kernel of ours that is predicted to be fastest, if there is one.
std::vector<Product> explain_products(const import::Imported& model, const tuning::Tuner& tuner) {
  std::vector<Product> products = products_of(model.graph);
  // A model that has no program with kernels of ours has none of these.
  if (auto computing = computing_products(model, tuner)) std::ranges::move(*computing, std::back_inserter(products));
  for (Product& product : products) {
    if (!product.why_none.empty()) continue;
    const Status chosen = choose(product, tuner.scorer().device(), tuning::space_under(model.graph.constraints, 1));
    if (!chosen) product.why_none = chosen.error().message;
  }
  return products;
}

nlohmann::ordered_json document_of(const Product& product, const DeviceSpec& device) {
  nlohmann::ordered_json json = to_document(product, device);
  if (product.why_none.empty()) json["pipeline"] = to_document(timeline_of(summary_of(product).turn));
  return json;
}

std::string text_of(const Product& product) {
  return product.why_none.empty() ? to_text(product) + to_text(timeline_of(summary_of(product).turn))
                                  : to_text(product);
}

/// For --program.
Result<ExitCode> explain_program(const ExplainOptions& options, import::Imported imported, const Session& session) {
  const tuning::Tuner& tuner = *session.tuner;
  std::unique_ptr<tuning::RememberingTuner> memory;
  tuning::KnownCall known;
  if (session.store != nullptr) {
    STITCH_ASSIGN(memory, tuning::RememberingTuner::open(*session.store, tuner, session.clock));
    known = [&memory](const graph::Graph& call) { return memory->call_time(call); };
  }
  tuning::ProgramRequest request;
  request.memory = memory.get();
  request.products = options.program;
  STITCH_ASSIGN(const api::Program program, tuning::outline_program(std::move(imported), tuner, request));
  STITCH_ASSIGN(const ProgramKernels kernels, kernels_of(program, tuner, known));
  if (options.common.json) {
    nlohmann::ordered_json json = {{"model", options.model.filename().string()}};
    json["program"] = to_document(kernels);
    std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else {
    std::printf("%s", to_text(kernels).c_str());
  }
  return ExitCode::success;
}

Result<ExitCode> explain(const ExplainOptions& options) {
  if (!options.database.empty()) STITCH_TRY(check_database(options.database, RealFileSystem()));
  STITCH_ASSIGN(const auto session, Session::open(options.common, {}, {options.database}));
  import::ImportOptions importing;
  importing.constraints = options.common.constraints;
  STITCH_ASSIGN(auto imported, import::import_file(session->files, options.model, importing));
  if (options.program) return explain_program(options, std::move(imported), *session);
  STITCH_TRY(graph::simplify(imported.graph));
  const DeviceSpec& device = session->tuner->scorer().device();
  std::vector<Product> products;
  if (options.fragment.empty()) products = explain_products(imported, *session->tuner);
  STITCH_ASSIGN(const tuning::ModelFragments model, tuning::cut_model(std::move(imported), *session->tuner));
  const tuning::ProgressSink progress = progress_display(options.common.quiet);
  std::vector<FragmentExplanation> fragments;
  bool sound = true;
  for (std::size_t i = 0; i < model.entries.size(); ++i) {
    const tuning::ModelFragments::Entry& entry = model.entries[i];
    if (!entry.key.hex().starts_with(options.fragment)) continue;
    if (progress) {
      progress({"explain", 1.0 * i / model.entries.size(), entry.name});
    }
    fragments.push_back(explain_fragment(entry, *session->tuner, !options.no_run, options.pairs));
    sound = sound && fragments.back().failure.empty();
  }
  if (progress) progress({"explain", 1, ""});
  if (fragments.empty() && products.empty()) {
    return make_error(ErrorKind::not_found, "{}: no fragment{}", options.model.string(),
                      options.fragment.empty() ? "" : fmt::format(" whose key starts with '{}'", options.fragment));
  }
  if (!options.html.empty()) {
    const bool is_whole = fragments.size() == model.entries.size();
    RealProcessLauncher launcher;
    const Page page =
        to_page(options.model.filename().string(), is_whole ? &model.outline : nullptr, fragments, products, launcher);
    STITCH_TRY(session->files.publish(options.html, page.html));
    if (page.undrawn) std::fprintf(stderr, "stitch: a page without drawings: %s\n", page.undrawn->message.c_str());
  }
  if (options.common.json) {
    nlohmann::ordered_json json = {{"model", options.model.filename().string()}};
    json["fragments"] = nlohmann::ordered_json::array();
    for (const FragmentExplanation& fragment : fragments) json["fragments"].push_back(to_document(fragment));
    json["products"] = nlohmann::ordered_json::array();
    for (const Product& product : products) json["products"].push_back(document_of(product, device));
    std::printf("%s\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
  } else if (options.html.empty()) {
    for (const FragmentExplanation& fragment : fragments) std::printf("%s\n", to_text(fragment).c_str());
    for (const Product& product : products) std::printf("%s\n", text_of(product).c_str());
  }
  return sound ? ExitCode::success : ExitCode::failure;
}

}  // namespace

void add_explain_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand(
      "explain",
      "Why each kernel ends where it ends, how it is mapped, what its time is made of, what was counted; the pipelines "
      "of kernels for products");
  command->add_option("model", options->model, "model or fragment file")->required();
  add_common_options(*command, options->common);
  add_constraint_options(*command, options->common.constraints);
  CLI::Option* fragment = command->add_option("--fragment", options->fragment,
                                              "only fragments whose key starts with this, and no products");
  CLI::Option* html = command->add_option("--html", options->html, "write a self-contained page here instead of text");
  CLI::Option* pairs =
      command->add_option("--pairs", options->pairs, "pairs of kernels whose merger is examined, per fragment")
          ->capture_default_str();
  CLI::Option* no_run =
      command->add_flag("--no-run", options->no_run, "generate and run nothing: plan and predictions only");
  CLI::Option* program = command
                             ->add_option("--program", options->program,
                                          "instead: what the model's program runs, kernel by kernel, with its products "
                                          "by the library or by ours (run --products)")
                             ->transform(products_word());
  command
      ->add_option("--db", options->database,
                   "with --program: products as their plans and the library's calls were measured, where they were")
      ->needs(program);
  for (CLI::Option* other : {fragment, html, pairs, no_run}) program->excludes(other);
  command->callback([options, &code] {
    const Result<ExitCode> result = explain(*options);
    code = result ? *result : report(result.error(), options->common.json);
  });
}

}  // namespace stitch::cli
