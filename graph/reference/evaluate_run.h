#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "graph/reference/evaluate_ops.h"
#include "graph/reference/tensor.h"

namespace stitch::graph::reference {

/// Where a parameter's values come from: one of the two, or neither when it is known not to be read.
struct Source {
  const Input* input = nullptr;
  const Block* block = nullptr;  ///< of the whole value
};

struct Wanted {
  Value value;
  std::vector<Box> boxes;
};

/// Index operands that were evaluated ahead of their users, shared by the evaluations of one graph.
using AheadCache = std::map<std::pair<Value, Box>, Block>;

/// One evaluation of one graph (a region of a loop or branch included). Steps: demand backwards, plan which
/// element-wise nodes are computed chunk by chunk inside their user, then compute depth first from what is wanted, so
/// that few values are alive at once.
class Evaluation {
 public:
  /// `restricted`: options.restrictions are about this graph.
  Evaluation(const Graph& graph, std::span<const Source> sources, const EvaluateOptions& options, Memory& memory,
             bool restricted, AheadCache* ahead = nullptr);

  /// Dense or uniform blocks, one per box, in order.
  Result<std::vector<std::vector<Block>>> run(const std::vector<Wanted>& wanted);

 private:
  struct NodeState {
    bool live = false;
    bool wanted = false;
    bool inlined = false;  ///< computed by the chunk inside `root`
    bool done = false;
    bool uniform = false;                     ///< known to have one value everywhere
    bool may_be_one_sided = false;            ///< the bounds: evaluate_functions.h
    bool in_parts = false;                    ///< a reduction whose parts are evaluations of their own
    NodeId root = -1;                         ///< the node whose evaluation computes this one
    std::vector<bool> reads;                  ///< per operand: whether any of it is demanded
    std::vector<std::vector<Block>> indices;  ///< per box: index operands evaluated ahead
    std::span<const Box> kept;                ///< OpContext::kept
  };

  [[nodiscard]] Slot& slot(Value value) {
    const std::size_t first = first_slot_[value.node];
    return slots_[first + value.result];
  }
  NodeState& state(NodeId id) { return states_[id]; }
  [[nodiscard]] OpContext context(NodeId id, std::size_t box);

  // demand
  Status demand_all();
  Status demand_node(NodeId id);
  Status demand_control(NodeId id);
  void demand_associative_scan(NodeId id);
  void demand_sort(NodeId id);
  [[nodiscard]] std::int64_t elements_read(NodeId id) const;
  [[nodiscard]] bool reads_too_much(NodeId id);
  Status find_indices(NodeId id, const Box& out, std::vector<Block>& indices);
  Result<Block> evaluate_ahead(Value value, const Box& box);
  void restrict_reductions();

  // plan
  void plan_chunks(const std::vector<std::vector<NodeId>>& users);
  [[nodiscard]] bool can_inline(NodeId id, const std::vector<NodeId>& users);
  void plan_one_sided(const std::vector<std::vector<NodeId>>& users);

  // compute
  Status compute_from(NodeId id);
  Status compute(NodeId id);
  [[nodiscard]] double work_of(NodeId id);
  Status compute_node(NodeId id);
  Status compute_parameter(NodeId id);
  Status compute_loop(NodeId id);
  Status compute_conditional(NodeId id);
  Status compute_random_bits(NodeId id);
  Result<Block> compute_in_parts(NodeId id, const Box& box);
  Status compute_associative_scan(NodeId id);
  Status compute_sort(NodeId id);
  Status round_blocks(NodeId id);
  Status doubt_blocks(NodeId id);
  Result<Block> without_one_sided(Block block);
  void release(NodeId id);

  // evaluate_elementwise.cpp
  Result<Block> compute_chunks(NodeId root, const std::vector<NodeId>& members, const Box& out);

  const Graph& graph_;
  std::span<const Source> sources_;
  const EvaluateOptions& options_;
  Memory& memory_;
  bool restricted_;
  AheadCache own_ahead_;
  AheadCache* ahead_;
  std::vector<Slot> slots_;
  std::vector<std::int32_t> first_slot_;
  std::vector<NodeState> states_;
  std::vector<std::vector<NodeId>> members_;  ///< per root: the nodes inlined into it, ascending
};

/// Which parameters the values depend on.
std::vector<bool> used_parameters(const Graph& graph, std::span<const Value> values);

/// Which carried values of a loop its results `wanted` depend on, over any number of trips.
std::vector<bool> needed_carried(const Node& loop, std::vector<bool> wanted);

}  // namespace stitch::graph::reference
