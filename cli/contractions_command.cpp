#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/device_class.h"
#include "cli/commands.h"
#include "cli/contractions/measured_products.h"
#include "cli/contractions/priced_products.h"
#include "cli/contractions/problem_file.h"
#include "codegen/compile/compiler.h"
#include "codegen/contraction/attention_kernel.h"
#include "codegen/contraction/contraction_kernel.h"
#include "graph/calls/find_calls.h"
#include "graph/simplify.h"
#include "graph/subgraph.h"
#include "import/import.h"
#include "kernel/contraction/contraction_shape.h"
#include "tuning/contractions/attention_choice.h"
#include "tuning/contractions/contraction_choice.h"
#include "tuning/contractions/product_kernels.h"
#include "tuning/kernels/built_kernel.h"

namespace stitch::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct ContractionsOptions {
  std::filesystem::path model, problems, priced;
  std::string target, ablation = "none";
  bool json = false, source = false;
  MeasuredProductsOptions measured;  ///< with a device
};

/// A product of the model, or several that are equal.
struct Product {
  std::string name;  ///< the call as a library runs it, or what the file of problems calls it
  std::int64_t count = 1;
  std::string why_none;  ///< no kernel of ours
  std::optional<kernel::ContractionProblem> problem;
  std::optional<kernel::AttentionProblem> attention;  ///< instead
  tuning::ContractionChoice choice;
  tuning::AttentionChoice attention_choice;
  double seconds = 0;  ///< to enumerate and rank
  std::string resources, source;

  [[nodiscard]] const kernel::ContractionSchedule& schedule() const { return choice.ranked.best.front().schedule; }
  [[nodiscard]] const kernel::AttentionSchedule& attention_schedule() const {
    return attention_choice.ranked.best.front().schedule;
  }
  [[nodiscard]] Result<codegen::GeneratedKernel> generate(const codegen::GenerateOptions& options) const {
    return attention ? codegen::generate_attention(*attention, attention_schedule(), options)
                     : codegen::generate_contraction(*problem, schedule(), options);
  }
};

/// What is known of either kind alike.
struct Summary {
  std::string problem, schedule;
  std::int64_t enumerated = 0, blocks = 0, threads = 0, shared_bytes = 0;
  double predicted_us = 0, rival_us = 0, uncertainty_us = 0, dram_bytes = 0;
  const char* bound_by = "";
};

Summary summary_of(const Product& product) {
  if (product.attention) {
    const tuning::AttentionChoice& choice = product.attention_choice;
    const kernel::AttentionShape shape = shape_of(*product.attention, product.attention_schedule());
    return {to_string(*product.attention),
            to_string(product.attention_schedule()),
            choice.ranked.enumerated,
            shape.blocks,
            shape.threads,
            shape.shared_bytes,
            choice.time.total,
            choice.unfused_us,
            choice.uncertainty_us,
            choice.time.dram_bytes,
            choice.time.binding().first};
  }
  const tuning::ContractionChoice& choice = product.choice;
  const kernel::ContractionShape shape = shape_of(*product.problem, product.schedule());
  return {to_string(*product.problem),
          to_string(product.schedule()),
          choice.ranked.enumerated,
          shape.blocks,
          shape.threads,
          shape.shared_bytes,
          choice.time.total,
          choice.library_us,
          choice.uncertainty_us,
          choice.time.dram_bytes,
          choice.time.binding().first};
}

Result<search::ContractionSpaceOptions> space_of(const ContractionsOptions& options) {
  const auto ablation = search::ablation_from_name(options.ablation);
  if (ablation) return search::ContractionSpaceOptions{.ablation = *ablation};
  return make_error(ErrorKind::invalid_argument, "--without {}: none, two-stages, one-level or no-pipelining",
                    options.ablation);
}

Status choose(const DeviceSpec& device, const search::ContractionSpaceOptions& space, Product& product) {
  const Stopwatch watch;
  if (product.attention) {
    STITCH_ASSIGN(product.attention_choice, tuning::choose_attention(*product.attention, device, space));
  } else {
    STITCH_ASSIGN(product.choice, tuning::choose_contraction(*product.problem, device, space));
  }
  product.seconds = watch.seconds();
  return {};
}

Status compile(const DeviceSpec& device, codegen::NvrtcCompiler& compiler, Product& product) {
  codegen::GenerateOptions named;
  const Hash128 hash = product.attention ? attention_hash(*product.attention) : contraction_hash(*product.problem);
  named.name = "stitch_" + hash.hex().substr(0, 12);
  STITCH_ASSIGN(codegen::GeneratedKernel made, product.generate(named));
  STITCH_ASSIGN(const codegen::CompiledKernel compiled,
                compiler.compile(tuning::compile_request(made.source, device.architecture())));
  product.resources = compiled.resources.describe();
  product.source = std::move(made.source);
  return {};
}

/// A call as a kernel of ours would run it.
Product product_of(const graph::Graph& graph, const graph::LibraryCall& call) {
  Product product;
  product.name = call.description;
  auto problem = kernel::contraction_of(graph, call);
  if (problem) {
    product.problem = *std::move(problem);
    return product;
  }
  product.why_none = problem.error().message;
  auto part = graph::subgraph(graph, call.operands, {call.result});
  if (!part) return product;
  if (auto attention = tuning::attention_of(*part)) {
    product.attention = *std::move(attention);
    product.why_none.clear();
  }
  return product;
}

/// Every different product and attention once, in the model's order.
std::vector<Product> products_of(const graph::Graph& graph) {
  std::vector<Product> products;
  std::map<std::string, std::size_t> known;
  graph::LibraryOptions fused;
  fused.own = [](const graph::Graph& part) { return tuning::is_product(part); };
  for (const graph::LibraryCall& call : graph::find_library_calls(graph, fused)) {
    Product product = product_of(graph, call);
    const std::string key = product.attention ? attention_hash(*product.attention).hex()
                            : product.problem ? contraction_hash(*product.problem).hex()
                                              : call.description;
    const auto [at, fresh] = known.emplace(key, products.size());
    if (fresh) {
      products.push_back(std::move(product));
    } else {
      ++products[at->second].count;
    }
  }
  return products;
}

OrderedJson document_of(const Product& product, const DeviceSpec& device) {
  OrderedJson json = {{"name", product.name}, {"target", device.name}, {"count", product.count}};
  if (!product.why_none.empty()) {
    json["why_none"] = product.why_none;
    return json;
  }
  const Summary summary = summary_of(product);
  json["problem"] = summary.problem;
  json["schedule"] = summary.schedule;
  if (product.attention) {
    const kernel::AttentionSchedule& s = product.attention_schedule();
    json["tile"] = {{"rows", s.block_rows},
                    {"keys", s.block_keys},
                    {"warp", s.warp_rows},
                    {"stages", s.stages},
                    {"split", s.split}};
    json["turns"] = product.attention_choice.time.turns;
  } else {
    const kernel::ContractionSchedule& s = product.schedule();
    json["tile"] = {{"block", {s.block_rows, s.block_columns, s.block_depth}},
                    {"warp", {s.warp_rows, s.warp_columns}},
                    {"stages", s.stages},
                    {"split", s.split},
                    {"group", s.group}};
  }
  json["blocks"] = summary.blocks;
  json["threads"] = summary.threads;
  json["shared_bytes"] = summary.shared_bytes;
  json["enumerated"] = summary.enumerated;
  json["ranking_seconds"] = product.seconds;
  json["predicted_us"] = summary.predicted_us;
  json["library_us"] = summary.rival_us;
  json["uncertainty_us"] = summary.uncertainty_us;
  json["bound_by"] = summary.bound_by;
  json["dram_bytes"] = summary.dram_bytes;
  if (!product.resources.empty()) json["resources"] = product.resources;
  if (!product.source.empty()) json["source"] = product.source;
  return json;
}

void print_parts(const costmodel::ContractionTime& time) {
  std::printf("    loop %.2f (multiplying %.2f, shared memory %.2f, issue %.2f), L2 %.2f, device memory %.2f us\n",
              time.loop, time.multiply, time.shared, time.issue, time.l2, time.dram);
  std::printf("    + filling %.2f, epilogue %.2f, partial sums %.2f, launch %.2f us; %.2f rounds of %d blocks an SM\n",
              time.fill, time.epilogue, time.partial, time.launch, time.rounds, time.resident);
}

void print_parts(const costmodel::AttentionTime& time) {
  std::printf(
      "    loop %.2f (multiplying %.2f, exponentials %.2f, shared memory %.2f, issue %.2f), L2 %.2f, device "
      "memory %.2f us\n",
      time.loop, time.multiply, time.special, time.shared, time.issue, time.l2, time.dram);
  std::printf(
      "    + filling %.2f, epilogue %.2f, parts %.2f, launch %.2f us; %.2f rounds, %.1f tiles of keys a block\n",
      time.fill, time.epilogue, time.partial, time.launch, time.rounds, time.turns);
}

void print(const Product& product, bool source) {
  std::printf("%lld × %s\n", static_cast<long long>(product.count), product.name.c_str());
  if (!product.why_none.empty()) {
    std::printf("    left to a library: %s\n", product.why_none.c_str());
    return;
  }
  const Summary summary = summary_of(product);
  std::printf("    %s\n    %s\n", summary.problem.c_str(), summary.schedule.c_str());
  std::printf("    predicted %.2f us, %s %.2f (either ± %.2f); bound by %s; best of %lld schedules\n",
              summary.predicted_us, product.attention ? "the library's calls and a softmax" : "the library's call",
              summary.rival_us, summary.uncertainty_us, summary.bound_by, static_cast<long long>(summary.enumerated));
  if (product.attention) {
    print_parts(product.attention_choice.time);
  } else {
    print_parts(product.choice.time);
  }
  std::printf("    %lld blocks of %lld threads, %lld bytes of dynamic shared memory, %s\n",
              static_cast<long long>(summary.blocks), static_cast<long long>(summary.threads),
              static_cast<long long>(summary.shared_bytes), product.resources.c_str());
  if (source) std::printf("%s\n", product.source.c_str());
}

/// Those of a model, with kernels that were compiled; or those of a file, which are many, ranked only.
Result<std::vector<Product>> listed(const ContractionsOptions& options) {
  RealFileSystem files;
  if (!options.model.empty()) {
    STITCH_ASSIGN(auto imported, import::import_file(files, options.model));
    STITCH_TRY(graph::simplify(imported.graph));
    return products_of(imported.graph);
  }
  STITCH_ASSIGN(std::vector<NamedProblem> problems, read_problems(files, options.problems));
  std::vector<Product> products;
  for (NamedProblem& each : problems) {
    Product& product = products.emplace_back();
    product.name = std::move(each.name);
    if (auto* attention = std::get_if<kernel::AttentionProblem>(&each.problem)) {
      product.attention = std::move(*attention);
    } else {
      product.problem = std::get<kernel::ContractionProblem>(std::move(each.problem));
    }
  }
  return products;
}

Result<ExitCode> measured_contractions(const ContractionsOptions& options) {
  STITCH_ASSIGN(const std::vector<Product> products, listed(options));
  std::vector<NamedProblem> problems;
  for (const Product& product : products) {
    if (product.attention) problems.push_back({product.name, *product.attention});
    if (product.problem) problems.push_back({product.name, *product.problem});
    if (product.attention || product.problem) continue;
    const OrderedJson none = {{"name", product.name}, {"failure", product.why_none}, {"error", "unsupported"}};
    std::puts(none.dump(-1, ' ', false, OrderedJson::error_handler_t::replace).c_str());
  }
  MeasuredProductsOptions measured = options.measured;
  measured.common.target = options.target;
  return measure_products(problems, measured);
}

Result<ExitCode> contractions(const ContractionsOptions& options) {
  if (!options.measured.common.device.empty()) return measured_contractions(options);
  STITCH_ASSIGN(const DeviceClass device, find_device_class(options.target.empty() ? "h100" : options.target));
  if (!options.priced.empty()) {
    RealFileSystem files;
    STITCH_ASSIGN(const std::vector<NamedProblem> problems, read_problems(files, options.problems));
    return price_measured(problems, device.spec, options.priced);
  }
  STITCH_ASSIGN(const search::ContractionSpaceOptions space, space_of(options));
  STITCH_ASSIGN(std::vector<Product> products, listed(options));
  std::unique_ptr<codegen::NvrtcCompiler> compiler;
  if (options.problems.empty() || options.source) {
    STITCH_ASSIGN(compiler, codegen::NvrtcCompiler::create());
  }
  for (Product& product : products) {
    if (product.problem || product.attention) {
      Status made = choose(device.spec, space, product);
      if (made && compiler != nullptr) made = compile(device.spec, *compiler, product);
      if (!made) product.why_none = made.error().message;
    }
    if (!options.json) print(product, options.source);
    if (options.json) {
      std::printf(
          "%s\n",
          document_of(product, device.spec).dump(-1, ' ', false, OrderedJson::error_handler_t::replace).c_str());
    }
  }
  return ExitCode::success;
}

/// --device, and what goes with it alone.
CLI::Option* add_measuring_options(CLI::App& command, MeasuredProductsOptions& options) {
  CLI::Option* device =
      command.add_option("--device", options.common.device,
                         "where schedules of each are verified and, on gpu:N, measured: a line of JSON each");
  command.add_option("--best", options.best, "of --device: how many of the best predicted")
      ->needs(device)
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command.add_option("--ranks", options.ranks, "of --device: and at every doubling of the rank up to this one")
      ->needs(device)
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  command.add_option("--within", options.seconds, "of --device: seconds for all; 0: no limit")
      ->needs(device)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--cache", options.common.cache, "of --device: folder of compiled kernels")->needs(device);
  return device;
}

}  // namespace

void add_contractions_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<ContractionsOptions>();
  options->measured.common.device.clear();
  CLI::App* command =
      app.add_subcommand("contractions",
                         "Kernels of ours for products of matrices, convolutions and attentions, with what they and "
                         "the library's are predicted to take");
  CLI::Option* model =
      command->add_option("model", options->model, "model file: all its products, convolutions and attentions");
  CLI::Option* problems =
      command
          ->add_option("--problems", options->problems,
                       "file with a JSON array of products or attentions (bench/contractions, bench/attention)")
          ->excludes(model);
  command->add_option("--target", options->target, "GPU; without it, the device's own, or h100")->check(target_name());
  CLI::Option* without = command
                             ->add_option("--without", options->ablation,
                                          "pipelining that is left out: two-stages, one-level, no-pipelining")
                             ->capture_default_str();
  CLI::Option* source = command->add_flag("--source", options->source, "print the kernels");
  CLI::Option* json = command->add_flag("--json", options->json, "a line of JSON for each");
  CLI::Option* device = add_measuring_options(*command, options->measured);
  CLI::Option* priced = command->add_option(
      "--priced", options->priced,
      "lines that --device printed on a GPU: again, with what is predicted today for their schedules");
  priced->needs(problems)->excludes(device);
  for (CLI::Option* other : {without, source, json}) {
    device->excludes(other);  // what is measured is the space as it is, a line of JSON each
    priced->excludes(other);
  }
  command->callback([options, &code] {
    if (options->model.empty() == options->problems.empty()) throw CLI::RequiredError("a model or --problems");
    const Result<ExitCode> result = contractions(*options);
    code = result ? *result : report(result.error(), options->json);
  });
}

}  // namespace stitch::cli
