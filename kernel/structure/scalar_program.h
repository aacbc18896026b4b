#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "kernel/index/axes.h"
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
  AxisSet axes;  ///< bit i: depends on axis i of the group
};

/// The axes of a group, and the index variable of each.
struct GroupAxes {
  std::vector<int> axes;  ///< ids in the AxisAnalysis (or beyond it: axes over partial results), outermost first
  std::vector<std::int64_t> extents;
  std::vector<Index> variables;  ///< made by ScalarProgram in its pool

  /// Product of the extents of some of them.
  [[nodiscard]] std::int64_t elements(AxisSet chosen) const {
    std::int64_t count = 1;
    for (const int a : chosen) count *= extents[a];
    return count;
  }
};

/// Where a value that an earlier phase stored can be read.
struct StoredValue {
  Buffer buffer;
  graph::Dims dims;
  graph::DType dtype = graph::DType::f32;  ///< of its elements in the buffer: wider than the value's while it is summed
};

/// Parts of a concatenation that a thread computes side by side: more take more registers than there are.
inline constexpr std::size_t most_interleaved = 8;

using StoredValues = std::map<graph::Value, StoredValue>;

/// Builds the items of one group by index propagation from its anchors: given a value and the index of the wanted
/// element, the indices of its operands follow from the operator alone (FusionStitching §4.2). Equal (value, index,
/// guard) requests share one item.
class ScalarProgram {
 public:
  ScalarProgram(const graph::Graph& graph, std::vector<int> axes, std::vector<std::int64_t> extents);

  /// Position of an axis id in the group, or -1.
  [[nodiscard]] int position(int axis) const;
  /// Indices (one per dimension) of the element of a value that the group's axis variables point at.
  std::vector<Index> canonical_indices(const AxisAnalysis& analysis, graph::Value value);

  /// Values that are read from a buffer instead of being computed.
  void set_stored(std::shared_ptr<const StoredValues> stored) { stored_ = std::move(stored); }
  /// Declares that a reduction's results are complete in every thread at these (canonical) indices.
  void set_reduced(graph::NodeId node, std::vector<Index> indices) { reduced_[node] = std::move(indices); }

  /// The item for `value` at `indices` (one per dimension), loads predicated on `guard`.
  /// Fails with kind constraint when a reduction is needed at an index where no thread holds it; `blocking()` then
  /// names the node.
  Result<ItemId> item(graph::Value value, const std::vector<Index>& indices, ItemId guard = -1);
  [[nodiscard]] std::optional<graph::NodeId> blocking() const { return blocking_; }

  /// An item that reads an element of a buffer directly (partial results of an earlier phase).
  ItemId load(Buffer buffer, graph::DType dtype, Index address, graph::Value origin, ItemId guard = -1);

  /// One contribution to a scatter: whether update number `batch` (row-major over the update's scatter dimensions) goes
  /// to the element at `indices`, and its value, computed only where it does.
  struct ScatterTerm {
    ItemId hits = -1;
    ItemId update = -1;
  };
  Result<ScatterTerm> scatter_term(graph::NodeId scatter, const std::vector<Index>& indices, Index batch);

  /// Where an element of an update goes: its indices in the result, and whether it goes anywhere (-1: always).
  struct Target {
    std::vector<Index> indices;
    ItemId guard = -1;
  };
  /// Of a dynamic-update-slice; `indices` are those of the element in the update.
  Result<Target> update_target(graph::NodeId update, const std::vector<Index>& indices);
  /// Of a scatter; windows that do not fit are dropped whole.
  Result<Target> scatter_target(graph::NodeId scatter, const std::vector<Index>& indices);

  [[nodiscard]] const std::vector<Item>& items() const { return items_; }
  [[nodiscard]] const Item& at(ItemId id) const { return items_[id]; }
  [[nodiscard]] ItemId item_count() const { return items_.size(); }
  /// All items' ids, in topological order.
  [[nodiscard]] auto item_ids() const { return std::views::iota(ItemId{}, item_count()); }
  [[nodiscard]] IndexPool& pool() { return pool_; }
  [[nodiscard]] const IndexPool& pool() const { return pool_; }
  [[nodiscard]] const GroupAxes& axes() const { return axes_; }
  [[nodiscard]] GroupAxes& axes() { return axes_; }
  /// The item whose value a dynamic index variable takes (gather, dynamic-slice), or -1.
  [[nodiscard]] ItemId dynamic_item(Index variable) const;
  /// Axes that an index expression depends on, through dynamic variables too.
  [[nodiscard]] AxisSet axes_of(Index index) const;
  /// Bytes of all elements that a load is made for, each once.
  [[nodiscard]] std::int64_t loaded_bytes(const Item& load) const;
  /// Items that an index expression needs.
  [[nodiscard]] std::vector<ItemId> items_of(Index index) const;

 private:
  struct Request {
    graph::Value value;
    std::vector<Index> indices;
    ItemId guard;
    auto operator<=>(const Request&) const = default;
  };

  /// Where one update of a scatter stands in the result.
  struct Window {
    std::vector<Index> start;       ///< per dimension of the result
    graph::Dims sizes;              ///< per dimension of the result; 1 where it has no window dimension
    std::vector<std::size_t> dims;  ///< dimension of the result for each window dimension of the update
    ItemId fits = -1;               ///< -1: always
  };
  /// `batch`: indices of the update's scatter dimensions.
  Result<Window> scatter_window(graph::NodeId scatter, const std::vector<Index>& batch);

  Result<ItemId> propagate(graph::Value value, const std::vector<Index>& indices, ItemId guard);
  Result<ItemId> propagate_layout(const graph::Node& node, graph::Value value, const std::vector<Index>& indices,
                                  ItemId guard);
  Result<ItemId> propagate_elementwise(const graph::Node& node, graph::Value value, const std::vector<Index>& indices,
                                       ItemId guard);
  Result<ItemId> concatenate(const graph::Node& node, graph::Value value, const std::vector<Index>& indices,
                             ItemId guard);
  Result<ItemId> pad(const graph::Node& node, graph::Value value, const std::vector<Index>& indices, ItemId guard);
  Result<ItemId> gather(const graph::Node& node, const std::vector<Index>& indices, ItemId guard);
  Result<ItemId> dynamic_slice(const graph::Node& node, const std::vector<Index>& indices, ItemId guard);
  Result<ItemId> dynamic_update_slice(const graph::Node& node, graph::Value value, const std::vector<Index>& indices,
                                      ItemId guard);
  Result<ItemId> reduce_window(const graph::Node& node, graph::Value value, const std::vector<Index>& indices,
                               ItemId guard);
  Result<ItemId> select_and_scatter(const graph::Node& node, graph::Value value, const std::vector<Index>& indices,
                                    ItemId guard);
  Result<ItemId> small_reduce(const graph::Node& node, graph::Value value, const std::vector<Index>& indices,
                              ItemId guard);

  [[nodiscard]] const StoredValue* stored(graph::Value value) const;
  /// A dynamic index: the item's value clamped to [0, high].
  Index dynamic_index(ItemId item, std::int64_t high);
  ItemId add(Item item);
  ItemId compute(graph::Op op, graph::Value origin, graph::DType dtype, std::vector<ItemId> operands);
  ItemId in_range(Index index, std::int64_t low, std::int64_t high);
  /// Whether `x` is more extreme than `than`; NaN is, except than NaN.
  ItemId more_extreme(ItemId x, ItemId than, graph::ReduceKind kind);
  ItemId compare(graph::Comparison comparison, ItemId a, ItemId b);
  ItemId compare_to_integer(graph::Comparison comparison, ItemId item, std::int64_t integer);
  ItemId both(ItemId a, ItemId b);
  ItemId literal(graph::Value origin, graph::DType dtype, std::uint64_t bits);
  /// The reduction's identity.
  ItemId identity(graph::ReduceKind kind, graph::Value origin, graph::DType dtype);

  const graph::Graph& graph_;
  GroupAxes axes_;
  IndexPool pool_;
  std::vector<Item> items_;
  std::map<Request, ItemId> memo_;
  std::shared_ptr<const StoredValues> stored_;  ///< of all groups of a phase; null: none
  std::map<graph::NodeId, std::vector<Index>> reduced_;
  std::unordered_map<Index, ItemId> dynamic_;
  std::map<std::pair<ItemId, std::int64_t>, Index> dynamic_by_item_;
  std::optional<graph::NodeId> blocking_;
};

}  // namespace stitch::kernel
