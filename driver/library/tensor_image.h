#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "cuda/cudnn.h"
#include "driver/library/element.h"
#include "driver/state/library_work.h"

namespace stitch::driver {

using Extents = std::vector<std::int64_t>;

/// The next index in row-major order; false behind the last.
bool advance(Extents& index, const Extents& extents);
/// How many elements an index is from the first.
std::int64_t place_of(const Extents& index, const Extents& strides);

ElementFormat format_of(cuda::dnn::DataType type);

/// A tensor as a descriptor of cuDNN's describes it; strides are in elements.
struct ConvolutionTensor {
  std::int64_t id = 0;
  cuda::dnn::DataType type = cuda::dnn::DataType::f32;
  std::int64_t alignment = 1;  ///< bytes, of the addresses that it is promised to have
  bool is_virtual = false;     ///< between two operations, nowhere in memory
  Extents extents, strides;

  /// Bytes from its first element to the end of its last.
  [[nodiscard]] std::int64_t span_bytes() const;
};

/// Where a tensor lies: lines as long as its elements are neighbours.
struct TensorMemory {
  std::vector<LibraryAccess> accesses;
  std::vector<std::size_t> places;  ///< of each, bytes from the tensor's first
};

/// `address`: of its first element.
TensorMemory memory_of(const ConvolutionTensor& tensor, CUdeviceptr address, bool writes);

/// Bytes of a tensor, as far as its elements reach, from and to those of its accesses.
class TensorImage {
 public:
  TensorImage(const ConvolutionTensor& tensor, const TensorMemory& memory, std::span<std::vector<std::byte>> bytes)
      : tensor_(tensor), memory_(memory), bytes_(bytes), image_(tensor.span_bytes()) {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      std::ranges::copy(bytes[i], image_.begin() + static_cast<std::ptrdiff_t>(memory.places[i]));
  }

  /// Dense and row-major.
  template <class T>
  [[nodiscard]] std::vector<T> load() const {
    std::vector<T> values;
    Extents index(tensor_.extents.size(), 0);
    do {
      values.push_back(load_element<T>(format_of(tensor_.type), image_.data() + place(index)));
    } while (advance(index, tensor_.extents));
    return values;
  }
  template <class T>
  void store(const std::vector<T>& values) {
    Extents index(tensor_.extents.size(), 0);
    for (const T value : values) {
      store_element(format_of(tensor_.type), value, image_.data() + place(index));
      advance(index, tensor_.extents);
    }
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      std::copy_n(image_.begin() + static_cast<std::ptrdiff_t>(memory_.places[i]), bytes_[i].size(), bytes_[i].begin());
  }

 private:
  [[nodiscard]] std::size_t place(const Extents& index) const {
    return place_of(index, tensor_.strides) * bytes_of(format_of(tensor_.type));
  }

  const ConvolutionTensor& tensor_;
  const TensorMemory& memory_;
  const std::span<std::vector<std::byte>> bytes_;
  std::vector<std::byte> image_;
};

}  // namespace stitch::driver
