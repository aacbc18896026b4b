#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ranges>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "kernel/index/axis_set.h"
#include "kernel/index/index_expr.h"

namespace stitch::kernel {

/// A tensor in device memory, as one kernel sees it.
struct Buffer {
  enum class Kind : std::uint8_t { input, output, scratch, table };
  Kind kind = Kind::input;
  int number = 0;  ///< parameter, result or scratch index; table: the constant's node
  auto operator<=>(const Buffer&) const = default;
};

/// Bytes of an input, a result or a table; nothing for scratch.
std::optional<std::int64_t> tensor_bytes(const graph::Graph& graph, const Buffer& buffer);

using ItemId = std::int32_t;

/// One scalar computation of a group: a graph value at a symbolic index. Items form a DAG in topological order; an
/// item is computed once for every combination of the axes that it depends on.
struct Item {
  enum class Kind : std::uint8_t {
    literal,   ///< a constant of type `dtype` with these `bits`
    index,     ///< the value of an index expression (iota)
    in_range,  ///< low ≤ index < high
    load,      ///< element `index` of `buffer`, 0 when `guard` does not hold
    compute,   ///< operator `op` applied to `operands`
    combine,   ///< reduction operator `combiner` applied to two operands (windows, small unrolled reductions)
    reduced,   ///< result of a reduction of this group, complete for the thread
  };
  Kind kind = Kind::compute;
  graph::Op op = graph::Op::add;
  graph::ReduceKind combiner = graph::ReduceKind::sum;
  graph::Comparison comparison = graph::Comparison::eq;  ///< of a compare
  graph::Value origin;                                   ///< the graph value, for names and attributes
  graph::DType dtype = graph::DType::f32;
  std::vector<ItemId> operands;
  Index index = -1;
  std::int64_t low = 0, high = 0;
  std::uint64_t bits = 0;  ///< little-endian encoding of one element
  Buffer buffer;
  ItemId guard = -1;
  AxisSet axes;  ///< positions of the axes that it depends on
};

/// The axes of a group, and the index variable of each.
struct GroupAxes {
  std::vector<int> axes;  ///< ids in the AxisAnalysis (or beyond it: axes over partial results), outermost first
  std::vector<std::int64_t> extents;
  std::vector<Index> variables;  ///< made by ItemList in its pool

  /// Product of the extents of some of them.
  [[nodiscard]] std::int64_t elements(AxisSet chosen) const {
    std::int64_t count = 1;
    for (const int a : chosen) count *= extents[a];
    return count;
  }
};

/// Parts of a concatenation that a thread computes side by side: more take more registers than there are.
inline constexpr std::size_t most_interleaved = 8;

/// The items of one group and the index expressions they use: what can be asked of them, and the ways to append one.
/// What to append for a graph value is a scalar program's to know.
class ItemList {
 public:
  ItemList(const graph::Graph& graph, std::vector<int> axes, std::vector<std::int64_t> extents);

  [[nodiscard]] const std::vector<Item>& items() const { return items_; }
  [[nodiscard]] const Item& at(ItemId id) const { return items_[id]; }
  [[nodiscard]] ItemId item_count() const { return items_.size(); }
  /// All items' ids, in topological order.
  [[nodiscard]] auto item_ids() const { return std::views::iota(ItemId{}, item_count()); }

  [[nodiscard]] const graph::Graph& graph() const { return graph_; }
  [[nodiscard]] IndexPool& pool() { return pool_; }
  [[nodiscard]] const IndexPool& pool() const { return pool_; }
  [[nodiscard]] const GroupAxes& axes() const { return axes_; }
  [[nodiscard]] GroupAxes& axes() { return axes_; }
  /// Position of an axis id in the group, or -1.
  [[nodiscard]] int position(int axis) const;

  /// The item whose value a dynamic index variable takes (gather, dynamic-slice), or -1.
  [[nodiscard]] ItemId dynamic_item(Index variable) const;
  /// Axes that an index expression depends on, through dynamic variables too.
  [[nodiscard]] AxisSet axes_of(Index index) const;
  /// Those of them that dynamic variables depend on: each element along one may be looked up elsewhere.
  [[nodiscard]] AxisSet looked_up_axes(Index index) const;
  /// Whether an index counts the elements of an aligned run of this width along an axis, from a multiple of the width.
  [[nodiscard]] bool counts_along(Index index, int axis, std::int64_t width) const;
  /// Items that an index expression needs.
  [[nodiscard]] std::vector<ItemId> items_of(Index index) const;
  /// Bytes of all elements that a load is made for, each once.
  [[nodiscard]] std::int64_t loaded_bytes(const Item& load) const;

  /// Appends an item; its axes are added to by what it needs.
  ItemId add(Item item);
  ItemId literal(graph::Value origin, graph::DType dtype, std::uint64_t bits);
  /// A reduction's identity.
  ItemId identity(graph::ReduceKind kind, graph::Value origin, graph::DType dtype);
  /// Element `address` of a buffer; 0 where `guard` (-1: none) does not hold.
  ItemId load(Buffer buffer, graph::DType dtype, Index address, graph::Value origin, ItemId guard = -1);
  /// A compare takes its direction from the node of `origin`.
  ItemId compute(graph::Op op, graph::Value origin, graph::DType dtype, std::vector<ItemId> operands);
  ItemId combine(graph::ReduceKind kind, graph::Value origin, graph::DType dtype, ItemId a, ItemId b);
  ItemId compare(graph::Comparison comparison, ItemId a, ItemId b);
  ItemId compare_to_integer(graph::Comparison comparison, ItemId item, std::int64_t integer);
  /// low ≤ index < high
  ItemId in_range(Index index, std::int64_t low, std::int64_t high);
  /// Whether both hold; -1 holds always.
  ItemId both(ItemId a, ItemId b);
  /// A dynamic index: the item's value clamped to [0, high].
  Index dynamic_index(ItemId item, std::int64_t high);

 private:
  const graph::Graph& graph_;
  GroupAxes axes_;
  IndexPool pool_;
  std::vector<Item> items_;
  std::unordered_map<Index, ItemId> dynamic_;
  std::map<std::pair<ItemId, std::int64_t>, Index> dynamic_by_item_;
};

/// What the rule of an operator (layout_items.h, window_items.h) works on: the list that it appends to, and whoever
/// knows the items of the operator's operands, which is the scalar program.
class OperandItems : public ItemList {
 public:
  using ItemList::ItemList;
  virtual ~OperandItems() = default;
  /// The item for an operand at `indices`, loads predicated on `guard`.
  virtual Result<ItemId> item(graph::Value value, const std::vector<Index>& indices, ItemId guard) = 0;
};

}  // namespace stitch::kernel
