#include "cli/explain/program_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/contractions/product.h"
#include "kernel/program/traffic.h"
#include "kernel/structure/kernel_graph.h"
#include "tuning/contractions/contraction_choice.h"
#include "tuning/plans/plan_builder.h"
#include "tuning/programs/program_price.h"

namespace stitch::cli {
namespace {

using Kernels = std::vector<ProgramKernel>;

/// Where each fragment stands first, for whoever reads.
std::map<int, std::string> names_of_fragments(const api::Program& program) {
  std::map<int, std::string> names;
  for (const api::ProgramRegion& region : program.regions) {
    for (const api::ProgramStep& step : region.steps) {
      if (const auto* work = std::get_if<api::FragmentStep>(&step.work)) names.emplace(work->fragment, step.name);
    }
  }
  return names;
}

/// `product`: with the schedule that is chosen.
ProgramKernel kernel_of(const Product& product, const graph::Graph& graph) {
  const ProductSummary summary = summary_of(product);
  ProgramKernel kernel{
      .kind = "product", .name = summary.problem, .runs = summary.schedule, .us = summary.predicted_us};
  kernel.rival_us = summary.rival_us;
  kernel.bound_by = summary.bound_by;
  kernel.bytes = static_cast<double>(kernel::least_bytes(graph));
  return kernel;
}

/// Chooses as tuning::product_kernels does: of what is scaled also among kernels that make its operands into what they
/// stand for where they load them, since not every device has tensor cores for the others.
Status choose_as_planned(Product& product, const graph::Graph& graph, const DeviceSpec& device) {
  const search::ContractionSpaceOptions space = tuning::space_under(graph.constraints, 1);
  const Status chosen = choose(product, device, space);
  const auto* one = std::get_if<ContractionCase>(&product.of);
  if (one == nullptr || !one->problem.scales) return chosen;
  auto dequantised = tuning::dequantised_product(graph);
  if (!dequantised) return chosen;
  Product other = product;
  other.of = ContractionCase{*std::move(dequantised)};
  if (!choose(other, device, space)) return chosen;
  if (!chosen || summary_of(other).predicted_us < summary_of(product).predicted_us) product = std::move(other);
  return {};
}

/// The products of a program by their fragments' numbers, their schedules ranked. Errors: constraint (none is legal),
/// with the fragment's place; cancelled.
Result<std::map<int, Product>> chosen_products(const api::Program& program, std::map<int, std::string>& names,
                                               const DeviceSpec& device, const std::stop_token& stop) {
  std::map<int, Product> products;
  for (auto& [fragment, product] : products_by_fragment(program)) {
    if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while ranking '{}'", names[fragment]);
    const Status chosen = choose_as_planned(product, program.fragments[fragment].graph, device);
    if (!chosen) return chosen.error().within(names[fragment]);
    products.emplace(fragment, std::move(product));
  }
  return products;
}

/// Each kernel of a fragment's plan.
Kernels kernels_of_plan(const search::FusionPlan& plan, const search::Scorer& scorer) {
  Kernels kernels;
  for (const search::PlannedKernel& planned : plan.kernels) {
    const graph::Graph& graph = planned.kernel->graph;
    const kernel::KernelProgram& program = planned.kernel->candidates.front().program;
    const search::Score score = scorer.explain(graph, program);
    ProgramKernel& kernel = kernels.emplace_back();
    kernel.kind = "kernel";
    kernel.name = tuning::describe_kernel(graph, program);
    kernel.runs = fmt::format("{} blocks of {} threads", program.blocks, program.schedule.threads);
    kernel.us = planned.kernel->predicted_us();
    kernel.bytes = static_cast<double>(kernel::scheduled_bytes(graph, program));
    kernel.bound_by = score.binding;
  }
  return kernels;
}

}  // namespace

Result<ProgramKernels> kernels_of(const api::Program& program, const tuning::Tuner& tuner,
                                  const tuning::KnownCall& known, const std::stop_token& stop) {
  const auto measured = [&](const graph::Graph& product) -> Result<std::optional<double>> {
    if (!known) return std::optional<double>();
    STITCH_ASSIGN(const auto rival, tuning::library_rival(product, true, tuner, known));
    return rival ? std::optional(rival->us) : std::nullopt;
  };
  std::map<int, Kernels> planned;
  const auto keep = [&](int fragment, const search::FusionPlan& plan) {
    planned.emplace(fragment, kernels_of_plan(plan, tuner.scorer()));
  };
  const DeviceSpec& device = tuner.scorer().device();
  std::map<int, std::string> names = names_of_fragments(program);
  STITCH_ASSIGN(const auto products, chosen_products(program, names, device, stop));
  const auto priced = [&](int fragment) -> std::optional<double> {
    const auto found = products.find(fragment);
    return found == products.end() ? std::nullopt : std::optional(summary_of(found->second).predicted_us);
  };
  STITCH_ASSIGN(const auto steps, tuning::price_steps(program, tuner, stop, keep, priced));
  const tuning::ProgramPrice price = tuning::sum_of(steps);
  ProgramKernels result{{}, price.copies, price.foreign_steps, price.us, price.saved_us};
  const auto add = [&](ProgramKernel kernel, double times) {
    kernel.times = times;
    kernel.memory_us = kernel.bytes / device.reachable_bandwidth() * 1e6;
    result.kernels.push_back(std::move(kernel));
  };

  for (const auto& [number, times] : price.fragment_runs) {
    if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while explaining '{}'", names[number]);
    const graph::Graph& graph = program.fragments[number].graph;
    if (const auto found = products.find(number); found != products.end()) {
      ProgramKernel kernel = kernel_of(found->second, graph);
      STITCH_ASSIGN(kernel.rival_measured_us, measured(graph));
      add(std::move(kernel), times);
      continue;
    }
    for (ProgramKernel& kernel : planned.at(number)) add(std::move(kernel), times);
  }
  for (const auto& [number, times] : price.call_runs) {
    const api::ProgramCall& call = program.calls[number];
    ProgramKernel kernel{.kind = "library", .name = call.description};
    kernel.bytes = static_cast<double>(kernel::least_bytes(call.graph));
    const auto priced = tuner.product_price(call.graph);
    kernel.us = priced ? priced->library_us : tuner.copy_us(kernel.bytes);
    STITCH_ASSIGN(kernel.measured_us, measured(call.graph));
    add(std::move(kernel), times);
  }
  std::ranges::stable_sort(result.kernels, std::greater{},
                           [](const ProgramKernel& kernel) { return kernel.times * kernel.us; });
  return result;
}

std::string to_text(const ProgramKernels& program) {
  std::string text = fmt::format("program: {:.1f} us predicted, of which dependent launches save {:.1f}\n\n",
                                 program.predicted_us, program.saved_us);
  text += fmt::format("  {:>6} {:>5} {:>10} {:>10} {:>9}  {:<9}{:<24}{}\n", "share", "runs", "us", "MB", "÷ memory",
                      "by", "bound by", "what");
  double all = 0;
  for (const ProgramKernel& kernel : program.kernels) all += kernel.times * kernel.us;
  for (const ProgramKernel& kernel : program.kernels) {
    // Of what is over in no time memory is not what takes it.
    const std::string over =
        kernel.us > 100 * kernel.memory_us ? "–" : fmt::format("{:.2f}×", kernel.us / kernel.memory_us);
    text += fmt::format("  {:>5.1f}% {:>5.0f} {:>10.2f} {:>10.2f} {:>9}  {:<9}{:<24}{}\n",
                        100 * kernel.times * kernel.us / all, kernel.times, kernel.us, kernel.bytes / 1e6, over,
                        kernel.kind, kernel.bound_by, kernel.name);
    if (!kernel.runs.empty()) text += fmt::format("{:>58}{}\n", "", kernel.runs);
    if (kernel.measured_us) text += fmt::format("{:>58}measured: {:.2f} us\n", "", *kernel.measured_us);
    if (kernel.rival_measured_us) {
      text += fmt::format("{:>58}by the library: {:.2f} us predicted, {:.2f} measured\n", "", kernel.rival_us,
                          *kernel.rival_measured_us);
    }
  }
  if (program.copies > 0) text += fmt::format("  and {:.0f} copies\n", program.copies);
  if (program.foreign_steps > 0) {
    text += fmt::format("  and {:.0f} operators that neither computes, without a price\n", program.foreign_steps);
  }
  return text;
}

nlohmann::ordered_json to_document(const ProgramKernels& program) {
  nlohmann::ordered_json json = {{"predicted_us", program.predicted_us},
                                 {"saved_us", program.saved_us},
                                 {"copies", program.copies},
                                 {"foreign_steps", program.foreign_steps}};
  json["kernels"] = nlohmann::ordered_json::array();
  for (const ProgramKernel& kernel : program.kernels) {
    nlohmann::ordered_json row = {{"kind", kernel.kind},   {"name", kernel.name},
                                  {"times", kernel.times}, {"predicted_us", kernel.us},
                                  {"bytes", kernel.bytes}, {"memory_us", kernel.memory_us}};
    if (!kernel.runs.empty()) row["runs"] = kernel.runs;
    if (!kernel.bound_by.empty()) row["bound_by"] = kernel.bound_by;
    if (kernel.kind == "product") row["library_us"] = kernel.rival_us;
    if (kernel.measured_us) row["measured_us"] = *kernel.measured_us;
    if (kernel.rival_measured_us) row["library_measured_us"] = *kernel.rival_measured_us;
    json["kernels"].push_back(std::move(row));
  }
  return json;
}

}  // namespace stitch::cli
