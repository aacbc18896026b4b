#include "cli/contractions/product.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/clock.h"
#include "codegen/contraction/attention_kernel.h"
#include "codegen/contraction/chain_kernel.h"
#include "codegen/contraction/contraction_kernel.h"
#include "graph/calls/call_leaves.h"
#include "graph/calls/find_calls.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/realigned_copy.h"
#include "tuning/contractions/product_kernels.h"

namespace stitch::cli {
namespace {

template <class... Of>
struct Overloaded : Of... {
  using Of::operator()...;
};

/// The fragment as one of the kinds that several dots make.
std::optional<decltype(Product::of)> of_several(const graph::Graph& part) {
  if (auto attention = tuning::attention_of(part)) return AttentionCase{*std::move(attention)};
  if (auto chain = tuning::chain_of(part)) return ChainCase{*std::move(chain)};
  return std::nullopt;
}

/// A call as a kernel of ours would run it.
Product product_of(const graph::Graph& graph, const graph::LibraryCall& call) {
  Product product;
  product.name = call.description;
  if (call.further.empty()) {
    auto problem = kernel::contraction_of(graph, call);
    if (problem) {
      product.of = ContractionCase{*std::move(problem)};
      return product;
    }
    product.why_none = problem.error().message;
  }
  auto part = graph::own_graph(graph, call);
  if (!part) return product;
  if (auto several = of_several(*part)) {
    product.of = *std::move(several);
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

/// Of operands whose copies are realigned, what that takes.
std::string realigned_text(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                           const kernel::ContractionShape& shape) {
  std::string text;
  for (const bool left : {true, false}) {
    if (!kernel::is_realigned(schedule, left)) continue;
    text += fmt::format(
        "    {} operand in lines that begin at any {} bytes, realigned: two words and shifts for each 16 bytes; tiles "
        "on "
        "their way are in {} registers a thread\n",
        left ? "left" : "right", kernel::realigned_unit(left ? problem.left : problem.right), shape.held);
  }
  return text;
}

/// Of operands that are computed while they are loaded, and of scales by parts of the depth, what that takes.
std::string computing_text(const Product& product) {
  const auto* product_case = std::get_if<ContractionCase>(&product.of);
  if (product_case == nullptr) return {};
  const kernel::ContractionProblem& problem = product_case->problem;
  const auto shape = shape_of(problem, product_case->choice.ranked.best.front().schedule);
  std::string text;
  for (const kernel::ComputedOperand& computed : problem.computed) {
    text += fmt::format(
        "    {} operand computed while it is loaded: {} bytes of tensors an element, {} loads for each and {} for "
        "those "
        "that are copied together, {:.0f} instructions besides; a tile on its way is in {} registers a thread\n",
        computed.left ? "left" : "right", computed.tensor_bytes, computed.each.count, computed.together.count,
        computed.instructions, shape.held);
  }
  text += realigned_text(problem, product_case->choice.ranked.best.front().schedule, shape);
  if (problem.scales) {
    text += fmt::format(
        "    scaled by {} of depth: {} factors of rows and {} of columns a thread, {} bytes of scales, {} registers of "
        "sums besides\n",
        problem.scales->depth, shape.row_factors, shape.column_factors, problem.scales->bytes, shape.accumulators);
  }
  return text;
}

/// Of blocks that share turns, how many of what they have.
std::string streaming_text(const Product& product) {
  const auto* product_case = std::get_if<ContractionCase>(&product.of);
  if (product_case == nullptr) return {};
  const kernel::ContractionSchedule& schedule = product_case->choice.ranked.best.front().schedule;
  if (schedule.streamed == 0) return {};
  const kernel::ContractionShape shape = shape_of(product_case->problem, schedule);
  const kernel::StreamedParts parts = streamed_parts(shape.streamed);
  return fmt::format(
      "    stream-K: {} blocks share the {} turns of {} tiles, {} at most each; {} tiles come in {} parts, {} at most; "
      "behind them {} tiles with a block each; {} bytes of scratch memory\n",
      shape.streamed.blocks, shape.streamed.tiles * shape.streamed.turns, shape.streamed.tiles,
      shape.streamed.most_turns(), parts.tiles, parts.parts, parts.most, shape.streamed.whole, shape.scratch_bytes);
}

std::string parts_of(const costmodel::AttentionTime& time) {
  return fmt::format(
      "    loop {:.2f} (multiplying {:.2f}, exponentials {:.2f}, shared memory {:.2f}, issue {:.2f}), L2 {:.2f}, "
      "device memory {:.2f} us\n"
      "    + filling {:.2f}, epilogue {:.2f}, parts {:.2f}, launch {:.2f} us; {:.2f} rounds, {:.1f} tiles walked a "
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
    const std::string key = product.is_ours() ? hash_of(product).hex() : call.description;
    const auto [at, fresh] = known.emplace(key, products.size());
    if (fresh) {
      products.push_back(std::move(product));
    } else {
      ++products[at->second].count;
    }
  }
  return products;
}

std::vector<std::pair<int, Product>> products_by_fragment(const api::Program& program) {
  std::vector<std::pair<int, Product>> products;
  std::set<int> seen;
  for (const api::ProgramRegion& region : program.regions) {
    for (const api::ProgramStep& step : region.steps) {
      const auto* work = std::get_if<api::FragmentStep>(&step.work);
      if (work == nullptr || !seen.insert(work->fragment).second) continue;
      const api::ProgramFragment& fragment = program.fragments[work->fragment];
      Product product;
      product.name = step.name;
      product.count = fragment.occurrences;
      if (auto several = of_several(fragment.graph)) {
        product.of = *std::move(several);
      } else if (auto problem = tuning::product_of(fragment.graph)) {
        product.of = ContractionCase{*std::move(problem)};
      } else {
        continue;
      }
      products.emplace_back(work->fragment, std::move(product));
    }
  }
  return products;
}

std::vector<Product> products_of(const api::Program& program) {
  std::vector<Product> products;
  for (auto& [fragment, product] : products_by_fragment(program)) products.push_back(std::move(product));
  return products;
}

Hash128 hash_of(const Product& product) {
  return std::visit(Overloaded{[](const std::monostate&) { return Hash128{}; },
                               [](const ContractionCase& each) { return contraction_hash(each.problem); },
                               [](const AttentionCase& each) { return attention_hash(each.problem); },
                               [](const ChainCase& each) { return chain_hash(each.problem); }},
                    product.of);
}

Status choose(Product& product, const DeviceSpec& device, const search::ContractionSpaceOptions& space) {
  const Stopwatch watch;
  const auto keep = [](auto& each, auto chosen) -> Status {
    if (!chosen) return chosen.error();
    each.choice = *std::move(chosen);
    return {};
  };
  const Status chosen = std::visit(
      Overloaded{
          [](std::monostate&) { return Status{}; },
          [&](ContractionCase& each) { return keep(each, tuning::choose_contraction(each.problem, device, space)); },
          [&](AttentionCase& each) { return keep(each, tuning::choose_attention(each.problem, device, space)); },
          [&](ChainCase& each) { return keep(each, tuning::choose_chain(each.problem, device, space)); }},
      product.of);
  product.seconds = watch.seconds();
  return chosen;
}

namespace {

template <class Case>
const auto& schedule_of(const Case& each) {
  return each.choice.ranked.best.front().schedule;
}

double rival_us(const ContractionCase& each) { return each.choice.library.calls_us + each.choice.library.rest_us; }
double rival_us(const AttentionCase& each) { return each.choice.unfused_us; }
double rival_us(const ChainCase& each) { return each.choice.unfused_us; }

const char* rival_name(const Product& product) {
  if (std::holds_alternative<ContractionCase>(product.of)) return "the library's call";
  return std::holds_alternative<AttentionCase>(product.of) ? "the library's calls and a softmax"
                                                           : "the library's calls and what is between";
}

nlohmann::ordered_json tile_of(const kernel::ContractionSchedule& s) {
  nlohmann::ordered_json tile = {{"block", {s.block_rows, s.block_columns, s.block_depth}},
                                 {"warp", {s.warp_rows, s.warp_columns}},
                                 {"stages", s.stages},
                                 {"split", s.split},
                                 {"group", s.group}};
  if (s.streamed != 0) tile["streamed"] = s.streamed;
  if (s.left_realigned) tile["realigned"].push_back("left");
  if (s.right_realigned) tile["realigned"].push_back("right");
  return tile;
}
nlohmann::ordered_json tile_of(const kernel::AttentionSchedule& s) {
  return {
      {"rows", s.block_rows}, {"keys", s.block_keys}, {"warp", s.warp_rows}, {"stages", s.stages}, {"split", s.split}};
}
nlohmann::ordered_json tile_of(const kernel::ChainSchedule& s) {
  return {{"rows", s.block_rows}, {"columns", s.block_columns}, {"warp", s.warp_rows}, {"stages", s.stages}};
}

double turns_of(const Product& product) {
  if (const auto* attention = std::get_if<AttentionCase>(&product.of)) return attention->choice.time.turns;
  return std::get<ChainCase>(product.of).choice.time.turns;
}

/// Calls `use` with what kind of problem it is and its choice. Of ours only.
template <class Use>
auto with_case(const Product& product, const Use& use) {
  using Made = decltype(use(std::get<ContractionCase>(product.of)));
  return std::visit(
      Overloaded{[](const std::monostate&) -> Made { return {}; }, [&](const auto& each) -> Made { return use(each); }},
      product.of);
}

}  // namespace

Result<codegen::GeneratedKernel> generate(const Product& product, const codegen::GenerateOptions& options) {
  using Made = Result<codegen::GeneratedKernel>;
  return std::visit(
      Overloaded{[](const std::monostate&) -> Made { return make_error(ErrorKind::unsupported, "no kernel of ours"); },
                 [&](const ContractionCase& each) -> Made {
                   return codegen::generate_contraction(each.problem, schedule_of(each), options);
                 },
                 [&](const AttentionCase& each) -> Made {
                   return codegen::generate_attention(each.problem, schedule_of(each), options);
                 },
                 [&](const ChainCase& each) -> Made {
                   return codegen::generate_chain(each.problem, schedule_of(each), options);
                 }},
      product.of);
}

ProductSummary summary_of(const Product& product) {
  return with_case(product, [](const auto& each) {
    const auto& schedule = schedule_of(each);
    const auto shape = shape_of(each.problem, schedule);
    const auto& time = each.choice.time;
    return ProductSummary{to_string(each.problem),
                          to_string(schedule),
                          each.choice.ranked.enumerated,
                          shape.blocks,
                          shape.threads,
                          shape.shared_bytes,
                          time.total,
                          rival_us(each),
                          each.choice.uncertainty_us,
                          time.dram_bytes,
                          time.binding().first,
                          time.turn};
  });
}

std::string to_text(const Product& product) {
  std::string text = fmt::format("{} × {}\n", product.count, product.name);
  if (!product.why_none.empty()) return text + fmt::format("    left to a library: {}\n", product.why_none);
  const ProductSummary summary = summary_of(product);
  text += fmt::format("    {}\n    {}\n", summary.problem, summary.schedule);
  text += fmt::format("    predicted {:.2f} us, {} {:.2f} (either ± {:.2f}); bound by {}; best of {} schedules\n",
                      summary.predicted_us, rival_name(product), summary.rival_us, summary.uncertainty_us,
                      summary.bound_by, summary.enumerated);
  text += with_case(product, [](const auto& each) { return parts_of(each.choice.time); });
  text += computing_text(product);
  text += streaming_text(product);
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
  json["tile"] = with_case(product, [](const auto& each) { return tile_of(schedule_of(each)); });
  if (!std::holds_alternative<ContractionCase>(product.of)) json["turns"] = turns_of(product);
  json["blocks"] = summary.blocks;
  json["threads"] = summary.threads;
  json["shared_bytes"] = summary.shared_bytes;
  json["enumerated"] = summary.enumerated;
  if (const auto* each = std::get_if<ContractionCase>(&product.of); each != nullptr && each->choice.ranked.pruned > 0)
    json["pruned"] = each->choice.ranked.pruned;
  json["ranking_seconds"] = product.seconds;
  json["predicted_us"] = summary.predicted_us;
  json["library_us"] = summary.rival_us;
  json["uncertainty_us"] = summary.uncertainty_us;
  json["bound_by"] = summary.bound_by;
  json["dram_bytes"] = summary.dram_bytes;
  return json;
}

}  // namespace stitch::cli
