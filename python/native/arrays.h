#pragma once

#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "python/native/errors.h"

namespace stitch::python {

using Array = nanobind::ndarray<nanobind::ro>;
using WritableArray = nanobind::ndarray<>;

/// Element types as DLPack has them, and back.
nanobind::dlpack::dtype dlpack_type(graph::DType dtype);
std::optional<graph::DType> dtype_of(nanobind::dlpack::dtype dtype);

/// Why an array's elements are not as a type has them (element type, extents, dense and row-major), such as "of 2
/// dimensions"; nothing: they are. `strides` in elements. Types that NumPy has not (bf16, f8) may come as unsigned
/// integers of their width, which are their bits.
std::optional<std::string> misfit(nanobind::dlpack::dtype dtype, std::span<const std::int64_t> shape,
                                  std::span<const std::int64_t> strides, const graph::TensorType& type);

/// That an array is what is wanted: on the host, of this type, and no misfit. `kind` and `index` are for the message:
/// "input", 0.
Status check_array(const Array& array, const graph::TensorType& type, std::string_view kind, std::size_t index);
Status check_array(const WritableArray& array, const graph::TensorType& type, std::string_view kind, std::size_t index);

/// The memory of arrays, one per type. Throws a Failure: invalid_argument (number, place, type or layout).
template <class Byte, class One>
std::vector<std::span<Byte>> spans_of(const std::vector<One>& arrays, const std::vector<graph::TensorType>& types,
                                      std::string_view whose, std::string_view kind) {
  if (arrays.size() != types.size()) {
    throw Failure{make_error(ErrorKind::invalid_argument, "the {} has {} {}s, {} arrays were given", whose,
                             types.size(), kind, arrays.size())};
  }
  std::vector<std::span<Byte>> spans;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    check(check_array(arrays[i], types[i], kind, i));
    spans.emplace_back(static_cast<Byte*>(arrays[i].data()), static_cast<std::size_t>(types[i].bytes()));
  }
  return spans;
}

}  // namespace stitch::python
