#include "driver/library/tensor_image.h"

#include <algorithm>

namespace stitch::driver {

bool advance(Extents& index, const Extents& extents) {
  for (std::size_t d = index.size(); d-- > 0;) {
    if (++index[d] < extents[d]) return true;
    index[d] = 0;
  }
  return false;
}

std::int64_t place_of(const Extents& index, const Extents& strides) {
  std::int64_t place = 0;
  for (std::size_t d = 0; d < index.size(); ++d) place += index[d] * strides[d];
  return place;
}

ElementFormat format_of(cuda::dnn::DataType type) {
  switch (type) {
    case cuda::dnn::DataType::f64: return ElementFormat::f64;
    case cuda::dnn::DataType::f32: return ElementFormat::f32;
    case cuda::dnn::DataType::f16: return ElementFormat::f16;
    default: return ElementFormat::bf16;
  }
}

std::int64_t ConvolutionTensor::span_bytes() const {
  std::int64_t last = 0;
  for (std::size_t d = 0; d < extents.size(); ++d) last += (extents[d] - 1) * strides[d];
  return (last + 1) * static_cast<std::int64_t>(bytes_of(format_of(type)));
}

TensorMemory memory_of(const ConvolutionTensor& tensor, CUdeviceptr address, bool writes) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;  // stride, extent
  for (std::size_t d = 0; d < tensor.extents.size(); ++d) {
    if (tensor.extents[d] > 1) dims.emplace_back(tensor.strides[d], tensor.extents[d]);
  }
  std::ranges::sort(dims);
  std::size_t next = 0;
  std::int64_t run = 1, pitch = 0, lines = 1;
  while (next < dims.size() && dims[next].first == run) run *= dims[next++].second;
  if (next < dims.size()) std::tie(pitch, lines) = dims[next++];
  while (next < dims.size() && dims[next].first == pitch * lines) lines *= dims[next++].second;
  Extents outer, strides;
  for (; next < dims.size(); ++next) {
    strides.push_back(dims[next].first);
    outer.push_back(dims[next].second);
  }
  const std::size_t size = bytes_of(format_of(tensor.type));
  TensorMemory memory;
  Extents index(outer.size(), 0);
  do {
    const std::size_t place = place_of(index, strides) * size;
    memory.places.push_back(place);
    memory.accesses.push_back({address + place, run * size, pitch * size, static_cast<std::size_t>(lines), writes});
  } while (advance(index, outer));
  return memory;
}

}  // namespace stitch::driver
