#include "graph/reference/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "graph/literal.h"
#include "graph/reference/evaluate_run.h"

namespace stitch::graph {

Tensor Tensor::zeros(TensorType type) {
  Box box = Box::whole(type.dims);
  return zeros(std::move(type), std::move(box));
}

Tensor Tensor::zeros(TensorType type, Box box) {
  Tensor tensor{std::move(type), std::move(box), {}, {}, {}};
  const std::size_t count = tensor.elements();
  if (is_floating(tensor.type.dtype)) {
    tensor.floats.resize(count);
  } else {
    tensor.integers.resize(count);
  }
  return tensor;
}

double Tensor::at(std::int64_t i) const {
  const std::size_t index = i;
  if (is_floating(type.dtype)) return floats[index];
  const std::int64_t value = integers[index];
  return type.dtype == DType::u64 ? static_cast<double>(static_cast<std::uint64_t>(value)) : static_cast<double>(value);
}

Tensor tensor_from_bytes(TensorType type, Box box, std::span<const std::byte> bytes) {
  Tensor tensor = Tensor::zeros(std::move(type), std::move(box));
  const DType dtype = tensor.type.dtype;
  const std::size_t size = byte_size(dtype);
  for (std::size_t i = 0; i < tensor.floats.size(); ++i) tensor.floats[i] = load_element(dtype, &bytes[i * size]);
  for (std::size_t i = 0; i < tensor.integers.size(); ++i) tensor.integers[i] = load_integer(dtype, &bytes[i * size]);
  return tensor;
}

std::vector<std::byte> to_bytes(const Tensor& tensor) {
  const DType dtype = tensor.type.dtype;
  const std::size_t size = byte_size(dtype);
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.elements()) * size);
  for (std::size_t i = 0; i < tensor.floats.size(); ++i) store_element(dtype, tensor.floats[i], &bytes[i * size]);
  for (std::size_t i = 0; i < tensor.integers.size(); ++i) store_integer(dtype, tensor.integers[i], &bytes[i * size]);
  return bytes;
}

Tensor tensor_from(const ConstantAttributes& constant) {
  return tensor_from_bytes(constant.type, Box::whole(constant.type.dims), constant.data);
}

ConstantAttributes constant_from(const Tensor& tensor) { return {tensor.type, to_bytes(tensor)}; }

namespace {

/// Fills `part` from a tensor that holds its whole value.
Status copy_part(const Tensor& whole, Tensor& part) {
  if (part.type != whole.type) {
    return make_error(ErrorKind::invalid_argument, "is {}, {} is given", to_string(part.type), to_string(whole.type));
  }
  const std::size_t count = whole.type.elements();
  const std::size_t held = is_floating(whole.type.dtype) ? whole.floats.size() : whole.integers.size();
  if (whole.box != Box::whole(whole.type.dims) || held != count ||
      (!whole.bounds.empty() && whole.bounds.size() != count)) {
    return make_error(ErrorKind::invalid_argument, "the tensor given for {} does not hold all of it",
                      to_string(part.type));
  }
  const reference::StridedCopy walk{part.box.size, row_major_strides(whole.box.size), row_major_strides(part.box.size)};
  const std::int64_t first = reference::offset_in(whole.box, part.box.start);
  if (is_floating(part.type.dtype)) {
    reference::copy_strided(walk, whole.floats.data() + first, part.floats.data());
  } else {
    reference::copy_strided(walk, whole.integers.data() + first, part.integers.data());
  }
  if (!whole.bounds.empty()) {
    part.bounds.resize(static_cast<std::size_t>(part.elements()));
    reference::copy_strided(walk, whole.bounds.data() + first, part.bounds.data());
  }
  return {};
}

}  // namespace

Input input_of(Tensor tensor) {
  return [whole = std::move(tensor)](Tensor& part) { return copy_part(whole, part); };
}

namespace {

Status check_box(const Box& box, const Dims& dims, std::size_t result) {
  const bool fits = box.start.size() == dims.size() && box.size.size() == dims.size() &&
                    std::all_of(box.size.begin(), box.size.end(), [](std::int64_t size) { return size >= 0; });
  if (fits && Box::whole(dims).contains(box)) return {};
  return make_error(ErrorKind::invalid_argument, "result {}: the box {} is not inside {}", result, to_string(box),
                    to_string(dims));
}

Status check_restriction(const Graph& graph, const ReduceRestriction& r) {
  const auto bad = [&](std::string_view why) {
    return make_error(ErrorKind::invalid_argument, "restriction of node {}: {}", r.node, why);
  };
  if (r.node < 0 || r.node >= graph.size()) return bad("there is no such node");
  const Node& node = graph.node(r.node);
  if (node.op != Op::reduce && node.op != Op::arg_reduce) return bad("it is no reduction");
  const bool reduced = node.op == Op::arg_reduce
                           ? node.as<ArgReduceAttributes>().dimension == r.dimension
                           : std::count(node.as<ReduceAttributes>().dimensions.begin(),
                                        node.as<ReduceAttributes>().dimensions.end(), r.dimension) > 0;
  if (!reduced) return bad(fmt::format("dimension {} is not reduced", r.dimension));
  if (r.intervals.empty()) return bad("no intervals");
  std::int64_t next = 0;
  for (const Interval& interval : r.intervals) {
    if (interval.begin < next || interval.end <= interval.begin) return bad("intervals are not ascending and disjoint");
    next = interval.end;
  }
  if (next > graph.type(node.operands[0]).dims[r.dimension]) {
    return bad("an interval ends beyond the dimension");
  }
  return {};
}

/// A block as a tensor of its own; takes the arrays when nobody else has them.
Result<Tensor> to_tensor(reference::Memory& memory, const TensorType& type, reference::Block block, bool bounds) {
  const bool sole = block.data.use_count() == 1 && !block.uniform;
  if (!sole) {
    STITCH_ASSIGN(reference::Block dense, reference::expanded(memory, block));
    block = std::move(dense);
  }
  reference::Storage& data = *block.data;
  Tensor tensor{type, block.box, {}, {}, {}};
  if (block.data.use_count() == 1) {
    tensor.floats = std::move(data.floats), tensor.integers = std::move(data.integers);
    tensor.bounds = std::move(data.bounds);
  } else {
    tensor.floats = data.floats, tensor.integers = data.integers, tensor.bounds = data.bounds;
  }
  // Kept until here for what reads it: doubt_infinities.
  const auto is_infinite = [](double value) { return std::isinf(value); };
  if (type.dtype == DType::f8e4m3) {
    std::ranges::replace_if(tensor.floats, is_infinite, std::numeric_limits<double>::quiet_NaN());
  }
  if (bounds && tensor.bounds.empty()) tensor.bounds.assign(static_cast<std::size_t>(block.box.elements()), 0);
  return tensor;
}

}  // namespace

Result<std::vector<std::vector<Tensor>>> evaluate_parts(const Graph& graph, std::span<const Input> inputs,
                                                        const std::vector<std::vector<Box>>& wanted,
                                                        const EvaluateOptions& options) {
  if (inputs.size() != graph.parameters().size() || wanted.size() != graph.results().size()) {
    return make_error(ErrorKind::invalid_argument, "{} inputs for {} parameters, {} wants for {} results",
                      inputs.size(), graph.parameters().size(), wanted.size(), graph.results().size());
  }
  for (const ReduceRestriction& restriction : options.restrictions) STITCH_TRY(check_restriction(graph, restriction));
  std::vector<reference::Wanted> values;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    for (const Box& box : wanted[i]) STITCH_TRY(check_box(box, graph.type(graph.results()[i]).dims, i));
    values.push_back({graph.results()[i], wanted[i]});
  }
  std::vector<reference::Source> sources;
  for (const Input& input : inputs) sources.push_back({&input, nullptr});
  reference::Memory memory(options.memory_limit);
  std::vector<std::vector<Tensor>> results;
  {
    reference::Evaluation evaluation(graph, sources, options, memory, true);
    STITCH_ASSIGN(auto blocks, evaluation.run(values));
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      std::vector<Tensor>& parts = results.emplace_back();
      for (reference::Block& block : blocks[i]) {
        STITCH_ASSIGN(Tensor tensor,
                      to_tensor(memory, graph.type(graph.results()[i]), std::move(block), options.bounds));
        parts.push_back(std::move(tensor));
      }
    }
  }
  return results;
}

Result<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> arguments,
                                     const EvaluateOptions& options) {
  std::vector<Input> inputs;
  for (const Tensor& argument : arguments) {
    inputs.emplace_back([&argument](Tensor& part) { return copy_part(argument, part); });
  }
  std::vector<std::vector<Box>> wanted;
  for (const Value& value : graph.results()) wanted.push_back({Box::whole(graph.type(value).dims)});
  STITCH_ASSIGN(auto parts, evaluate_parts(graph, inputs, wanted, options));
  std::vector<Tensor> results;
  for (std::vector<Tensor>& part : parts) results.push_back(std::move(part[0]));
  return results;
}

}  // namespace stitch::graph
