#include "cli/contractions/product.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "codegen/contraction/attention_kernel.h"
#include "codegen/contraction/contraction_kernel.h"
#include "graph/calls/find_calls.h"
#include "graph/subgraph.h"
#include "kernel/contraction/contraction_shape.h"
#include "tuning/contractions/product_kernels.h"

namespace stitch::cli {
namespace {

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
  auto part = graph::subgraph(graph, call.operands, call.results());
  if (!part) return product;
  if (auto attention = tuning::attention_of(*part)) {
    product.attention = *std::move(attention);
    product.why_none.clear();
  }
  return product;
}

std::string parts_of(const costmodel::ContractionTime& time) {
  return fmt::format(
      "    loop {:.2f} (multiplying {:.2f}, shared memory {:.2f}, issue {:.2f}), L2 {:.2f}, device memory {:.2f} us\n"
      "    + filling {:.2f}, epilogue {:.2f}, partial sums {:.2f}, launch {:.2f} us; {:.2f} rounds of {} blocks an "
      "SM\n",
      time.loop, time.multiply, time.shared, time.issue, time.l2, time.dram, time.fill, time.epilogue, time.partial,
      time.launch, time.rounds, time.resident);
}

std::string parts_of(const costmodel::AttentionTime& time) {
  return fmt::format(
      "    loop {:.2f} (multiplying {:.2f}, exponentials {:.2f}, shared memory {:.2f}, issue {:.2f}), L2 {:.2f}, "
      "device memory {:.2f} us\n"
      "    + filling {:.2f}, epilogue {:.2f}, parts {:.2f}, launch {:.2f} us; {:.2f} rounds, {:.1f} tiles of keys a "
      "block\n",
      time.loop, time.multiply, time.special, time.shared, time.issue, time.l2, time.dram, time.fill, time.epilogue,
      time.partial, time.launch, time.rounds, time.turns);
}

}  // namespace

std::vector<Product> products_of(const graph::Graph& graph) {
  std::vector<Product> products;
  std::map<std::string, std::size_t> known;
  graph::LibraryOptions fused;
  fused.own = [](const graph::Graph& part, bool) { return tuning::is_product(part); };
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

std::vector<Product> products_of(const api::Program& program) {
  std::vector<Product> products;
  std::set<int> seen;
  for (const api::ProgramRegion& region : program.regions) {
    for (const api::ProgramStep& step : region.steps) {
      const auto* work = std::get_if<api::FragmentStep>(&step.work);
      if (work == nullptr || !seen.insert(work->fragment).second) continue;
      const api::ProgramFragment& fragment = program.fragments[work->fragment];
      Product product;
      product.name = step.name;
      product.count = fragment.occurrences;
      if (auto attention = tuning::attention_of(fragment.graph)) {
        product.attention = *std::move(attention);
      } else if (auto problem = tuning::product_of(fragment.graph)) {
        product.problem = *std::move(problem);
      } else {
        continue;
      }
      products.push_back(std::move(product));
    }
  }
  return products;
}

Status choose(Product& product, const DeviceSpec& device, const search::ContractionSpaceOptions& space) {
  const Stopwatch watch;
  if (product.attention) {
    STITCH_ASSIGN(product.attention_choice, tuning::choose_attention(*product.attention, device, space));
  } else {
    STITCH_ASSIGN(product.choice, tuning::choose_contraction(*product.problem, device, space));
  }
  product.seconds = watch.seconds();
  return {};
}

Result<codegen::GeneratedKernel> generate(const Product& product, const codegen::GenerateOptions& options) {
  return product.attention ? codegen::generate_attention(*product.attention, product.attention_schedule(), options)
                           : codegen::generate_contraction(*product.problem, product.schedule(), options);
}

ProductSummary summary_of(const Product& product) {
  const auto summary = [](const auto& problem, const auto& schedule, const auto& choice, double rival_us) {
    const auto shape = shape_of(problem, schedule);
    const auto& time = choice.time;
    return ProductSummary{to_string(problem),
                          to_string(schedule),
                          choice.ranked.enumerated,
                          shape.blocks,
                          shape.threads,
                          shape.shared_bytes,
                          time.total,
                          rival_us,
                          choice.uncertainty_us,
                          time.dram_bytes,
                          time.binding().first,
                          time.turn};
  };
  if (product.attention) {
    const tuning::AttentionChoice& choice = product.attention_choice;
    return summary(*product.attention, product.attention_schedule(), choice, choice.unfused_us);
  }
  const tuning::LibraryPrice& library = product.choice.library;
  return summary(*product.problem, product.schedule(), product.choice, library.calls_us + library.rest_us);
}

std::string to_text(const Product& product) {
  std::string text = fmt::format("{} × {}\n", product.count, product.name);
  if (!product.why_none.empty()) return text + fmt::format("    left to a library: {}\n", product.why_none);
  const ProductSummary summary = summary_of(product);
  text += fmt::format("    {}\n    {}\n", summary.problem, summary.schedule);
  text +=
      fmt::format("    predicted {:.2f} us, {} {:.2f} (either ± {:.2f}); bound by {}; best of {} schedules\n",
                  summary.predicted_us, product.attention ? "the library's calls and a softmax" : "the library's call",
                  summary.rival_us, summary.uncertainty_us, summary.bound_by, summary.enumerated);
  text += product.attention ? parts_of(product.attention_choice.time) : parts_of(product.choice.time);
  return text + fmt::format("    {} blocks of {} threads, {} bytes of dynamic shared memory\n", summary.blocks,
                            summary.threads, summary.shared_bytes);
}

nlohmann::ordered_json to_document(const Product& product, const DeviceSpec& device) {
  nlohmann::ordered_json json = {{"name", product.name}, {"target", device.name}, {"count", product.count}};
  if (!product.why_none.empty()) {
    json["why_none"] = product.why_none;
    return json;
  }
  const ProductSummary summary = summary_of(product);
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
  return json;
}

}  // namespace stitch::cli
