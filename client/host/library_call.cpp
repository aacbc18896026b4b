#include "client/host/library_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "client/host/contraction.h"
#include "graph/literal.h"

namespace stitch::client {
namespace {

using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;

template <class T>
constexpr DType own_dtype = std::is_same_v<T, float> ? DType::f32 : DType::f64;

bool computes_in_double(const Graph& call) {
  return std::ranges::any_of(call.nodes(), [](const Node& node) { return node.type().dtype == DType::f64; });
}

/// Evaluates the nodes of a call in order.
template <class T>
class CallEvaluation {
 public:
  CallEvaluation(const Graph& call, const Blas& blas, Inputs parameters)
      : call_(call), blas_(blas), parameters_(parameters), values_(call.size()) {}

  void run(Outputs results) {
    for (NodeId id = 0; id < call_.size(); ++id) values_[id] = value_of(call_.node(id));
    for (std::size_t r = 0; r < results.size(); ++r) {
      const graph::Value result = call_.results()[r];
      store(values_[result.node], call_.type(result).dtype, results[r]);
    }
  }

 private:
  [[nodiscard]] const HostArray<T>& operand(const Node& node, std::size_t i) const {
    return values_[node.operands[i].node];
  }

  HostArray<T> value_of(const Node& node) {
    switch (node.op) {
      case Op::parameter: return loaded(node.type(), parameters_[next_parameter_++]);
      case Op::constant: return constant(node);
      case Op::reshape: return {node.type().dims, operand(node, 0).data};
      case Op::transpose: return reordered(operand(node, 0), node.as<graph::TransposeAttributes>().permutation);
      case Op::broadcast: return broadcast(node);
      case Op::slice: return sliced(node);
      case Op::reverse: return reversed(node);
      case Op::dot: return contract(blas_, operand(node, 0), operand(node, 1), node.as<graph::DotAttributes>());
      case Op::convolution:
        return convolve(blas_, operand(node, 0), operand(node, 1), node.as<graph::ConvolutionAttributes>(),
                        node.type().dims);
      case Op::convert: return converted(node);
      case Op::add: return combined(node, [](T x, T y) { return x + y; });
      case Op::multiply: return combined(node, [](T x, T y) { return x * y; });
      // NaN wins, as docs/ir.md says.
      case Op::maximum: return combined(node, [](T x, T y) { return x != x || x > y ? x : y; });
      default: return {};  // covers_library_call has looked
    }
  }

  static HostArray<T> loaded(const graph::TensorType& type, std::span<const std::byte> bytes) {
    HostArray<T> array{type.dims, std::vector<T>(type.elements())};
    if (type.dtype == own_dtype<T>) {
      if (!bytes.empty()) std::memcpy(array.data.data(), bytes.data(), bytes.size());
      return array;
    }
    const int size = graph::byte_size(type.dtype);
    for (std::size_t i = 0; i < array.data.size(); ++i)
      array.data[i] = graph::load_element(type.dtype, bytes.data() + i * size);
    return array;
  }

  static void store(const HostArray<T>& array, DType dtype, std::span<std::byte> bytes) {
    if (dtype == own_dtype<T>) {
      if (!bytes.empty()) std::memcpy(bytes.data(), array.data.data(), bytes.size());
      return;
    }
    const int size = graph::byte_size(dtype);
    for (std::size_t i = 0; i < array.data.size(); ++i)
      graph::store_element(dtype, array.data[i], bytes.data() + i * size);
  }

  static HostArray<T> constant(const Node& node) {
    const auto& held = node.as<graph::ConstantAttributes>();
    HostArray<T> array{node.type().dims, std::vector<T>(node.type().elements())};
    for (std::size_t i = 0; i < array.data.size(); ++i) array.data[i] = graph::element(held, i);
    return array;
  }

  HostArray<T> broadcast(const Node& node) const {
    const auto& how = node.as<graph::BroadcastAttributes>();
    const HostArray<T>& from = operand(node, 0);
    const Dims own = graph::row_major_strides(from.dims);
    Dims strides(how.dims.size(), 0);
    for (std::size_t d = 0; d < how.mapping.size(); ++d) strides[how.mapping[d]] = own[d];
    return gathered(from.data, 0, how.dims, strides);
  }

  HostArray<T> sliced(const Node& node) const {
    const auto& how = node.as<graph::SliceAttributes>();
    Dims strides = graph::row_major_strides(operand(node, 0).dims);
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < strides.size(); ++d) {
      offset += how.starts[d] * strides[d];
      strides[d] *= how.strides[d];
    }
    return gathered(operand(node, 0).data, offset, node.type().dims, strides);
  }

  HostArray<T> reversed(const Node& node) const {
    const Dims& dims = operand(node, 0).dims;
    Dims strides = graph::row_major_strides(dims);
    std::int64_t offset = 0;
    for (const std::int64_t d : node.as<graph::ReverseAttributes>().dimensions) {
      offset += std::max<std::int64_t>(0, dims[d] - 1) * strides[d];
      strides[d] = -strides[d];
    }
    return gathered(operand(node, 0).data, offset, dims, strides);
  }

  HostArray<T> converted(const Node& node) const {
    HostArray<T> array = operand(node, 0);
    const DType dtype = node.type().dtype;
    if (graph::byte_size(dtype) < graph::byte_size(own_dtype<T>)) {
      for (T& x : array.data) x = graph::round_to(dtype, x);
    }
    return array;
  }

  template <class Combine>
  HostArray<T> combined(const Node& node, Combine combine) const {
    HostArray<T> array = operand(node, 0);
    const std::vector<T>& other = operand(node, 1).data;
    for (std::size_t i = 0; i < array.data.size(); ++i) array.data[i] = combine(array.data[i], other[i]);
    return array;
  }

  const Graph& call_;
  const Blas& blas_;
  const Inputs parameters_;
  std::size_t next_parameter_ = 0;  ///< parameters stand in their order
  std::vector<HostArray<T>> values_;
};

bool is_covered(Op op) {
  switch (op) {
    case Op::parameter:
    case Op::constant:
    case Op::reshape:
    case Op::transpose:
    case Op::broadcast:
    case Op::slice:
    case Op::reverse:
    case Op::dot:
    case Op::convolution:
    case Op::convert:
    case Op::add:
    case Op::multiply:
    case Op::maximum: return true;
    default: return false;
  }
}

/// How a value of a call is named to people: "parameter 1", by its place in the step, or the operator.
std::string place_of(const Graph& call, NodeId id) {
  const auto parameter = std::ranges::find(call.parameters(), id);
  if (parameter == call.parameters().end()) return std::string(to_string(call.node(id).op));
  return fmt::format("parameter {}", parameter - call.parameters().begin());
}

}  // namespace

Status covers_library_call(const Graph& call) {
  const char* const instead = "programs made with --products ours have kernels in the place of libraries";
  for (NodeId id = 0; id < call.size(); ++id) {
    const Node& node = call.node(id);
    if (!graph::is_floating(node.type().dtype)) {
      return make_error(ErrorKind::unsupported, "no library of the host computes in {}, and {} is {}; {}",
                        to_string(node.type().dtype), place_of(call, id), to_string(node.type()), instead);
    }
    if (!is_covered(node.op)) {
      return make_error(ErrorKind::unsupported, "no library of the host computes {} ({}); {}", to_string(node.op),
                        to_string(node.type()), instead);
    }
  }
  return {};
}

Status run_library_call(const Graph& call, const Blas& blas, Inputs parameters, Outputs results) {
  STITCH_TRY(covers_library_call(call));
  if (computes_in_double(call)) {
    CallEvaluation<double>(call, blas, parameters).run(results);
  } else {
    CallEvaluation<float>(call, blas, parameters).run(results);
  }
  return {};
}

std::int64_t longest_contraction(const Graph& call) {
  std::int64_t longest = 0;
  for (const Node& node : call.nodes()) {
    std::int64_t terms = 1;
    if (node.op == Op::dot) {
      const Dims& dims = call.type(node.operands[0]).dims;
      for (const std::int64_t d : node.as<graph::DotAttributes>().lhs_contracting) terms *= dims[d];
    } else if (node.op == Op::convolution) {
      const auto& how = node.as<graph::ConvolutionAttributes>();
      const Dims& kernel = call.type(node.operands[1]).dims;
      terms = kernel[how.kernel_input_feature];
      for (const std::int64_t d : how.kernel_spatial) terms *= kernel[d];
    } else {
      continue;
    }
    longest = std::max(longest, terms);
  }
  return longest;
}

}  // namespace stitch::client
