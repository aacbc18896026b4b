#pragma once

#include <compare>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"
#include "kernel/index/axes.h"
#include "kernel/structure/item_list.h"

namespace stitch::kernel {

/// Where a value that an earlier phase stored can be read.
struct StoredValue {
  Buffer buffer;
  graph::Dims dims;
  graph::DType dtype = graph::DType::f32;  ///< of its elements in the buffer: wider than the value's while it is summed
};

using StoredValues = std::map<graph::Value, StoredValue>;

/// The scalar computations of one group, built by index propagation from its anchors: given a value and the index of
/// the wanted element, the indices of its operands follow from the operator alone (FusionStitching §4.2). Equal (value,
/// index, guard) requests share one item. Of y = transpose(exp(x)) over the axes (i, j) of y, of which x is f32[64,32]:
///
///     ScalarProgram program(graph, {0, 1}, {32, 64});
///     program.item(y, program.canonical_indices(analysis, y));
///     //   %0 load x[i + 32·j]     what y[i, j] is, is exp(x)[j, i]
///     //   %1 compute exp %0
///
/// GroupBuilder makes one for each group (kernel/structure/group_builder.h); the group's structure carries it. Which
/// items are uniform, held or computed again is decided over its items, the emitter prints them one by one, and the
/// cost model counts them. Operators that are more than arithmetic have rules of their own: layout_items.h,
/// window_items.h, scatter_items.h.
class ScalarProgram final : public OperandItems {
 public:
  using OperandItems::OperandItems;

  /// Indices (one per dimension) of the element of a value that the group's axis variables point at.
  std::vector<Index> canonical_indices(const AxisAnalysis& analysis, graph::Value value);

  /// Values that are read from a buffer instead of being computed.
  void set_stored(std::shared_ptr<const StoredValues> stored) { stored_ = std::move(stored); }
  /// Declares that a reduction's results are complete in every thread at these (canonical) indices.
  void set_reduced(graph::NodeId node, std::vector<Index> indices) { reduced_[node] = std::move(indices); }

  /// The item for `value` at `indices` (one per dimension), loads predicated on `guard`.
  /// Fails with kind constraint when a reduction is needed at an index where no thread holds it; `blocking()` then
  /// names the node.
  Result<ItemId> item(graph::Value value, const std::vector<Index>& indices, ItemId guard) override;
  Result<ItemId> item(graph::Value value, const std::vector<Index>& indices) { return item(value, indices, -1); }
  [[nodiscard]] std::optional<graph::NodeId> blocking() const { return blocking_; }

 private:
  struct Request {
    graph::Value value;
    std::vector<Index> indices;
    ItemId guard;
    auto operator<=>(const Request&) const = default;
  };

  Result<ItemId> propagate(graph::Value value, const std::vector<Index>& indices, ItemId guard);
  /// Operands first, by a list of what is begun: chains of operators are longer than a thread's stack is deep.
  Result<ItemId> propagate_elementwise(graph::Value value, const std::vector<Index>& indices, ItemId guard);
  /// Neither read from memory nor of any kind but element-wise: its operands are asked for at its own indices.
  [[nodiscard]] bool is_computed_by_element(graph::Value value) const;
  Result<ItemId> small_reduce(const graph::Node& node, graph::Value value, const std::vector<Index>& indices,
                              ItemId guard);
  [[nodiscard]] const StoredValue* stored(graph::Value value) const;

  std::map<Request, ItemId> memo_;
  std::shared_ptr<const StoredValues> stored_;  ///< of all groups of a phase; null: none
  std::map<graph::NodeId, std::vector<Index>> reduced_;
  std::optional<graph::NodeId> blocking_;
};

}  // namespace stitch::kernel
