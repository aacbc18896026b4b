#include "graph/calls/find_calls.h"

#include <algorithm>
#include <cmath>

#include "graph/calls/attention.h"
#include "graph/calls/attention_gradients.h"
#include "graph/calls/call_layouts.h"
#include "graph/calls/call_leaves.h"
#include "graph/calls/row_results.h"
#include "graph/calls/wide_epilogue.h"
#include "graph/fill.h"
#include "graph/strided_view.h"

namespace stitch::graph {
namespace {

using Digits = std::vector<StridedView::Digit>;

Digits gathered(const StridedView& view, const Dims& dimensions) {
  Digits all;
  for (const std::int64_t d : dimensions) {
    const Digits& digits = view.dims[d];
    all.insert(all.end(), digits.begin(), digits.end());
  }
  return all;
}

/// Whether a matmul can read an operand with this layout: the contracted dimensions step evenly, nothing but a batch
/// dimension repeats, and the unit stride (leading dimension 1) is not on a batch dimension.
bool readable(const StridedView& view, const Dims& batch, const Dims& contracting) {
  if (collapsed(gathered(view, contracting)).size() > 1) return false;
  bool unit = false, any = false;
  for (std::size_t d = 0; d < view.dims.size(); ++d) {
    const bool is_batch = contains(batch, d);
    for (const StridedView::Digit& digit : view.dims[d]) {
      if (digit.extent == 1) continue;
      if (!is_batch) any = true;
      if (!is_batch && digit.stride == 0) return false;
      if (!is_batch && digit.stride == 1) unit = true;
    }
  }
  return unit || !any;
}

/// The value that a call reads instead of `operand`.
Value through_layouts(const Graph& graph, Value operand, const Dims& batch, const Dims& contracting) {
  const StridedView view = view_of(graph, operand);
  return readable(view, batch, contracting) ? view.source : operand;
}

/// A convolution takes any order of dimensions, and a kernel that is read backwards (its backward-data form).
Value through_convolution_layouts(const Graph& graph, Value operand, bool is_kernel) {
  while (true) {
    const Node& node = graph.node(operand.node);
    if (node.op == Op::transpose || (is_kernel && node.op == Op::reverse)) {
      operand = node.operands[0];
    } else {
      return operand;
    }
  }
}

class EpilogueFinder {
 public:
  EpilogueFinder(const Graph& graph, LibraryCall& call, const std::vector<std::vector<NodeId>>& uses,
                 const std::vector<bool>& results, std::vector<bool>& taken, bool transposes)
      : graph_(graph), call_(call), uses_(uses), results_(results), taken_(taken), transposes_(transposes) {}

  void extend() {
    while (step()) {
    }
    // Layout operators at the very end buy nothing by themselves: readers see through them.
    while (!call_.epilogue.empty()) {
      const Op op = graph_.node(call_.epilogue.back()).op;
      if (op != Op::reshape) break;
      taken_[call_.epilogue.back()] = false;
      call_.result = graph_.node(call_.epilogue.back()).operands[0];
      call_.epilogue.pop_back();
    }
  }

 private:
  enum class State { product, biased, activated, converted };

  bool step() {
    const std::size_t at = call_.result.node;
    if (results_[at] || uses_[at].size() != 1 || state_ == State::converted) return false;
    const NodeId user = uses_[at][0];
    const Node& node = graph_.node(user);
    if (taken_[user]) return false;
    switch (node.op) {
      case Op::reshape: return accept(user, state_);
      case Op::transpose:
        return transposes_ && graph_.node(call_.root).op == Op::dot && unit_stride_stays(node) && accept(user, state_);
      case Op::multiply: return state_ == State::product && other_is_scalar(node) && accept(user, state_);
      case Op::add: return absorb_addition(user, node);
      case Op::maximum:
        return state_ != State::activated && other_is_zero(node) && !used_twice(node) && accept(user, State::activated);
      case Op::convert: return narrows(node) && accept(user, State::converted);
      default: return false;
    }
  }

  /// A wider result would be written for others to read; they widen what they read for nothing.
  [[nodiscard]] bool narrows(const Node& conversion) const {
    const DType to = conversion.type().dtype, from = graph_.type(conversion.operands[0]).dtype;
    return is_floating(to) && is_floating(from) && byte_size(to) <= byte_size(from);
  }

  bool accept(NodeId user, State state) {
    call_.epilogue.push_back(user);
    taken_[user] = true;
    call_.result = {user, 0};
    state_ = state;
    return true;
  }

  [[nodiscard]] Value other(const Node& node) const {
    return node.operands[0].node == call_.result.node ? node.operands[1] : node.operands[0];
  }
  [[nodiscard]] static bool used_twice(const Node& node) {
    return node.operands.size() == 2 && node.operands[0] == node.operands[1];
  }

  [[nodiscard]] bool other_is_scalar(const Node& node) const {
    return !used_twice(node) && fill_number(graph_, other(node)).has_value();
  }
  [[nodiscard]] bool other_is_zero(const Node& node) const { return fill_number(graph_, other(node)) == 0.0; }

  /// Transposing the result is a matter of strides as long as rows or columns stay contiguous.
  [[nodiscard]] bool unit_stride_stays(const Node& node) const {
    const auto& permutation = node.as<TransposeAttributes>().permutation;
    const Dims& dims = graph_.node(node.operands[0].node).type().dims;
    std::size_t last = dims.size();
    while (last-- > 0 && dims[last] == 1) {
    }
    for (std::size_t d = permutation.size(); d-- > 0;) {
      const std::size_t from = permutation[d];
      if (dims[from] != 1) return from == last || !is_batch_digit(from);
    }
    return true;
  }
  /// Conservative: after a reshape it is no longer known which dimensions were batch dimensions.
  [[nodiscard]] bool is_batch_digit(std::size_t dimension) const {
    const Node& root = graph_.node(call_.root);
    if (!call_.epilogue.empty()) return true;
    return dimension < root.as<DotAttributes>().lhs_batch.size();
  }

  bool absorb_addition(NodeId user, const Node& node) {
    if (used_twice(node) || state_ == State::activated) return false;
    const Value added = other(node);
    if (depends_on_result(added)) return false;
    if (const std::optional<Value> bias = bias_vector(added); bias && state_ == State::product) {
      call_.operands.push_back(*bias);
      return accept(user, State::biased);
    }
    if (has_addend_ || !plain_tensor(added)) return false;
    has_addend_ = true;
    call_.operands.push_back(added);
    return accept(user, State::biased);
  }

  /// The library adds a tensor that lies in memory; a repeated or constant one would have to be written out first.
  [[nodiscard]] bool plain_tensor(Value value) const {
    const Op op = graph_.node(value.node).op;
    return op != Op::broadcast && op != Op::constant && op != Op::iota && op != Op::transpose && op != Op::convert;
  }

  /// A vector along the columns (last dimension of a dot, features of a convolution), repeated along the others.
  [[nodiscard]] std::optional<Value> bias_vector(Value value) const {
    const Node& node = graph_.node(value.node);
    if (node.op != Op::broadcast) return std::nullopt;
    const auto& a = node.as<BroadcastAttributes>();
    if (graph_.type(node.operands[0]).elements() <= 1) return std::nullopt;
    const Node& root = graph_.node(call_.root);
    if (root.op == Op::convolution) {
      const bool along = a.mapping.size() == 1 && call_.epilogue.empty() &&
                         a.mapping[0] == root.as<ConvolutionAttributes>().output_feature;
      return along ? std::optional(node.operands[0]) : std::nullopt;
    }
    const std::int64_t rank = a.dims.size();
    for (std::size_t i = 0; i < a.mapping.size(); ++i) {
      if (a.mapping[i] != rank - static_cast<std::int64_t>(a.mapping.size() - i)) return std::nullopt;
    }
    // The repeated vector must be exactly the columns of the product.
    std::int64_t columns = 1;
    const auto& dot = root.as<DotAttributes>();
    const Dims& right = graph_.type(root.operands[1]).dims;
    for (std::size_t d = 0; d < right.size(); ++d) {
      if (!contains(dot.rhs_batch, d) && !contains(dot.rhs_contracting, d)) columns *= right[d];
    }
    const bool transposed = std::any_of(call_.epilogue.begin(), call_.epilogue.end(),
                                        [&](NodeId id) { return graph_.node(id).op == Op::transpose; });
    if (transposed || graph_.type(node.operands[0]).elements() != columns) return std::nullopt;
    return node.operands[0];
  }

  /// Walks back from `value`, no further than the root's own position.
  [[nodiscard]] bool depends_on_result(Value value) const {
    std::vector<NodeId> open = {value.node};
    std::vector<bool> seen(graph_.size(), false);
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (id == call_.root) return true;
      if (id < call_.root || seen[id]) continue;
      seen[id] = true;
      for (const Value operand : graph_.node(id).operands) open.push_back(operand.node);
    }
    return false;
  }

  const Graph& graph_;
  LibraryCall& call_;
  const std::vector<std::vector<NodeId>>& uses_;
  const std::vector<bool>& results_;
  std::vector<bool>& taken_;
  const bool transposes_;
  State state_ = State::product;
  bool has_addend_ = false;
};

class CallFinder {
 public:
  CallFinder(const Graph& graph, const LibraryOptions& options)
      : graph_(graph),
        options_(options),
        uses_(users(graph)),
        results_(is_result(graph)),
        taken_(graph.size(), false) {}

  std::vector<LibraryCall> find() {
    std::vector<LibraryCall> calls;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Op op = graph_.node(id).op;
      if (op != Op::dot && op != Op::convolution) continue;
      LibraryCall call = options_.quick_layouts && options_.layouts && op == Op::dot
                             ? with_quick_layouts(graph_, [&](const CallLayouts& layouts) { return made(id, layouts); })
                             : made(id, {});
      take(call, true);
      call.description = describe_call(graph_, call);
      calls.push_back(std::move(call));
    }
    return calls;
  }

 private:
  LibraryCall made(NodeId id, const CallLayouts& layouts) {
    const Node& node = graph_.node(id);
    LibraryCall call;
    call.root = id;
    call.result = {id, 0};
    call.operands = call.viewed = node.operands;
    if (options_.layouts && node.op == Op::dot) {
      const auto& a = node.as<DotAttributes>();
      if (layouts.left) call.operands[0] = through_layouts(graph_, node.operands[0], a.lhs_batch, a.lhs_contracting);
      if (layouts.right) call.operands[1] = through_layouts(graph_, node.operands[1], a.rhs_batch, a.rhs_contracting);
    } else if (options_.layouts) {
      call.operands = {through_convolution_layouts(graph_, node.operands[0], false),
                       through_convolution_layouts(graph_, node.operands[1], true)};
    }
    if (options_.epilogues) EpilogueFinder(graph_, call, uses_, results_, taken_, layouts.result).extend();
    take(call, false);
    return call;
  }
  void take(const LibraryCall& call, bool taken) {
    for (const NodeId id : call.epilogue) taken_[id] = taken;
  }

  const Graph& graph_;
  const LibraryOptions& options_;
  const std::vector<std::vector<NodeId>> uses_;
  const std::vector<bool> results_;
  std::vector<bool> taken_;  ///< by node, whether a call's epilogue has it
};

}  // namespace

std::vector<LibraryCall> find_library_calls(const Graph& graph, const LibraryOptions& options, bool updates) {
  std::vector<LibraryCall> calls = CallFinder(graph, options).find();
  if (!options.own) return calls;
  const auto wanted = [&](const Graph& attention) { return options.own(attention, true); };
  calls = join_attention_gradients(graph, std::move(calls), wanted);
  calls = join_row_results(graph, join_attentions(graph, std::move(calls), wanted, updates), wanted);
  return widen_epilogues(graph, std::move(calls), options.own);
}

}  // namespace stitch::graph
