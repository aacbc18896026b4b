#include "graph/reference/tensor.h"

#include "graph/literal.h"
#include "graph/reference/evaluate_storage.h"

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
  std::vector<std::byte> bytes(tensor.elements() * size);
  for (std::size_t i = 0; i < tensor.floats.size(); ++i) store_element(dtype, tensor.floats[i], &bytes[i * size]);
  for (std::size_t i = 0; i < tensor.integers.size(); ++i) store_integer(dtype, tensor.integers[i], &bytes[i * size]);
  return bytes;
}

Tensor tensor_from(const ConstantAttributes& constant) {
  return tensor_from_bytes(constant.type, Box::whole(constant.type.dims), expanded(constant));
}

ConstantAttributes constant_from(const Tensor& tensor) { return {tensor.type, to_bytes(tensor)}; }

Status fill_part(const Tensor& whole, Tensor& part) {
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
    part.bounds.resize(part.elements());
    reference::copy_strided(walk, whole.bounds.data() + first, part.bounds.data());
  }
  return {};
}

Input input_of(Tensor tensor) {
  return [whole = std::move(tensor)](Tensor& part) { return fill_part(whole, part); };
}

}  // namespace stitch::graph
