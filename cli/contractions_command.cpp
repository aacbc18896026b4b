#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/device_class.h"
#include "cli/commands.h"
#include "cli/contractions/compiled_registers.h"
#include "cli/contractions/measured_products.h"
#include "cli/contractions/priced_products.h"
#include "cli/contractions/priced_tiles.h"
#include "cli/contractions/problem_file.h"
#include "cli/contractions/product.h"
#include "codegen/compile/compiler.h"
#include "graph/passes/attention/attention_gradients.h"
#include "graph/simplify.h"
#include "import/import.h"
#include "tuning/kernels/built_kernel.h"
#include "tuning/programs/model_program.h"

namespace stitch::cli {
namespace {

using OrderedJson = nlohmann::ordered_json;

struct ContractionsOptions {
  std::filesystem::path model, problems, priced, tiles;
  std::string target;
  std::vector<std::string> without;
  bool json = false, source = false, joined = false, warpgroups = true;
  int registers = 0;                 ///< schedules of each that are compiled, spread over the ranking
  int compiled = 0;                  ///< the same of the best
  double least_bound = 0;            ///< search::ContractionSpaceOptions
  MeasuredProductsOptions measured;  ///< with a device
};

/// A product, and what the compiler made of its kernel.
struct Listed {
  Product product;
  std::string resources, source;
};

Result<std::vector<search::PipelineAblation>> ablations_of(const ContractionsOptions& options) {
  std::vector<search::PipelineAblation> ablations;
  for (const std::string& name : options.without) {
    const auto ablation = search::ablation_from_name(name);
    if (!ablation) {
      return make_error(ErrorKind::invalid_argument, "--without {}: none, two-stages, one-level or no-pipelining",
                        name);
    }
    ablations.push_back(*ablation);
  }
  return ablations;
}

/// Of what is only ranked: one.
Result<search::ContractionSpaceOptions> space_of(const ContractionsOptions& options) {
  STITCH_ASSIGN(const auto ablations, ablations_of(options));
  if (ablations.size() > 1)
    return make_error(ErrorKind::invalid_argument, "--without: several parts need --device, where each is measured");
  search::ContractionSpaceOptions space;
  if (!ablations.empty()) space.ablation = ablations.front();
  space.warpgroups = options.warpgroups;
  space.least_bound = options.least_bound;
  return space;
}

Status compile(const DeviceSpec& device, codegen::NvrtcCompiler& compiler, Listed& listed) {
  const Product& product = listed.product;
  codegen::GenerateOptions named;
  named.name = "stitch_" + hash_of(product).hex().substr(0, 12);
  STITCH_ASSIGN(codegen::GeneratedKernel made, generate(product, named));
  STITCH_ASSIGN(const codegen::CompiledKernel compiled,
                compiler.compile(tuning::compile_request(made.source, device.architecture())));
  listed.resources = compiled.resources.describe();
  listed.source = std::move(made.source);
  return {};
}

OrderedJson document_of(const Listed& listed, const DeviceSpec& device) {
  OrderedJson json = to_document(listed.product, device);
  if (!listed.resources.empty()) json["resources"] = listed.resources;
  if (!listed.source.empty()) json["source"] = listed.source;
  return json;
}

void print(const Listed& listed, bool source) {
  std::fputs(to_text(listed.product).c_str(), stdout);
  if (!listed.product.why_none.empty()) return;
  if (!listed.resources.empty()) std::printf("    %s\n", listed.resources.c_str());
  if (source) std::printf("%s\n", listed.source.c_str());
}

/// Those of a model as a program has them that leaves none to a library.
Result<std::vector<Product>> products_joined(const ContractionsOptions& options, import::Imported imported) {
  CommonOptions common;
  common.target = options.target;
  if (!options.measured.common.device.empty()) common.device = options.measured.common.device;
  tuning::TunerOptions planning;
  planning.compiles = false;
  planning.products = tuning::ProductsBy::ours;
  STITCH_ASSIGN(const auto session, Session::open(common, planning));
  STITCH_ASSIGN(const api::Program program, tuning::outline_program(std::move(imported), *session->tuner,
                                                                    {.name = options.model.filename().string()}));
  return products_of(program);
}

/// Those of a model, with kernels that were compiled; or those of a file, which are many, ranked only.
Result<std::vector<Product>> products_in(const ContractionsOptions& options) {
  RealFileSystem files;
  if (!options.model.empty()) {
    STITCH_ASSIGN(auto imported, import::import_file(files, options.model));
    if (options.joined) return products_joined(options, std::move(imported));
    STITCH_TRY(graph::simplify(imported.graph));
    STITCH_TRY(graph::simplify_attention_gradients(imported.graph, {}));
    return products_of(imported.graph);
  }
  STITCH_ASSIGN(std::vector<NamedProblem> problems, read_problems(files, options.problems));
  std::vector<Product> products;
  for (NamedProblem& each : problems) {
    Product& product = products.emplace_back();
    product.name = std::move(each.name);
    std::visit(
        [&]<class Problem>(Problem& problem) {
          if constexpr (std::is_same_v<Problem, kernel::ContractionProblem>) {
            product.of = ContractionCase{std::move(problem)};
          } else if constexpr (std::is_same_v<Problem, kernel::AttentionProblem>) {
            product.of = AttentionCase{std::move(problem)};
          } else {
            product.of = ChainCase{std::move(problem)};
          }
        },
        each.problem);
  }
  return products;
}

Result<ExitCode> measured_contractions(const ContractionsOptions& options) {
  STITCH_ASSIGN(const std::vector<Product> products, products_in(options));
  std::vector<NamedProblem> problems;
  for (const Product& product : products) {
    if (product.is_ours()) {
      std::visit(
          [&]<class Case>(const Case& one) {
            if constexpr (!std::is_same_v<Case, std::monostate>) problems.push_back({product.name, one.problem});
          },
          product.of);
      continue;
    }
    const OrderedJson none = {{"name", product.name}, {"failure", product.why_none}, {"error", "unsupported"}};
    std::puts(none.dump(-1, ' ', false, OrderedJson::error_handler_t::replace).c_str());
  }
  MeasuredProductsOptions measured = options.measured;
  measured.common.target = options.target;
  STITCH_ASSIGN(measured.without, ablations_of(options));
  std::erase(measured.without, search::PipelineAblation::none);  // which is measured in any case
  return measure_products(problems, measured);
}

Result<ExitCode> contractions(const ContractionsOptions& options) {
  if (!options.measured.common.device.empty()) return measured_contractions(options);
  STITCH_ASSIGN(const DeviceClass device, find_device_class(options.target.empty() ? "h100" : options.target));
  if (!options.priced.empty() || !options.tiles.empty()) {
    RealFileSystem files;
    STITCH_ASSIGN(const std::vector<NamedProblem> problems, read_problems(files, options.problems));
    if (!options.tiles.empty()) return price_tiles(problems, device.spec, options.tiles);
    return price_measured(problems, device.spec, options.priced);
  }
  STITCH_ASSIGN(const search::ContractionSpaceOptions space, space_of(options));
  STITCH_ASSIGN(std::vector<Product> products, products_in(options));
  std::unique_ptr<codegen::NvrtcCompiler> compiler;
  const bool compiled_only = options.registers > 0 || options.compiled > 0;
  if (options.compiled > 0) {
    STITCH_ASSIGN(compiler, codegen::NvrtcCompiler::create_pool({}));
  } else if (options.problems.empty() || options.source || options.registers > 0) {
    STITCH_ASSIGN(compiler, codegen::NvrtcCompiler::create());
  }
  for (Product& product : products) {
    if (compiled_only) {
      if (!product.is_ours()) continue;
      const Status printed = options.compiled > 0
                                 ? print_compiled_best(product, options.compiled, device.spec, space, *compiler)
                                 : print_compiled_registers(product, options.registers, device.spec, space, *compiler);
      // Of what has no legal schedule there is nothing to say here.
      if (!printed && printed.error().kind != ErrorKind::constraint) return printed.error().within(product.name);
      continue;
    }
    Listed listed{std::move(product), {}, {}};
    if (listed.product.is_ours()) {
      Status made = choose(listed.product, device.spec, space);
      if (made && compiler != nullptr) made = compile(device.spec, *compiler, listed);
      if (!made) listed.product.why_none = made.error().message;
    }
    if (!options.json) print(listed, options.source);
    if (options.json) {
      std::printf("%s\n",
                  document_of(listed, device.spec).dump(-1, ' ', false, OrderedJson::error_handler_t::replace).c_str());
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
                         "Kernels of ours for products of matrices, convolutions, attentions and their gradients, with "
                         "what they and the library's are predicted to take");
  CLI::Option* model =
      command->add_option("model", options->model, "model file: all its products, convolutions and attentions");
  CLI::Option* problems =
      command
          ->add_option("--problems", options->problems,
                       "file with a JSON array of products, attentions or gradients of these (bench/contractions, "
                       "bench/attention)")
          ->excludes(model);
  command
      ->add_flag(
          "--joined", options->joined,
          "of a model: as a program has them, several of one operand in one kernel, and with the rows behind one")
      ->needs(model);
  command->add_option("--target", options->target, "GPU; without it, the device's own, or h100")->check(target_name());
  CLI::Option* without =
      command->add_option("--without", options->without,
                          "pipelining that is left out: two-stages, one-level, no-pipelining; with --device (and there "
                          "several) --best schedules without it are tried beside those with it");
  CLI::Option* warps =
      command->add_flag("!--single-warps", options->warpgroups, "schedules without wgmma and tcgen05 alone");
  CLI::Option* pruned =
      command
          ->add_option("--least-bound", options->least_bound,
                       "price products only whose bound, as DeepCuts prunes by, is this share of the greatest")
          ->check(CLI::Range(0.0, 1.0));
  CLI::Option* source = command->add_flag("--source", options->source, "print the kernels");
  CLI::Option* json = command->add_flag("--json", options->json, "a line of JSON for each");
  CLI::Option* registers =
      command
          ->add_option("--registers", options->registers,
                       "compile so many schedules of each, spread over the ranking: registers and spills beside what "
                       "was thought of them, a line of JSON each")
          ->check(CLI::Range(1, 10'000));
  CLI::Option* compiled =
      command
          ->add_option("--compile", options->compiled,
                       "compile so many of the best predicted of each side by side: seconds, registers and spills, a "
                       "line of JSON each")
          ->check(CLI::Range(1, 10'000));
  CLI::Option* device = add_measuring_options(*command, options->measured);
  CLI::Option* priced = command->add_option(
      "--priced", options->priced,
      "lines that --device printed on a GPU: again, with what is predicted today for their schedules");
  CLI::Option* tiles =
      command->add_option("--tiles", options->tiles,
                          "lines of tiles that others have chosen, {\"name\": …, \"tiles\": […]}: what is "
                          "predicted for each, in our space or not");
  priced->needs(problems)->excludes(device);
  tiles->needs(problems)->excludes(device)->excludes(priced);
  registers->excludes(source)->excludes(json);
  compiled->excludes(source)->excludes(json)->excludes(registers);
  for (CLI::Option* other : {without, warps, pruned, source, json, registers, compiled}) {
    if (other != without) device->excludes(other);  // a line of JSON each in any case
    priced->excludes(other);
    tiles->excludes(other);
  }
  command->callback([options, &code] {
    if (options->model.empty() == options->problems.empty()) throw CLI::RequiredError("a model or --problems");
    const Result<ExitCode> result = contractions(*options);
    code = result ? *result : report(result.error(), options->json);
  });
}

}  // namespace stitch::cli
