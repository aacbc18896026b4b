#include "kernel/rewrite/sorted_updates.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include "graph/infer_checks.h"
#include "kernel/index/sorted_indices.h"
#include "kernel/rewrite/rewriting.h"

namespace stitch::kernel {
namespace {

using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::ScatterAttributes;
using graph::Value;

/// Fewer are tested as quickly as they are sorted, behind one more barrier of the grid.
constexpr std::int64_t fewest_updates = 128;
/// Lines that a warp searches at a time, and the shortest ones that are worth a block.
constexpr std::int64_t lines_of_warp = 32, least_line = 256;
/// Places and sorted updates are s32.
constexpr std::int64_t most_places = std::numeric_limits<std::int32_t>::max() / 2;

/// 0, 1, … from `first`.
Dims counted(std::int64_t count, std::int64_t first = 0) {
  Dims dims(count);
  std::iota(dims.begin(), dims.end(), first);
  return dims;
}

std::int64_t power_from(std::int64_t count) {
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
}

/// A scatter of whole rows to places that its operand's first dimensions number.
struct Rows {
  Dims extents;              ///< of the dimensions that places are numbered by
  Dims row;                  ///< of the others
  std::int64_t places = 0;   ///< product of the extents
  std::int64_t updates = 0;  ///< rows
};

std::optional<Rows> rows_of(const Graph& kernel, NodeId id) {
  const Node& node = kernel.node(id);
  if (node.op != Op::scatter || sorted_line(kernel, id) > 0) return std::nullopt;
  const auto& a = node.as<ScatterAttributes>();
  const Dims &operand = kernel.type(node.operands[0]).dims, &update = kernel.type(node.operands[2]).dims;
  const graph::TensorType& indices = kernel.type(node.operands[1]);
  const std::int64_t numbered = std::ssize(a.inserted_window_dims);
  Dims named = a.scatter_dims_to_operand_dims;
  std::ranges::sort(named);
  if (numbered == 0 || !a.input_batching_dims.empty() || named != a.inserted_window_dims || named != counted(numbered))
    return std::nullopt;
  if (indices.dtype != DType::s32 && indices.dtype != DType::s64 && indices.dtype != DType::u32) return std::nullopt;
  if (a.index_vector_dim + 1 < indices.rank()) return std::nullopt;
  Rows rows{{operand.begin(), operand.begin() + numbered}, {operand.begin() + numbered, operand.end()}};
  const std::int64_t batches = std::ssize(update) - std::ssize(rows.row);
  if (a.update_window_dims != counted(std::ssize(rows.row), batches)) return std::nullopt;
  if (!std::equal(rows.row.begin(), rows.row.end(), update.begin() + batches)) return std::nullopt;
  rows.places = graph::element_count(rows.extents);
  rows.updates = graph::element_count(Dims(update.begin(), update.begin() + batches));
  const bool any = rows.places > 0 && graph::element_count(rows.row) > 0 && rows.updates >= fewest_updates;
  return any && rows.places <= most_places && rows.updates <= most_places ? std::optional(rows) : std::nullopt;
}

class UpdateSorting {
 public:
  UpdateSorting(const Graph& kernel, std::int64_t line) : graph_(kernel), line_(line) {}

  std::optional<Graph> run() {
    const Graph& kernel = graph_.kernel();
    bool any = false;
    for (NodeId id = 0; id < kernel.size(); ++id) {
      const std::optional<Rows> rows = rows_of(kernel, id);
      any = any || rows;
      rows ? graph_.replace({id}, sorted(kernel.node(id), *rows)) : graph_.take_over(id);
    }
    return any ? graph_.finish() : std::nullopt;
  }

 private:
  Value shaped(Value x, const Dims& dims) {
    return graph_.type(x).dims == dims ? x : graph_.add(Op::reshape, {x}, graph::ReshapeAttributes{dims});
  }
  Value compared(graph::Comparison direction, Value x, double with) {
    const graph::TensorType type = graph_.type(x);
    return graph_.add(Op::compare, {x, graph_.filled(type.dtype, type.dims, with)},
                      graph::CompareAttributes{direction});
  }

  /// The component of the updates' index vectors that says where along the operand's dimension `d` they go.
  Value along(const Node& node, const Rows& rows, std::int64_t d) {
    const auto& a = node.as<ScatterAttributes>();
    const Value indices = graph_.at(node.operands[1]);
    const Dims dims = graph_.type(indices).dims;
    if (a.index_vector_dim == std::ssize(dims)) return shaped(indices, {rows.updates});
    const auto& components = a.scatter_dims_to_operand_dims;
    const std::int64_t component = std::ranges::find(components, d) - components.begin();
    if (dims.back() == 1) return shaped(indices, {rows.updates});
    Dims starts(dims.size(), 0), limits = dims;
    starts.back() = component;
    limits.back() = component + 1;
    return shaped(graph_.add(Op::slice, {indices}, graph::SliceAttributes{starts, limits, Dims(dims.size(), 1)}),
                  {rows.updates});
  }

  /// By update the place that it goes to; `rows.places` where that is none.
  Value keys(const Node& node, const Rows& rows) {
    const Dims strides = graph::row_major_strides(rows.extents), dims = {rows.updates};
    Value place, inside;
    for (std::int64_t d = 0; d < std::ssize(rows.extents); ++d) {
      const Value at = along(node, rows, d);
      const Value here = graph_.add(
          Op::bit_and, {compared(graph::Comparison::ge, at, 0), compared(graph::Comparison::lt, at, rows.extents[d])});
      inside = d == 0 ? here : graph_.add(Op::bit_and, {inside, here});
      Value term = graph_.type(at).dtype == DType::s32
                       ? at
                       : graph_.add(Op::convert, {at}, graph::ConvertAttributes{DType::s32});
      if (strides[d] != 1)
        term = graph_.add(Op::multiply, {term, graph_.filled(DType::s32, dims, static_cast<double>(strides[d]))});
      place = d == 0 ? term : graph_.add(Op::add, {place, term});
    }
    return graph_.add(Op::select, {inside, place, graph_.filled(DType::s32, dims, static_cast<double>(rows.places))});
  }

  Value sorted(const Node& node, const Rows& rows) {
    const std::int64_t line = std::min(line_, power_from(rows.updates)), lines = (rows.updates + line - 1) / line;
    const Dims all = {lines * line}, by_line = {lines, line};
    Value key = keys(node, rows);
    if (all[0] > rows.updates) {
      const Value nowhere = graph_.filled(DType::s32, {}, static_cast<double>(rows.places));
      key = graph_.add(Op::pad, {key, nowhere}, graph::PadAttributes{{0}, {all[0] - rows.updates}, {0}});
    }
    const Value number = graph_.add(Op::iota, {}, graph::IotaAttributes{{DType::s32, all}, 0});
    const Value order =
        graph_.add(Op::sort, {shaped(key, by_line), shaped(number, by_line)}, graph::SortAttributes{1, false, line});
    const Value from = shaped({order.node, 1}, all);
    return combined(node, rows, shaped(order, all), from);
  }

  /// The scatter of the updates `from`, which go to the places `to`.
  Value combined(const Node& node, const Rows& rows, Value to, Value from) {
    const std::int64_t rank = std::ssize(rows.row);
    graph::GatherAttributes taken;
    taken.offset_dims = counted(rank, 1);
    taken.collapsed_slice_dims = taken.start_index_map = {0};
    taken.index_vector_dim = 1;
    taken.slice_sizes = graph::joined(Dims{1}, rows.row);
    const Value updates = shaped(graph_.at(node.operands[2]), graph::joined(Dims{rows.updates}, rows.row));
    ScatterAttributes a;
    a.update_window_dims = counted(rank, 1);
    a.inserted_window_dims = a.scatter_dims_to_operand_dims = {0};
    a.index_vector_dim = 1;
    a.combiner = node.as<ScatterAttributes>().combiner;
    a.unique_indices = node.as<ScatterAttributes>().unique_indices;
    const Value operand = shaped(graph_.at(node.operands[0]), graph::joined(Dims{rows.places}, rows.row));
    const Value result = graph_.add(Op::scatter, {operand, to, graph_.add(Op::gather, {updates, from}, taken)}, a);
    return shaped(result, node.type().dims);
  }

  Rewriting graph_;
  const std::int64_t line_;
};

}  // namespace

std::optional<Graph> sort_updates(const Graph& kernel, std::int64_t line) { return UpdateSorting(kernel, line).run(); }

std::vector<std::int64_t> sorted_lines_of(const Graph& kernel) {
  std::set<std::int64_t, std::greater<>> lines;
  for (NodeId id = 0; id < kernel.size(); ++id) {
    const std::optional<Rows> rows = rows_of(kernel, id);
    if (!rows) continue;
    lines.insert(std::min(power_from(rows->updates), most_sorted_line));
    lines.insert(
        std::clamp(power_from((rows->updates + lines_of_warp - 1) / lines_of_warp), least_line, most_sorted_line));
  }
  return {lines.begin(), lines.end()};
}

}  // namespace stitch::kernel
