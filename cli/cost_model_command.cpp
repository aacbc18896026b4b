#include <array>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/device_class.h"
#include "cli/catalogue.h"
#include "cli/commands.h"
#include "cli/contractions/product_samples.h"
#include "cli/cost_model_table.h"
#include "codegen/compile/compiler.h"
#include "costmodel/constants/constant_origins.h"
#include "db/sqlite_store.h"
#include "tuning/cost_models/cost_model_training.h"
#include "tuning/cost_models/scored_recording.h"
#include "tuning/devices/device_set.h"
#include "tuning/kernels/training_samples.h"

namespace stitch::cli {
namespace {

using nlohmann::json;
using Kind = costmodel::TrainedCostModel::Kind;

struct CostModelOptions {
  std::filesystem::path database;
  std::string server;
  std::vector<std::filesystem::path> recordings, products;
  std::filesystem::path problems;
  std::string target = "h100", kind = "combined", by = "kernel";
  costmodel::TrainingOptions training;
  bool constants = false, without_code = false, json = false;
};

void print(const CostModelOptions& options, const json& document, const std::string& text) {
  std::fputs(options.json ? (document.dump() + "\n").c_str() : text.c_str(), stdout);
}

Result<std::unique_ptr<Catalogue>> open_catalogue(const CostModelOptions& options, const Clock& clock) {
  return options.server.empty() ? open_database_catalogue(options.database, clock)
                                : open_server_catalogue(options.server);
}

costmodel::TrainingOptions training_of(const CostModelOptions& options, Kind kind) {
  costmodel::TrainingOptions training = options.training;
  training.kind = kind;
  training.fold_by = options.by == "family" ? costmodel::FoldBy::family : costmodel::FoldBy::kernel;
  return training;
}

/// The samples of all recordings together. They must be of one target and one unit.
Result<costmodel::TrainingSet> samples_of(const std::vector<std::filesystem::path>& paths) {
  const RealFileSystem files;
  costmodel::TrainingSet all;
  for (const std::filesystem::path& path : paths) {
    STITCH_ASSIGN(const profiler::Recording recording, profiler::read_recording(files, path));
    auto set = tuning::samples_of_recording(recording);
    if (!set) return set.error().within(path.string());
    const bool first = &path == &paths.front();
    if (!first && (set->device != all.device || set->unit != all.unit))
      return make_error(ErrorKind::invalid_argument, "{}: recorded for {} in {}, {} for {} in {}", path.string(),
                        set->device, set->unit, paths.front().string(), all.device, all.unit);
    if (first) all.device = set->device, all.unit = set->unit;
    for (costmodel::TrainingSample& sample : set->samples) all.samples.push_back(std::move(sample));
  }
  return all;
}

/// The products that were measured; needs the problems that they are of.
Result<ProductSamples> measured_products(const CostModelOptions& options) {
  RealFileSystem files;
  STITCH_ASSIGN(const DeviceClass device, find_device_class(options.target));
  STITCH_ASSIGN(const std::vector<NamedProblem> problems, read_problems(files, options.problems));
  return product_samples(problems, device.spec, options.products);
}

// ---- list ---------------------------------------------------------------------------------------------------------

Result<ExitCode> list(const CostModelOptions& options) {
  const SystemClock clock;
  STITCH_ASSIGN(const auto catalogue, open_catalogue(options, clock));
  STITCH_ASSIGN(const json models, catalogue->list("cost-models"));
  std::string text = "name              device     version  samples  kernels  better  trained on\n";
  for (const json& model : models) {
    const json& accuracy = model.at("accuracy");
    text += fmt::format("{:<17} {:<10} {:>7}  {:>7}  {:>7}  {:<6}  {}\n", model.at("name").get<std::string>(),
                        model.at("device").get<std::string>(), model.at("version").get<int>(),
                        accuracy.value("samples", std::int64_t{0}), accuracy.value("kernels", std::int64_t{0}),
                        accuracy.value("better", false) ? "yes" : "no", model.at("training_set").get<std::string>());
  }
  print(options, models, models.empty() ? "no cost models\n" : text);
  return ExitCode::success;
}

// ---- train --------------------------------------------------------------------------------------------------------

std::string to_text(const costmodel::ConstantFit& fit) {
  std::string text =
      fmt::format("analytical constants: ln error {:.4f}, {:.4f} when fitted to {} candidates of {} kernels\n",
                  fit.error_before, fit.error_after, fit.samples, fit.kernels);
  for (const costmodel::FittedConstant& each : fit.changed)
    text += fmt::format("  {:<22} {:>9.4f} -> {:>9.4f}{}\n", each.name, each.before, each.after,
                        each.at_bound ? "  (at its bound)" : "");
  return text;
}

Result<costmodel::ConstantFit> fit_recordings(const CostModelOptions& options, std::string_view target) {
  const RealFileSystem files;
  std::vector<costmodel::FitSample> samples;
  for (const std::filesystem::path& path : options.recordings) {
    STITCH_ASSIGN(const profiler::Recording recording, profiler::read_recording(files, path));
    auto some = tuning::fit_samples_of(recording);
    if (!some) return some.error().within(path.string());
    for (costmodel::FitSample& sample : *some) samples.push_back(std::move(sample));
  }
  STITCH_ASSIGN(const DeviceClass device, find_device_class(target));
  return costmodel::fit_constants(samples, device.spec);
}

Result<ExitCode> train(const CostModelOptions& options) {
  if (options.database.empty() && options.recordings.empty() && options.products.empty())
    return make_error(ErrorKind::invalid_argument,
                      "nothing to train on: name a database, recordings, products, or several of them");
  if (options.constants && options.recordings.empty())
    return make_error(ErrorKind::invalid_argument, "--constants: constants are fitted to recordings");
  const SystemClock clock;
  std::unique_ptr<db::Store> store;
  if (!options.database.empty()) {
    db::SqliteOptions storage;
    storage.path = options.database;
    STITCH_ASSIGN(store, db::open_sqlite_store(storage, clock));
  }
  costmodel::TrainingSet set;
  const bool from_store = options.recordings.empty() && options.products.empty();
  if (from_store) {
    STITCH_ASSIGN(set, tuning::samples_of_store(*store, options.target));
  } else if (!options.recordings.empty()) {
    STITCH_ASSIGN(set, samples_of(options.recordings));
  }
  if (!options.products.empty()) {
    STITCH_ASSIGN(ProductSamples products, measured_products(options));
    if (!options.recordings.empty() && (set.device != products.set.device || set.unit != products.set.unit))
      return make_error(ErrorKind::invalid_argument, "products of {} in {}, recordings of {} in {}",
                        products.set.device, products.set.unit, set.device, set.unit);
    set.device = products.set.device;
    for (costmodel::TrainingSample& sample : products.set.samples) set.samples.push_back(std::move(sample));
  }
  json document = {{"device", set.device}, {"unit", set.unit}, {"samples", set.samples.size()}};
  std::string text;
  if (options.constants) {
    STITCH_ASSIGN(const costmodel::ConstantFit fit, fit_recordings(options, set.device));
    document["constants"] = to_document(fit);
    text += to_text(fit);
  }
  const Kind kind = *costmodel::model_kind_of(options.kind);
  json accuracy;
  if (store != nullptr) {
    const std::string judged = from_store ? "trained on the measurements of this store"
                                          : fmt::format("trained on {} recordings and {} files of products",
                                                        options.recordings.size(), options.products.size());
    STITCH_ASSIGN(const auto done, tuning::train_and_store(*store, set, training_of(options, kind), clock, judged));
    accuracy = tuning::accuracy_document(done.training);
    document["name"] = tuning::cost_model_name(kind, set.unit), document["version"] = done.version;
    document["training_set"] = done.training.model.training_set.hex();
    text += fmt::format("{} for {}: version {}\n", tuning::cost_model_name(kind, set.unit), set.device, done.version);
  } else {
    STITCH_ASSIGN(const costmodel::Training training, costmodel::train_model(set, training_of(options, kind)));
    accuracy = tuning::accuracy_document(training);
    document["training_set"] = training.model.training_set.hex();
  }
  document["accuracy"] = accuracy;
  CostModelTable table;
  table.add_accuracy(set.device, options.kind, accuracy);
  if (set.unit != "us") text += fmt::format("trained on {}, which are no times: never used to predict any\n", set.unit);
  print(options, document, text + table.text());
  return ExitCode::success;
}

// ---- report -------------------------------------------------------------------------------------------------------

/// Models of every kind, trained on parts of the recordings and judged on what was held out.
Result<ExitCode> report_recordings(const CostModelOptions& options) {
  STITCH_ASSIGN(const costmodel::TrainingSet set, samples_of(options.recordings));
  const auto ranked = costmodel::rank_samples(set.samples, nullptr);
  const json analytical = to_document(costmodel::ranking_quality(ranked.groups));
  json document = {{"device", set.device},
                   {"unit", set.unit},
                   {"samples", set.samples.size()},
                   {"held_out_by", options.by},
                   {"analytical", analytical}};
  CostModelTable table;
  table.add(set.device, "analytical", "all", analytical);
  for (const Kind kind : {Kind::learned, Kind::combined}) {
    STITCH_ASSIGN(const costmodel::Training training, costmodel::train_model(set, training_of(options, kind)));
    const json accuracy = tuning::accuracy_document(training);
    document[std::string(to_string(kind))] = accuracy;
    table.add_accuracy(set.device, to_string(kind), accuracy);
  }
  const std::string note =
      set.unit == "us"
          ? ""
          : fmt::format("figures are {}, which are no times: they show that everything fits together\n", set.unit);
  print(options, document, note + table.text());
  return ExitCode::success;
}

Result<ExitCode> cost_model_report(const CostModelOptions& options) {
  if (!options.recordings.empty()) return report_recordings(options);
  if (options.database.empty() && options.server.empty())
    return make_error(ErrorKind::invalid_argument, "nothing to report on: name --db, --server or --recording");
  const SystemClock clock;
  STITCH_ASSIGN(const auto catalogue, open_catalogue(options, clock));
  STITCH_ASSIGN(const json document, catalogue->cost_model_report());
  CostModelTable table;
  for (const json& each : document.at("analytical")) {
    const std::string device = each.at("device");
    table.add(device, "analytical", "all", each.at("quality"));
    for (const json& family : each.at("families"))
      table.add(device, "analytical", family.at("family").get<std::string>().substr(0, 8), family.at("quality"));
  }
  for (const json& model : document.at("cost_models"))
    table.add_accuracy(model.at("device").get<std::string>(),
                       fmt::format("{} v{}", model.at("name").get<std::string>(), model.at("version").get<int>()),
                       model.at("accuracy"));
  print(options, document, table.text());
  return ExitCode::success;
}

// ---- rank ---------------------------------------------------------------------------------------------------------

using Prediction = std::optional<double> tuning::ScoredCandidate::*;
struct ScorerColumn {
  std::string_view name;
  Prediction field;  ///< null: the analytical prediction, which is always there
};
constexpr std::array scorer_columns = {ScorerColumn{"analytical", nullptr},
                                       ScorerColumn{"  compiled", &tuning::ScoredCandidate::compiled_us},
                                       ScorerColumn{"learned", &tuning::ScoredCandidate::learned_us},
                                       ScorerColumn{"combined", &tuning::ScoredCandidate::combined_us},
                                       ScorerColumn{"  compiled", &tuning::ScoredCandidate::combined_compiled_us}};

/// How well a scorer orders the candidates of these kernels; no groups where it has no prediction.
costmodel::RankingQuality quality_of(const std::vector<tuning::ScoredKernel>& kernels, std::string_view kind,
                                     const ScorerColumn& scorer) {
  std::vector<costmodel::RankedGroup> groups;
  for (const tuning::ScoredKernel& kernel : kernels) {
    if (!kind.empty() && to_string(kernel.kind) != kind) continue;
    costmodel::RankedGroup& group = groups.emplace_back();
    for (const tuning::ScoredCandidate& each : kernel.candidates) {
      const std::optional<double> predicted =
          scorer.field == nullptr ? std::optional(each.analytical_us) : each.*scorer.field;
      if (predicted) group.push_back({*predicted, each.measured_us, each.failed});
    }
  }
  return costmodel::ranking_quality(groups);
}

Result<std::vector<tuning::ScoredKernel>> scored_recordings(const CostModelOptions& options) {
  RealFileSystem files;
  const SystemClock clock;
  std::unique_ptr<codegen::Compiler> compiler;
  std::unique_ptr<tuning::DeviceSet> devices;
  if (!options.without_code) {
    STITCH_ASSIGN(compiler, codegen::NvrtcCompiler::create());
    STITCH_ASSIGN(devices, tuning::DeviceSet::open({}, files, clock));
  }
  std::vector<tuning::ScoredKernel> kernels;
  for (const std::filesystem::path& path : options.recordings) {
    STITCH_ASSIGN(const profiler::Recording recording, profiler::read_recording(files, path));
    STITCH_ASSIGN(const DeviceClass planned, find_device_class(recording.target));
    std::optional<tuning::KernelWorkshop> workshop;
    if (!options.without_code) {
      tuning::WorkshopOptions making;
      making.architecture = recording.architecture;
      workshop.emplace(*compiler, devices->verifier(), nullptr, planned.spec, making);
    }
    auto scored =
        tuning::score_recording(recording, workshop ? &*workshop : nullptr, training_of(options, Kind::combined));
    if (!scored) return scored.error().within(path.string());
    for (tuning::ScoredKernel& kernel : *scored) kernels.push_back(std::move(kernel));
  }
  return kernels;
}

Result<ExitCode> rank_products(const CostModelOptions& options) {
  STITCH_ASSIGN(const ProductSamples samples, measured_products(options));
  costmodel::TrainingSet others;
  if (!options.recordings.empty()) {
    STITCH_ASSIGN(others, samples_of(options.recordings));
  }
  STITCH_ASSIGN(const json document, scored_products(samples, others, training_of(options, Kind::combined)));
  std::map<std::pair<std::string, std::string>, std::vector<costmodel::RankedGroup>> groups;
  for (const json& kernel : document.at("kernels")) {
    for (const char* scorer : {"analytical", "learned", "combined", "combined, both kinds"}) {
      costmodel::RankedGroup group;
      for (const json& each : kernel.at("candidates")) {
        if (each.contains(scorer)) group.push_back({each.at(scorer), each.at("measured_us"), each.at("failed")});
      }
      groups[{"all", scorer}].push_back(group);
      groups[{kernel.at("kind"), scorer}].push_back(std::move(group));
    }
  }
  CostModelTable table;
  for (const auto& [key, some] : groups) {
    const costmodel::RankingQuality quality = costmodel::ranking_quality(some);
    if (quality.groups > 0) table.add(key.first, key.second, "", to_document(quality));
  }
  print(options, document, table.text());
  return ExitCode::success;
}

Result<ExitCode> rank(const CostModelOptions& options) {
  if (!options.products.empty()) return rank_products(options);
  if (options.recordings.empty())
    return make_error(ErrorKind::invalid_argument, "nothing to rank: name --recording or --products");
  STITCH_ASSIGN(const std::vector<tuning::ScoredKernel> kernels, scored_recordings(options));
  json document = {{"kernels", json::array()}};
  std::set<std::string_view> kinds = {""};
  for (const tuning::ScoredKernel& kernel : kernels) {
    document["kernels"].push_back(to_document(kernel));
    kinds.insert(to_string(kernel.kind));
  }
  CostModelTable table;
  for (const std::string_view kind : kinds) {
    for (const ScorerColumn& scorer : scorer_columns) {
      const costmodel::RankingQuality quality = quality_of(kernels, kind, scorer);
      if (quality.groups > 0) table.add(kind.empty() ? "all" : kind, scorer.name, "", to_document(quality));
    }
  }
  print(options, document, table.text());
  return ExitCode::success;
}

// ---- constants ----------------------------------------------------------------------------------------------------

Result<ExitCode> constants(const CostModelOptions& options) {
  json document = json::array();
  std::map<std::string_view, int> count;
  std::string text;
  for (const costmodel::ConstantOriginRow& row : costmodel::constant_origins()) {
    const std::string_view origin = to_string(row.origin);
    ++count[origin];
    document.push_back({{"file", row.file}, {"name", row.name}, {"origin", origin}, {"source", row.source}});
    text += fmt::format("{:<8} {:<32} {:<32} {}\n", origin, row.name, row.file, row.source);
  }
  text += fmt::format("{} constants", costmodel::constant_origins().size());
  for (const auto& [origin, number] : count) text += fmt::format(", {}: {}", origin, number);
  print(options, document, text + "\n");
  return ExitCode::success;
}

using Run = Result<ExitCode> (*)(const CostModelOptions&);

CLI::App* add(CLI::App& model, const char* name, const char* about, Run run, std::shared_ptr<CostModelOptions> options,
              ExitCode& code) {
  CLI::App* command = model.add_subcommand(name, about);
  command->add_flag("--json", options->json, "print one JSON document");
  command->callback([options, run, &code] {
    const Result<ExitCode> done = run(*options);
    code = done ? *done : report(done.error(), options->json);
  });
  return command;
}

/// Files that `stitch contractions --device` wrote, and the problems that these are of.
void add_product_options(CLI::App& command, CostModelOptions& options) {
  CLI::Option* problems = command.add_option("--problems", options.problems, "JSON array of problems, of --products");
  command.add_option("--products", options.products, "products as they were measured; may be several")->needs(problems);
}

void add_training_options(CLI::App& command, CostModelOptions& options) {
  command.add_option("--recording", options.recordings, "recorded candidates (stitch record); may be several");
  command.add_option("--seed", options.training.seed, "of the training")->capture_default_str();
  command
      .add_option("--folds", options.training.folds, "parts that are held out in turn; 0: accuracy is not asked for")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  command.add_option("--by", options.by, "what is held out whole")
      ->check(CLI::IsMember({"kernel", "family"}))
      ->capture_default_str();
}

}  // namespace

void add_cost_model_command(CLI::App& app, ExitCode& code) {
  CLI::App* model =
      app.add_subcommand("cost-model", "Cost models: list them, train one, say how well they order candidates");
  model->require_subcommand(1);

  auto listing = std::make_shared<CostModelOptions>();
  CLI::App* command = add(*model, "list", "The cost models of a database or a server", list, listing, code);
  CLI::Option_group* place = command->add_option_group("where", "what is looked into");
  place->add_option("--db", listing->database, "database file");
  place->add_option("--server", listing->server, "unix:PATH or http://HOST:PORT");
  place->require_option(1);

  auto training = std::make_shared<CostModelOptions>();
  command = add(*model, "train", "Train a model on a database's measurements, or on recordings", train, training, code);
  command->add_option("--db", training->database,
                      "database that the model is stored in, and trained on without --recording");
  command->add_option("--target", training->target, "entry of the device table, of a database's measurements")
      ->capture_default_str();
  command->add_option("--kind", training->kind, "what the trees do")
      ->check(CLI::IsMember({"combined", "learned"}))
      ->capture_default_str();
  command->add_flag("--constants", training->constants, "also fit the analytical model's constants, and print them");
  add_training_options(*command, *training);
  add_product_options(*command, *training);

  auto reporting = std::make_shared<CostModelOptions>();
  command = add(*model, "report", "Rank correlation, recall and regret by device, family and version",
                cost_model_report, reporting, code);
  CLI::Option* database = command->add_option("--db", reporting->database, "database file");
  command->add_option("--server", reporting->server, "unix:PATH or http://HOST:PORT")->excludes(database);
  add_training_options(*command, *reporting);

  auto ranking = std::make_shared<CostModelOptions>();
  command = add(*model, "rank", "What every scorer says of recorded candidates, also after compiling them, by kind",
                rank, ranking, code);
  add_training_options(*command, *ranking);
  add_product_options(*command, *ranking);
  command->add_option("--target", ranking->target, "entry of the device table, of --products")->capture_default_str();
  add(*model, "constants", "Where every constant of the cost models comes from", constants,
      std::make_shared<CostModelOptions>(), code);
  command->add_flag("--without-code", ranking->without_code, "compile nothing");
}

}  // namespace stitch::cli
