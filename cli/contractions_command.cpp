#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/device_class.h"
#include "cli/commands.h"
#include "cli/contractions/problem_file.h"
#include "codegen/compile/compiler.h"
#include "codegen/contraction/contraction_kernel.h"
#include "graph/simplify.h"
#include "import/import.h"
#include "kernel/contraction/contraction_shape.h"
#include "tuning/contractions/contraction_choice.h"
#include "tuning/kernels/built_kernel.h"

namespace stitch::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct ContractionsOptions {
  std::filesystem::path model, problems;
  std::string target = "h100", ablation = "none";
  bool json = false, source = false;
};

/// A product of the model, or several that are equal.
struct Product {
  std::string name;  ///< the call as a library runs it, or what the file of problems calls it
  std::int64_t count = 1;
  std::string why_none;  ///< no kernel of ours
  std::optional<kernel::ContractionProblem> problem;
  tuning::ContractionChoice choice;
  double seconds = 0;  ///< to enumerate and rank
  std::string resources, source;

  [[nodiscard]] const kernel::ContractionSchedule& schedule() const { return choice.ranked.best.front().schedule; }
};

Result<search::ContractionSpaceOptions> space_of(const ContractionsOptions& options) {
  const auto ablation = search::ablation_from_name(options.ablation);
  if (ablation) return search::ContractionSpaceOptions{.ablation = *ablation};
  return make_error(ErrorKind::invalid_argument, "--without {}: none, two-stages, one-level or no-pipelining",
                    options.ablation);
}

Status choose(const DeviceSpec& device, const search::ContractionSpaceOptions& space, Product& product) {
  const Stopwatch watch;
  STITCH_ASSIGN(product.choice, tuning::choose_contraction(*product.problem, device, space));
  product.seconds = watch.seconds();
  return {};
}

Status compile(const DeviceSpec& device, codegen::NvrtcCompiler& compiler, Product& product) {
  codegen::GenerateOptions named;
  named.name = "stitch_" + kernel::contraction_hash(*product.problem).hex().substr(0, 12);
  STITCH_ASSIGN(codegen::GeneratedKernel made,
                codegen::generate_contraction(*product.problem, product.schedule(), named));
  STITCH_ASSIGN(const codegen::CompiledKernel compiled,
                compiler.compile(tuning::compile_request(made.source, device.architecture())));
  product.resources = compiled.resources.describe();
  product.source = std::move(made.source);
  return {};
}

/// Every different product once, in the model's order.
Result<std::vector<Product>> products_of(const graph::Graph& graph) {
  std::vector<Product> products;
  std::map<std::string, std::size_t> known;
  for (const graph::LibraryCall& call : graph::find_library_calls(graph)) {
    auto problem = kernel::contraction_of(graph, call);
    const std::string key = problem ? kernel::contraction_hash(*problem).hex() : call.description;
    const auto [at, fresh] = known.emplace(key, products.size());
    if (!fresh) {
      ++products[at->second].count;
      continue;
    }
    Product& product = products.emplace_back();
    product.name = call.description;
    if (problem) product.problem = *std::move(problem);
    if (!product.problem) product.why_none = problem.error().message;
  }
  return products;
}

OrderedJson document_of(const Product& product, const DeviceSpec& device) {
  OrderedJson json = {{"name", product.name}, {"target", device.name}, {"count", product.count}};
  if (!product.why_none.empty()) {
    json["why_none"] = product.why_none;
    return json;
  }
  const kernel::ContractionSchedule& s = product.schedule();
  const kernel::ContractionShape shape = shape_of(*product.problem, s);
  json["problem"] = to_string(*product.problem);
  json["schedule"] = to_string(s);
  json["tile"] = {{"block", {s.block_rows, s.block_columns, s.block_depth}},
                  {"warp", {s.warp_rows, s.warp_columns}},
                  {"stages", s.stages},
                  {"split", s.split},
                  {"group", s.group}};
  json["blocks"] = shape.blocks;
  json["threads"] = shape.threads;
  json["shared_bytes"] = shape.shared_bytes;
  json["enumerated"] = product.choice.ranked.enumerated;
  json["ranking_seconds"] = product.seconds;
  json["predicted_us"] = product.choice.time.total;
  json["library_us"] = product.choice.library_us;
  json["uncertainty_us"] = product.choice.uncertainty_us;
  json["bound_by"] = product.choice.time.binding().first;
  json["dram_bytes"] = product.choice.time.dram_bytes;
  if (!product.resources.empty()) json["resources"] = product.resources;
  if (!product.source.empty()) json["source"] = product.source;
  return json;
}

void print(const Product& product, bool source) {
  std::printf("%lld × %s\n", static_cast<long long>(product.count), product.name.c_str());
  if (!product.why_none.empty()) {
    std::printf("    left to a library: %s\n", product.why_none.c_str());
    return;
  }
  const costmodel::ContractionTime& time = product.choice.time;
  const kernel::ContractionShape shape = shape_of(*product.problem, product.schedule());
  std::printf("    %s\n    %s\n", to_string(*product.problem).c_str(), to_string(product.schedule()).c_str());
  std::printf("    predicted %.2f us, the library's call %.2f (either ± %.2f); bound by %s; best of %lld schedules\n",
              time.total, product.choice.library_us, product.choice.uncertainty_us, time.binding().first,
              static_cast<long long>(product.choice.ranked.enumerated));
  std::printf("    loop %.2f (multiplying %.2f, shared memory %.2f, issue %.2f), L2 %.2f, device memory %.2f us\n",
              time.loop, time.multiply, time.shared, time.issue, time.l2, time.dram);
  std::printf("    + filling %.2f, epilogue %.2f, partial sums %.2f, launch %.2f us; %.2f rounds of %d blocks an SM\n",
              time.fill, time.epilogue, time.partial, time.launch, time.rounds, time.resident);
  std::printf("    %lld blocks of %d threads, %lld bytes of dynamic shared memory, %s\n",
              static_cast<long long>(shape.blocks), shape.threads, static_cast<long long>(shape.shared_bytes),
              product.resources.c_str());
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
    product.problem = std::move(each.problem);
  }
  return products;
}

Result<ExitCode> contractions(const ContractionsOptions& options) {
  STITCH_ASSIGN(const DeviceClass device, find_device_class(options.target));
  STITCH_ASSIGN(const search::ContractionSpaceOptions space, space_of(options));
  STITCH_ASSIGN(std::vector<Product> products, listed(options));
  std::unique_ptr<codegen::NvrtcCompiler> compiler;
  if (options.problems.empty() || options.source) {
    STITCH_ASSIGN(compiler, codegen::NvrtcCompiler::create());
  }
  for (Product& product : products) {
    if (product.problem) {
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

}  // namespace

void add_contractions_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<ContractionsOptions>();
  CLI::App* command = app.add_subcommand(
      "contractions",
      "Kernels of ours for products of matrices, with what they and the library's are predicted to take");
  CLI::Option* model = command->add_option("model", options->model, "model file: all its products");
  command->add_option("--problems", options->problems, "file with a JSON array of products (bench/contractions)")
      ->excludes(model);
  command->add_option("--target", options->target, "GPU")->check(target_name())->capture_default_str();
  command
      ->add_option("--without", options->ablation, "pipelining that is left out: two-stages, one-level, no-pipelining")
      ->capture_default_str();
  command->add_flag("--source", options->source, "print the kernels");
  command->add_flag("--json", options->json, "a line of JSON for each");
  command->callback([options, &code] {
    if (options->model.empty() == options->problems.empty()) throw CLI::RequiredError("a model or --problems");
    const Result<ExitCode> result = contractions(*options);
    code = result ? *result : report(result.error(), options->json);
  });
}

}  // namespace stitch::cli
