#include "codegen/product_emitter.h"

#include <algorithm>

#include "codegen/index_text.h"
#include "codegen/spelling.h"

namespace stitch::codegen {

using kernel::AxisSet;
using kernel::Index;
using kernel::Item;
using kernel::Level;
using kernel::StateProducts;

std::string ProductEmitter::type_of(const StateProducts& p) const {
  const bool half = p.dtype == graph::DType::f16;
  return fmt::format("StateProduct<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}>",
                     half ? "MmaF16" : "MmaBf16", storage_type(p.dtype), p.rows, p.columns * std::ssize(p.parts),
                     p.depth, p.pitch, p.column_warps, p.depth_warps, p.tiles, p.chunks, p.tiles_at_once, p.run(),
                     p.paired_rows(), p.sum_pitch());
}

std::string ProductEmitter::first_of(int axis) const {
  const std::string digit = axes_.digit(axis, Level::cluster);
  return digit == "0" ? "" : fmt::format("{} * {}", digit, group_.mapping.axes[axis].step(Level::cluster));
}

std::vector<HoistedLoad> ProductEmitter::weights() const {
  std::vector<HoistedLoad> all;
  for (std::size_t n = 0; n < group_.products.size(); ++n) {
    const StateProducts& p = product(n);
    HoistedLoad made;
    made.type = p.in_registers ? "u32" : "uint4";
    made.name = fmt::format("weights{}", n);
    made.dims = p.in_registers ? fmt::format("[{}][{}][4]", p.tiles, p.steps()) : "";
    made.in_shared = !p.in_registers;
    for (const StateProducts::Part& part : p.parts) made.buffers.push_back(scope_.program.at(part.weights).buffer);
    all.push_back(std::move(made));
  }
  return all;
}

void ProductEmitter::emit_types() {
  for (std::size_t n = 0; n < group_.products.size(); ++n) {
    const StateProducts& p = product(n);
    out_.line("// tensor cores: {} × {} columns of {} deep products, {} warps side by side, {} along the depth",
              p.parts.size(), p.columns, p.depth, p.column_warps, p.depth_warps);
    out_.line("using Product{} = {};", n, type_of(p));
  }
}

void ProductEmitter::emit_loads() {
  for (std::size_t n = 0; n < group_.products.size(); ++n) emit_load(n);
}

/// Columns of all parts stand side by side.
void ProductEmitter::emit_load(std::size_t n) {
  const StateProducts& p = product(n);
  const std::string axis = axes_.name(p.column_axis), type = storage_type(p.dtype);
  const std::vector<Index>& variables = scope_.program.axes().variables;
  const Index depth = variables[static_cast<std::size_t>(p.depth_axis)];
  out_.open("Product{0}::load(weights{0}, [&](int column) -> WeightColumn<{1}>", n, type);
  std::string place = p.parts.size() == 1 ? "column" : fmt::format("column % {}", p.columns);
  if (const std::string first = first_of(p.column_axis); !first.empty()) place = fmt::format("{} + {}", first, place);
  const std::int64_t extent = group_.extents[p.column_axis], blocks = group_.extent(p.column_axis, Level::cluster);
  const bool tail = p.columns * blocks > extent;
  const std::string inside = tail ? fmt::format("{} < {}", place, extent) : "true";
  if (tail) place = fmt::format("minimum({}, {})", place, extent - 1);
  out_.line("const int {} = {};", axis, place);
  for (std::size_t i = 0; i < p.parts.size(); ++i) {
    const Item& item = scope_.program.at(p.parts[i].weights);
    const kernel::IndexPool& pool = scope_.program.pool();
    const std::string from = index_text(pool, item.index, [&](Index each) { return each == depth ? "0" : axis; });
    const auto terms = pool.terms(item.index);
    const std::int64_t step = std::ranges::find(terms, depth, &kernel::IndexPool::Term::atom)->coefficient;
    if (i + 1 < p.parts.size()) out_.open("if (column < {})", static_cast<std::int64_t>(i + 1) * p.columns);
    out_.line("return {{{} + {}, {}, {}}};", scope_.pointers.name(item.buffer), from, step, inside);
    if (i + 1 < p.parts.size()) out_.close();
  }
  out_.close_with(");");
}

void ProductEmitter::emit_multiply() {
  if (group_.products.empty()) return;
  for (std::size_t n = 0; n < group_.products.size(); ++n) {
    const StateProducts& p = product(n);
    const Item& state = scope_.program.at(p.state);
    // The block's first row at depth 0.
    const std::vector<Index>& variables = scope_.program.axes().variables;
    const std::string first = first_of(p.row_axis);
    const std::string place = index_text(scope_.program.pool(), state.index, [&](Index variable) {
      const bool row = variable == variables[static_cast<std::size_t>(p.row_axis)];
      return row && !first.empty() ? "(" + first + ")" : std::string("0");
    });
    out_.line("f32* const sums{} = reinterpret_cast<f32*>(shared{});", n,
              offset_text(scope_.frame.shared_held + p.shared_offset));
    out_.line("Product{0}::multiply(weights{0}, {1} + {2}, sums{0});", n, scope_.pointers.name(state.buffer), place);
  }
  out_.line("__syncthreads();");
}

void ProductEmitter::emit_sum(int anchor) {
  for (std::size_t n = 0; n < group_.products.size(); ++n) {
    const StateProducts& p = product(n);
    const auto part = std::ranges::find(p.parts, anchor, &StateProducts::Part::anchor);
    if (part == p.parts.end()) continue;
    const AxisSet kept = AxisSet::of(p.row_axis) | AxisSet::of(p.column_axis);
    const auto within = [&](int axis) {
      const std::string first = first_of(axis);
      return first.empty() ? axes_.name(axis) : fmt::format("({} - {})", axes_.name(axis), first);
    };
    const std::int64_t before = (part - p.parts.begin()) * p.columns;
    const std::string place = fmt::format("sums{} + ({} * {} + {}{})", n, within(p.row_axis), p.sum_pitch(),
                                          within(p.column_axis), offset_text(before));
    const int depth = out_.depth();
    loops_.open_register_loops(kept);
    // A vector that begins in range ends there, or has sums of zero weights behind that.
    if (const std::string guard = axes_.range_guard(kept, false); !guard.empty()) out_.open("if ({})", guard);
    const std::string sum = items_.accumulator_name(anchor) + axes_.subscript(kept, false);
    const std::int64_t vector = axes_.has_vector(kept) ? axes_.vector_extent() : 1;
    std::int64_t width = std::min<std::int64_t>(vector, 4);
    while (p.columns % width != 0) width /= 2;
    if (vector > 1)
      out_.line("Product{}::sum<{}>({}, {});", n, width, sum, place);
    else
      out_.line("{} = Product{}::sum({});", sum, n, place);
    out_.close(out_.depth() - depth);
  }
}

}  // namespace stitch::codegen
