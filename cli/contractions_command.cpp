#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/device_class.h"
#include "cli/commands.h"
#include "codegen/compile/compiler.h"
#include "codegen/contraction_kernel.h"
#include "graph/simplify.h"
#include "import/import.h"
#include "kernel/contraction/contraction_rules.h"
#include "tuning/kernels/built_kernel.h"

namespace stitch::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ContractionsOptions {
  std::filesystem::path model;
  std::string target = "h100";
  bool json = false, source = false;
};

/// A product of the model, or several that are equal.
struct Product {
  std::string call;  ///< as a library runs it
  std::int64_t count = 0;
  std::string why_none;  ///< no kernel of ours
  std::string problem, schedule, resources, source;
  std::int64_t blocks = 0, shared_bytes = 0;
  int threads = 0;
};

Status build(const kernel::ContractionProblem& problem, const DeviceSpec& device, codegen::NvrtcCompiler& compiler,
             Product& product) {
  product.problem = to_string(problem);
  STITCH_ASSIGN(const kernel::ContractionSchedule schedule, kernel::default_schedule(problem, device));
  product.schedule = to_string(schedule);
  codegen::GenerateOptions named;
  named.name = "stitch_" + kernel::contraction_hash(problem).hex().substr(0, 12);
  STITCH_ASSIGN(codegen::GeneratedKernel made, codegen::generate_contraction(problem, schedule, named));
  STITCH_ASSIGN(const codegen::CompiledKernel compiled,
                compiler.compile(tuning::compile_request(made.source, device.architecture())));
  product.resources = compiled.resources.describe();
  product.source = std::move(made.source);
  product.blocks = made.blocks;
  product.threads = made.threads;
  product.shared_bytes = made.shared_bytes;
  return {};
}

/// Every different product once, in the model's order.
Result<std::vector<Product>> products_of(const graph::Graph& graph, const DeviceSpec& device) {
  STITCH_ASSIGN(const auto compiler, codegen::NvrtcCompiler::create());
  std::vector<Product> products;
  std::map<std::string, std::size_t> known;
  for (const graph::LibraryCall& call : graph::find_library_calls(graph)) {
    const auto problem = kernel::contraction_of(graph, call);
    const std::string key = problem ? kernel::contraction_hash(*problem).hex() : call.description;
    const auto [at, fresh] = known.emplace(key, products.size());
    if (!fresh) {
      ++products[at->second].count;
      continue;
    }
    Product& product = products.emplace_back();
    product.call = call.description;
    product.count = 1;
    const Status built = problem ? build(*problem, device, *compiler, product) : Status(problem.error());
    if (!built) product.why_none = built.error().message;
  }
  return products;
}

Json document_of(const Product& product) {
  Json json = {{"call", product.call}, {"count", product.count}};
  if (!product.why_none.empty()) {
    json["why_none"] = product.why_none;
    return json;
  }
  json["problem"] = product.problem;
  json["schedule"] = product.schedule;
  json["blocks"] = product.blocks;
  json["threads"] = product.threads;
  json["shared_bytes"] = product.shared_bytes;
  json["resources"] = product.resources;
  json["source"] = product.source;
  return json;
}

void print(const Product& product, bool source) {
  std::printf("%lld × %s\n", static_cast<long long>(product.count), product.call.c_str());
  if (!product.why_none.empty()) {
    std::printf("    left to a library: %s\n", product.why_none.c_str());
    return;
  }
  std::printf("    %s\n    %s\n    %lld blocks of %d threads, %lld bytes of dynamic shared memory, %s\n",
              product.problem.c_str(), product.schedule.c_str(), static_cast<long long>(product.blocks),
              product.threads, static_cast<long long>(product.shared_bytes), product.resources.c_str());
  if (source) std::printf("%s\n", product.source.c_str());
}

Result<ExitCode> contractions(const ContractionsOptions& options) {
  RealFileSystem files;
  STITCH_ASSIGN(const DeviceClass device, find_device_class(options.target));
  STITCH_ASSIGN(auto imported, import::import_file(files, options.model));
  STITCH_TRY(graph::simplify(imported.graph));
  STITCH_ASSIGN(const std::vector<Product> products, products_of(imported.graph, device.spec));
  Json json = Json::array();
  for (const Product& product : products) {
    if (options.json) json.push_back(document_of(product));
    if (!options.json) print(product, options.source);
  }
  if (options.json) std::printf("%s\n", json.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  return ExitCode::success;
}

}  // namespace

void add_contractions_command(CLI::App& app, ExitCode& code) {
  auto options = std::make_shared<ContractionsOptions>();
  CLI::App* command =
      app.add_subcommand("contractions", "Kernels of ours for a model's products of matrices, beside the library's");
  command->add_option("model", options->model, "model file")->required();
  command->add_option("--target", options->target, "GPU")->check(target_name())->capture_default_str();
  command->add_flag("--source", options->source, "print the kernels");
  command->add_flag("--json", options->json, "one line of JSON");
  command->callback([options, &code] {
    const Result<ExitCode> result = contractions(*options);
    code = result ? *result : report(result.error(), options->json);
  });
}

}  // namespace stitch::cli
