#include "kernel/contraction/depth_scales.h"

#include <algorithm>
#include <set>

#include "graph/dot_dimensions.h"
#include "graph/literal.h"
#include "graph/subgraph.h"
#include "kernel/structure/items.h"

namespace stitch::kernel {
namespace {

using graph::Dims;
using graph::NodeId;
using graph::Op;
using graph::Value;

enum Axis : int { batch_axis, row_axis, column_axis, depth_axis };

template <class... Arguments>
Error no_scales(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return make_error(ErrorKind::unsupported, format, std::forward<Arguments>(arguments)...);
}

bool is_one(const Item& item) {
  if (item.kind != Item::Kind::literal) return false;
  return graph::load_element(item.dtype, reinterpret_cast<const std::byte*>(&item.bits)) == 1;
}

/// Makes the scales' elements of the problem's axes.
class ScaleReader {
 public:
  explicit ScaleReader(const ContractionProblem& problem)
      : scales_(*problem.scales),
        attributes_(scales_.dot),
        made_{{*scales_.graph,
               {batch_axis, row_axis, column_axis, depth_axis},
               {problem.batch, problem.rows, problem.columns, problem.contracted}},
              {},
              {}} {}

  Result<ScaleElements> read() {
    const std::span<const Value> results = scales_.graph->results();
    for (std::size_t r = 0; r < results.size(); ++r) {
      const std::vector<Index> place = scales_.of_sums ? place_in_sums() : place_in_operand(scales_.sides[r]);
      STITCH_ASSIGN(const ItemId item, program().item(results[r], place));
      STITCH_TRY(add_factors(item));
    }
    return std::move(made_);
  }

 private:
  ScalarProgram& program() { return made_.program; }
  IndexPool& pool() { return made_.program.pool(); }
  [[nodiscard]] Index axis(Axis which) const { return made_.program.axes().variables[which]; }
  /// That of the dot's left or right operand's free dimension: the problem may be seen from the other side.
  [[nodiscard]] Index free_axis(bool left) const { return axis(left != scales_.other_side ? row_axis : column_axis); }

  /// Indices of some dimensions that are joined in an axis.
  void place(std::vector<Index>& indices, const Dims& dims, const Dims& dimensions, Index joined) {
    Dims extents;
    for (const std::int64_t d : dimensions) extents.push_back(dims[d]);
    const std::vector<Index> digits = pool().delinearise(joined, extents);
    for (std::size_t i = 0; i < dimensions.size(); ++i) indices[dimensions[i]] = digits[i];
  }

  std::vector<Index> place_in_operand(bool left) {
    const Dims &batch = left ? attributes_.lhs_batch : attributes_.rhs_batch,
               &contracting = left ? attributes_.lhs_contracting : attributes_.rhs_contracting;
    const Dims& dims = left ? scales_.lhs_dims : scales_.rhs_dims;
    std::vector<Index> indices(dims.size());
    place(indices, dims, batch, axis(batch_axis));
    place(indices, dims, graph::free_dimensions(dims.size(), batch, contracting), free_axis(left));
    place(indices, dims, contracting, axis(depth_axis));
    return indices;
  }

  /// Of the dot whose batch has the parts: a part is so much of the depth as that dot contracts.
  std::vector<Index> place_in_sums() {
    const auto& a = attributes_;
    const Dims &left = scales_.lhs_dims, &right = scales_.rhs_dims;
    Dims dims, batch, rows, columns;
    const auto add = [&](const Dims& of, const Dims& dimensions, Dims& to) {
      for (const std::int64_t d : dimensions) {
        to.push_back(std::ssize(dims));
        dims.push_back(of[d]);
      }
    };
    add(left, a.lhs_batch, batch);
    add(left, graph::free_dimensions(left.size(), a.lhs_batch, a.lhs_contracting), rows);
    add(right, graph::free_dimensions(right.size(), a.rhs_batch, a.rhs_contracting), columns);
    batch.erase(batch.begin() + scales_.parts);
    std::vector<Index> indices(dims.size());
    place(indices, dims, batch, axis(batch_axis));
    place(indices, dims, rows, free_axis(true));
    place(indices, dims, columns, free_axis(false));
    indices[scales_.parts] = pool().divide(axis(depth_axis), graph::product_of(left, a.lhs_contracting));
    return indices;
  }

  Status add_factors(ItemId id) {
    const Item& item = made_.program.at(id);
    const bool converts = item.kind == Item::Kind::compute && item.op == Op::convert;
    if (converts && graph::is_floating(item.dtype)) {
      const Item& from = made_.program.at(item.operands[0]);
      // What narrow products are rounded to they need not be.
      if (from.kind == Item::Kind::literal || graph::is_floating(from.dtype)) return add_factors(item.operands[0]);
    }
    if (item.kind == Item::Kind::compute && item.op == Op::multiply) {
      const std::vector<ItemId> operands = item.operands;
      for (const ItemId operand : operands) STITCH_TRY(add_factors(operand));
      return {};
    }
    if (is_one(item)) return {};
    const AxisSet axes = item.axes;
    if (axes.contains(row_axis) && axes.contains(column_axis))
      return no_scales("a scale of row and column together (item {})", id);
    (axes.contains(row_axis) ? made_.of_row : made_.of_column).push_back(id);
    return {};
  }

  const DepthScales& scales_;
  const graph::DotAttributes& attributes_;
  ScaleElements made_;
};

/// By item, what some factors are made of.
std::vector<bool> needed_for(const ScalarProgram& program, const std::vector<ItemId>& factors) {
  std::vector<bool> needed(program.item_count(), false);
  for (const ItemId factor : factors) {
    const std::vector<bool> used = needed_by(program, factor);
    for (std::size_t id = 0; id < used.size(); ++id) needed[id] = needed[id] || used[id];
  }
  return needed;
}

/// Whether nothing that is needed differs within any aligned run of `width` along an axis.
bool is_same(const ScalarProgram& program, const std::vector<bool>& needed, int axis, std::int64_t width) {
  for (const ItemId id : program.item_ids()) {
    if (!needed[id] || program.at(id).index < 0 || !program.at(id).axes.contains(axis)) continue;
    if (program.looked_up_axes(program.at(id).index).contains(axis)) return false;
    const IndexPool::Run run = program.pool().run(program.at(id).index, program.axes().variables[axis], width);
    if (!run.regular || run.step != 0) return false;
  }
  return true;
}

bool depends_on(const ScalarProgram& program, const std::vector<ItemId>& factors, int axis) {
  return std::ranges::any_of(factors, [&](ItemId id) { return program.at(id).axes.contains(axis); });
}

/// The longest such run of a multiple of `step`, up to `most`; 1: there is none.
std::int64_t longest_run(const ScalarProgram& program, const std::vector<bool>& needed, int axis, std::int64_t step,
                         std::int64_t most) {
  std::int64_t longest = 1;
  for (std::int64_t width = step; width <= most; width += step) {
    if (is_same(program, needed, axis, width)) longest = width;
  }
  return longest;
}

Status check_element_wise(const ScalarProgram& program, const std::vector<bool>& needed) {
  for (const ItemId id : program.item_ids()) {
    if (!needed[id]) continue;
    const Item& item = program.at(id);
    const bool loads = item.kind == Item::Kind::load;
    const bool fits = item.kind == Item::Kind::literal || item.kind == Item::Kind::index ||
                      item.kind == Item::Kind::in_range || item.kind == Item::Kind::compute ||
                      (loads && item.buffer.kind == Buffer::Kind::input && item.guard < 0);
    if (!fits || item.dtype == graph::DType::f64)
      return no_scales("a scale that is more than element-wise (item {})", id);
  }
  return {};
}

/// Longer runs are of no use: a block's tile has no more rows or columns, and no part that is summed more of depth.
constexpr std::int64_t longest = 1024;

}  // namespace

Result<ScaleElements> scale_elements(const ContractionProblem& problem) { return ScaleReader(problem).read(); }

Status describe_scales(ContractionProblem& problem) {
  STITCH_ASSIGN(const ScaleElements made, scale_elements(problem));
  const ScalarProgram& program = made.program;
  const std::vector<bool> of_row = needed_for(program, made.of_row), of_column = needed_for(program, made.of_column);
  STITCH_TRY(check_element_wise(program, of_row));
  STITCH_TRY(check_element_wise(program, of_column));
  DepthScales& scales = *problem.scales;
  if (!depends_on(program, made.of_row, depth_axis) && !depends_on(program, made.of_column, depth_axis))
    return no_scales("scales that are the same along the whole depth");
  std::vector<bool> both = of_row;
  for (std::size_t id = 0; id < both.size(); ++id) both[id] = both[id] || of_column[id];
  scales.depth = longest_run(program, both, depth_axis, least_scaled_depth, longest);
  if (scales.depth < least_scaled_depth) return no_scales("scales of less than {} of depth", least_scaled_depth);
  constexpr std::int64_t smallest_tile = 16;
  scales.same_rows = longest_run(program, of_row, row_axis, smallest_tile, longest);
  scales.same_columns = longest_run(program, of_column, column_axis, smallest_tile, longest);
  std::set<int> reads;
  const auto count = [&](const std::vector<bool>& needed) {
    double instructions = 0;
    for (const ItemId id : program.item_ids()) {
      const Item& item = program.at(id);
      if (!needed[id] || item.kind == Item::Kind::literal) continue;
      if (item.kind == Item::Kind::load) reads.insert(item.buffer.number);
      instructions += item.kind == Item::Kind::compute ? graph::info(item.op).instructions.narrow : 1;
    }
    return instructions;
  };
  scales.row_instructions = count(of_row);
  scales.column_instructions = count(of_column);
  scales.reads.assign(reads.begin(), reads.end());
  scales.bytes = 0;
  for (const int parameter : scales.reads)
    scales.bytes += scales.graph->node(scales.graph->parameters()[parameter]).type().bytes();
  return {};
}

}  // namespace stitch::kernel
