#include "graph/calls/call_epilogue.h"

#include <algorithm>

#include "graph/fill.h"

namespace stitch::graph {
namespace {

/// `tensor`, whose elements belong to those of `shown`, as it steps over the space.
Result<Digits> walk_of(const StridedView& shown, const std::vector<Digits>& tensor) {
  Digits of_space, of_tensor;
  for (std::size_t d = 0; d < shown.dims.size(); ++d) {
    append_digits(of_space, shown.dims[d]);
    append_digits(of_tensor, tensor[d]);
  }
  auto steps = common_steps({of_space, of_tensor});
  if (!steps) return make_error(ErrorKind::unsupported, "layouts that no strides describe");
  std::ranges::sort(*steps, std::ranges::greater(), [](const SpaceStep& step) { return step.strides[0]; });
  Digits digits;
  for (const SpaceStep& step : *steps) digits.push_back({step.extent, step.strides[1]});
  return digits;
}

class EpilogueReader {
 public:
  EpilogueReader(const Graph& call, StridedView shown) : call_(call), shown_(std::move(shown)) {}

  Result<CallEpilogue> read(NodeId root) {
    const std::vector<std::vector<NodeId>> uses = users(call_);
    Value now{root, 0};
    if (call_.results().size() != 1) return make_error(ErrorKind::unsupported, "several results");
    while (now != call_.results()[0]) {
      if (uses[now.node].size() != 1) return make_error(ErrorKind::unsupported, "a value that is needed twice");
      const NodeId user = uses[now.node][0];
      const Node& node = call_.node(user);
      if (node.op == Op::reshape || node.op == Op::transpose) {
        std::optional<StridedView> next = apply_layout(shown_, node);
        if (!next) return make_error(ErrorKind::unsupported, "layouts that no strides describe");
        shown_ = *std::move(next);
      } else {
        STITCH_TRY(take(node, now));
      }
      now = {user, 0};
    }
    const TensorType& type = call_.type(now);
    if (!is_floating(type.dtype)) return make_error(ErrorKind::unsupported, "a result of {}", to_string(type.dtype));
    out_.result.dtype = type.dtype;
    STITCH_ASSIGN(out_.result.walk, walk_of(shown_, StridedView::of(call_, now).dims));
    return std::move(out_);
  }

 private:
  /// One operator of the epilogue.
  Status take(const Node& node, Value now) {
    if (node.op == Op::convert && is_floating(node.type().dtype)) return {};
    const bool binary = node.operands.size() == 2 && node.operands[0] != node.operands[1];
    const Value other = binary && node.operands[0] == now ? node.operands[1] : node.operands[0];
    const std::optional<double> filled = binary ? fill_number(call_, other) : std::nullopt;
    if (node.op == Op::multiply && filled && !out_.relu && !out_.addend && !out_.bias) {
      out_.scale *= *filled;
      return {};
    }
    if (node.op == Op::maximum && filled == 0.0 && !out_.relu) {
      out_.relu = true;
      return {};
    }
    if (node.op == Op::add && binary && !out_.relu) return take_addition(other);
    return make_error(ErrorKind::unsupported, "{} in an epilogue", to_string(node.op));
  }

  Status take_addition(Value added) {
    const StridedView view = view_of(call_, added);
    CallEpilogue::Tensor tensor;
    STITCH_ASSIGN(tensor.parameter, parameter_of(call_, view));
    tensor.dtype = call_.type(view.source).dtype;
    tensor.offset = view.offset;
    STITCH_ASSIGN(tensor.walk, walk_of(shown_, view.dims));
    const bool repeats = std::ranges::any_of(
        tensor.walk, [](const StridedView::Digit& digit) { return digit.extent > 1 && digit.stride == 0; });
    std::optional<CallEpilogue::Tensor>& place = repeats ? out_.bias : out_.addend;
    if (place) return make_error(ErrorKind::unsupported, "two {}", repeats ? "biases" : "tensors are added");
    place = std::move(tensor);
    return {};
  }

  const Graph& call_;
  StridedView shown_;  ///< what was made so far, as digits of the space
  CallEpilogue out_;
};

}  // namespace

Result<NodeId> root_of_call(const Graph& call) {
  NodeId root = -1;
  for (NodeId id = 0; id < call.size(); ++id) {
    const Op op = call.node(id).op;
    if (op != Op::dot && op != Op::convolution) continue;
    if (root >= 0) return make_error(ErrorKind::unsupported, "two contractions are no one product");
    root = id;
  }
  if (root < 0) return make_error(ErrorKind::internal, "a library call without a contraction");
  const DType dtype = call.node(root).type().dtype;
  if (!is_floating(dtype)) return make_error(ErrorKind::unsupported, "a product of {}", to_string(dtype));
  return root;
}

Result<int> parameter_of(const Graph& call, const StridedView& view) {
  const auto& parameters = call.parameters();
  const auto found = std::ranges::find(parameters, view.source.node);
  if (found == parameters.end())
    return make_error(ErrorKind::unsupported, "{} is no layout of memory", to_string(call.node(view.source.node).op));
  return static_cast<int>(found - parameters.begin());
}

Result<CallEpilogue> read_epilogue(const Graph& call, NodeId root, StridedView shown) {
  return EpilogueReader(call, std::move(shown)).read(root);
}

Status check_call_types(DType left, DType right, DType accumulation, const CallEpilogue& epilogue, const char* what) {
  const DType result = epilogue.result.dtype;
  const bool halves = left == DType::f16 || left == DType::bf16;
  const bool alike = right == left && (!epilogue.addend || epilogue.addend->dtype == result) &&
                     (!epilogue.bias || epilogue.bias->dtype == result);
  const bool full = left == DType::f32 || left == DType::f64;
  const bool sums = (left == DType::f64) == (accumulation == DType::f64);
  if (alike && sums && ((full && result == left) || (halves && (result == left || result == DType::f32)))) return {};
  return make_error(ErrorKind::unsupported, "{} of {} and {} into {}{}", what, to_string(left), to_string(right),
                    to_string(result), alike ? "" : " with unlike types");
}

}  // namespace stitch::graph
