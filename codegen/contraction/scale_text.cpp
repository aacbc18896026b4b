#include "codegen/contraction/scale_text.h"

#include <array>

#include "codegen/contraction/element_text.h"
#include "codegen/spelling.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/depth_scales.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {
namespace {

using kernel::Index;
using kernel::Item;
using kernel::ItemId;

class FactorPrinter {
 public:
  FactorPrinter(Writer& out, const kernel::ScalarProgram& program) : out_(out), program_(program) {}

  /// The product of some items.
  void print(std::string_view name, std::string_view along, const std::vector<ItemId>& factors) {
    out_.open("__device__ __forceinline__ f32 {}(int {}, int k) const", name, along);
    std::vector<bool> needed(program_.item_count(), false);
    for (const ItemId factor : factors) {
      const std::vector<bool> used = kernel::needed_by(program_, factor);
      for (std::size_t id = 0; id < used.size(); ++id) needed[id] = needed[id] || used[id];
    }
    std::string product;
    for (const ItemId id : program_.item_ids()) {
      const Item& item = program_.at(id);
      if (!needed[id] || item.kind == Item::Kind::literal) continue;
      const std::string type = item.kind == Item::Kind::in_range ? "bool" : compute_type(item.dtype);
      out_.line("const {} x{} = {};", type, id, expression_of(item));
    }
    for (const ItemId factor : factors)
      product += fmt::format("{}static_cast<f32>({})", product.empty() ? "" : " * ", value(factor));
    out_.line("return {};", product.empty() ? "1.0f" : product);
    out_.close();
  }

 private:
  [[nodiscard]] std::string value(ItemId id) const {
    const Item& item = program_.at(id);
    return item.kind == Item::Kind::literal ? literal(item.dtype, item.bits) : fmt::format("x{}", id);
  }
  [[nodiscard]] std::string index(Index index) const {
    static constexpr std::array<std::string_view, 4> axes = {"batch", "row", "column", "k"};
    return index_of(program_, index, std::span<const std::string_view>(axes), [&](ItemId id) { return value(id); });
  }
  [[nodiscard]] std::string expression_of(const Item& item) const {
    const bool loads = item.kind == Item::Kind::load;
    const std::string loaded =
        loads ? fmt::format("load_one<Cached::streamed>(in{} + {})", item.buffer.number, index(item.index)) : "";
    return item_text(
        program_, item, [&](Index each) { return index(each); }, loaded, [&](ItemId id) { return value(id); });
  }

  Writer& out_;
  const kernel::ScalarProgram& program_;
};

constexpr std::string_view place_of_warp = "block_row + warp_row, block_column + warp_column";

}  // namespace

Status print_scales(Writer& out, const kernel::ContractionProblem& problem) {
  STITCH_ASSIGN(const kernel::ScaleElements elements, kernel::scale_elements(problem));
  out.open("struct Scales");
  out.line("static constexpr int rows = {}, columns = {}, depth = {};", problem.rows, problem.columns,
           problem.contracted);
  for (const int parameter : problem.scales->reads) {
    const graph::NodeId node = problem.scaled->parameters()[parameter];
    out.line("const {}* __restrict__ in{};", storage_type(problem.scaled->node(node).type().dtype), parameter);
  }
  out.line("int batch;");
  FactorPrinter printer(out, elements.program);
  printer.print("of_row", "row", elements.of_row);
  printer.print("of_column", "column", elements.of_column);
  out.set_depth(0);
  out.line("}};");
  out.blank();
  return {};
}

std::string scaled_cores(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                         std::string_view cores) {
  return fmt::format("ScaledCores<{}, Scales, {}, {}>", cores, kernel::has_one_row_factor(problem, schedule),
                     kernel::has_one_column_factor(problem, schedule));
}

void print_first_scales(Writer& out, const kernel::ContractionProblem& problem) {
  std::string members;
  for (const int parameter : problem.scales->reads) members += fmt::format("in{}, ", parameter);
  out.line("const Scales scales = {{{}batch}};", members);
  out.line("cores.ask(scales, {}, first_k);", place_of_warp);
}

void print_scaled_part(Writer& out, const kernel::ContractionProblem& problem,
                       const kernel::ContractionSchedule& schedule, std::string_view step, int depth,
                       std::int64_t steps, bool waits) {
  const std::int64_t part = problem.scales->depth;
  // Blocks that share the depth begin where a part does.
  out.open("if (({0} + 1) % {1} == 0 || {0} + 1 == {2})", step, part / depth, steps);
  if (waits) {
    out.line("wait_for_products<0>();");
    out.line("settle_results(cores);");
  }
  out.line("const int end = first_k + ({} + 1) * {};", step, depth);
  // Zero times infinity: the last of these blocks may have nothing left.
  if (schedule.split > 1) out.open("if ((end - 1) / {0} * {0} < {1})", part, problem.contracted);
  out.line("cores.add_scaled();");
  if (schedule.split > 1) out.close();
  out.line("cores.ask(scales, {}, end);", place_of_warp);
  if (!waits) return out.close();
  out.line("settle_results(cores);");
  out.close();
  out.open("else");
  out.line("wait_for_products<1>();");
  out.close();
}

void print_promoted_part(Writer& out, const kernel::ContractionProblem& problem,
                         const kernel::ContractionSchedule& schedule, std::string_view step,
                         const std::function<void()>& once_read) {
  out.line("wait_for_products<0>();");
  if (once_read) once_read();
  out.line("settle_results(cores);");
  if (!problem.scales) return out.line("cores.add_sums();");
  const std::int64_t tiles = problem.scales->depth / schedule.block_depth;
  // Zero times infinity: the last of the blocks that share the depth may have nothing left.
  if (schedule.split > 1) out.open("if (first_k + {} * {} < {})", step, schedule.block_depth, problem.contracted);
  out.line("cores.add_scaled();");
  if (schedule.split > 1) out.close();
  if (tiles > 1) out.open("if (({} + 1) % {} == 0)", step, tiles);
  out.line("cores.ask(scales, {}, first_k + ({} + 1) * {});", place_of_warp, step, schedule.block_depth);
  if (tiles > 1) out.close();
}

}  // namespace stitch::codegen
