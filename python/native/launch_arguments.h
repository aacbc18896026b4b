#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace stitch::python {

/// An array in memory that a GPU reads, as it was given by another library.
struct [[gnu::visibility("hidden")]] DeviceView {  // as nanobind's types are
  std::uint64_t address = 0;
  nanobind::dlpack::dtype dtype;
  std::vector<std::int64_t> shape, strides;  ///< in elements
  std::int32_t device_kind = 0;              ///< DLPack's
  std::int32_t ordinal = 0;                  ///< of the GPU; says nothing of managed and pinned memory, which all read
  bool is_read_only = false;
};

/// What `__dlpack__` gives where `stream` (the handle of a CUstream, 0 is the default one; -1: nobody is told) takes it
/// over, and not as a copy. Strides, type and place are not looked at, but for memory that no GPU reads, which is
/// refused before the array is asked for it. Errors: invalid_argument.
Result<DeviceView> view_of(nanobind::handle array, std::int64_t stream);

/// Where a launch takes place: on a GPU (as CUDA numbers those that this process sees), on a stream of it (a CUstream's
/// handle; 0: the default one). `whose` is for messages: "plan".
struct LaunchPlace {
  std::string_view whose;
  int ordinal = 0;
  std::uint64_t stream = 0;
};

enum class Access : std::uint8_t { read, write };

/// The type of a parameter or result by its position.
using TypeAt = std::function<const graph::TensorType&(std::size_t)>;

/// The addresses of what was given for `count` parameters or results. Each is a number, which is an address and is not
/// looked into, or a DeviceArray, or an array with `__dlpack__` or, without that, `__cuda_array_interface__`, which
/// must
///  * lie on the place's GPU, or where all GPUs read it (managed, and pinned memory of the host),
///  * be of the type (as `misfit` has it), or one-dimensional bytes, of exactly as many as the type has: memory that
///    nobody has given a type, such as a Buffer of cuda.core,
///  * be no copy, and not read-only where it is written.
/// Who gives an array by DLPack is told the stream (`__dlpack__(stream=)`), so that what they have enqueued for it
/// comes before; an array whose interface names another stream is refused. Whoever gave arrays keeps them until the
/// launch has run. `kind` is for messages: "input". Throws a Failure: invalid_argument (number, place, type, layout).
std::vector<std::uint64_t> addresses_of(nanobind::sequence given, std::size_t count, const TypeAt& type_at,
                                        std::string_view kind, Access access, const LaunchPlace& place);

}  // namespace stitch::python
