#include "python/native/launch_arguments.h"

#include <nanobind/stl/string.h>

#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "python/native/arrays.h"
#include "python/native/device_array.h"
#include "python/native/errors.h"

namespace stitch::python {
namespace {

namespace nb = nanobind;
using Code = nb::dlpack::dtype_code;

/// The default stream as DLPack and the interface number it: 0 might be either of CUDA's two.
constexpr std::int64_t default_stream = 1;

std::string name_of(nb::handle object) { return nb::cast<std::string>(nb::str(object.type().attr("__name__"))); }

bool is_read_by_gpus(std::int32_t device_kind) {
  return device_kind == nb::device::cuda::value || device_kind == nb::device::cuda_host::value ||
         device_kind == nb::device::cuda_managed::value;
}

template <class Array>
DeviceView view_of_tensor(const Array& array, bool is_read_only) {
  const std::int64_t *shape = array.shape_ptr(), *strides = array.stride_ptr();
  return {reinterpret_cast<std::uint64_t>(array.data()),
          array.dtype(),
          {shape, shape + array.ndim()},
          {strides, strides + array.ndim()},
          array.device_type(),
          array.device_id(),
          is_read_only};
}

nb::object capsule_of(nb::handle array, std::int64_t stream) {
  const nb::object method = array.attr("__dlpack__");
  try {
    return method(nb::arg("stream") = stream, nb::arg("max_version") = nb::make_tuple(1, 0), nb::arg("copy") = false);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;  // a method of before 2023, which has the stream alone
  }
  return method(nb::arg("stream") = stream);
}

Error refusal(const std::string& what) { return {ErrorKind::invalid_argument, what}; }

/// Of "<f4"; types that NumPy has not are "|V2", their bits.
std::optional<nb::dlpack::dtype> dtype_of(std::string_view text) {
  constexpr std::string_view kinds = "iufbcV";
  constexpr Code codes[] = {Code::Int, Code::UInt, Code::Float, Code::Bool, Code::Complex, Code::UInt};
  const std::size_t kind = text.size() < 3 ? kinds.npos : kinds.find(text[1]);
  int bytes = 0;
  if (kind == kinds.npos || std::from_chars(text.data() + 2, text.data() + text.size(), bytes).ec != std::errc{})
    return std::nullopt;
  if (bytes < 1 || bytes > 16 || (text[0] == '>' && bytes > 1)) return std::nullopt;
  return nb::dlpack::dtype{static_cast<std::uint8_t>(codes[kind]), static_cast<std::uint8_t>(8 * bytes), 1};
}

std::vector<std::int64_t> numbers_of(nb::handle tuple) {
  std::vector<std::int64_t> numbers;
  for (const nb::handle number : nb::cast<nb::tuple>(tuple))
    numbers.push_back(nb::cast<std::int64_t>(nb::int_(number)));
  return numbers;
}

/// https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html, version 3 and those before it. It says on no
/// GPU in particular that an array lies.
Result<DeviceView> view_of_interface(nb::handle array, const LaunchPlace& place) {
  const auto interface = nb::cast<nb::dict>(array.attr("__cuda_array_interface__"));
  const auto given = [&](const char* key) { return interface.contains(key) && !nb::object(interface[key]).is_none(); };
  if (given("mask")) return refusal("the array is one with a mask");
  if (given("stream")) {
    const auto stream = nb::cast<std::int64_t>(interface["stream"]);
    if (stream != (place.stream == 0 ? default_stream : static_cast<std::int64_t>(place.stream)))
      return refusal(
          fmt::format("the array is in use on stream {:#x}: launch there, or wait and give its address", stream));
  }
  DeviceView view;
  view.device_kind = nb::device::cuda::value;
  view.ordinal = place.ordinal;
  const auto data = nb::cast<nb::tuple>(interface["data"]);
  view.address = nb::cast<std::uint64_t>(nb::int_(data[0]));
  view.is_read_only = nb::cast<bool>(nb::bool_(data[1]));
  const auto typestr = nb::cast<std::string>(interface["typestr"]);
  const auto dtype = dtype_of(typestr);
  if (!dtype) return refusal(fmt::format("the array is of elements '{}'", typestr));
  view.dtype = *dtype;
  view.shape = numbers_of(interface["shape"]);
  if (!given("strides")) {
    view.strides = graph::row_major_strides(view.shape);
    return view;
  }
  view.strides = numbers_of(interface["strides"]);
  const std::int64_t size = dtype->bits / 8;
  for (std::int64_t& stride : view.strides) {
    if (stride % size != 0 || view.strides.size() != view.shape.size())
      return refusal("the array is not dense and row-major");
    stride /= size;
  }
  return view;
}

DeviceView view_of_own(const DeviceArray& array) {
  return {array.address,           dlpack_type(array.type.dtype),
          array.type.dims,         graph::row_major_strides(array.type.dims),
          nb::device::cuda::value, array.ordinal,
          array.is_read_only};
}

bool are_bytes(const DeviceView& view, std::int64_t count) {
  const auto code = static_cast<Code>(view.dtype.code);
  return view.dtype.bits == 8 && view.dtype.lanes == 1 && (code == Code::Int || code == Code::UInt) &&
         view.shape.size() == 1 && view.shape[0] == count && (count < 2 || view.strides[0] == 1);
}

/// Whether the array may be a parameter or result of this type.
Result<std::uint64_t> checked_address(const DeviceView& view, const graph::TensorType& type, Access access,
                                      const LaunchPlace& place) {
  const auto wrong = [&](const std::string& what) {
    return refusal(fmt::format("{} is wanted, the array is {}", graph::to_string(type), what));
  };
  if (view.device_kind == nb::device::cuda::value && view.ordinal != place.ordinal)
    return wrong(fmt::format("on GPU {}, and the {} on GPU {}", view.ordinal, place.whose, place.ordinal));
  if (!are_bytes(view, type.bytes())) {
    if (const auto misfits = misfit(view.dtype, view.shape, view.strides, type)) return wrong(*misfits);
  }
  if (view.is_read_only && access == Access::write) return wrong("read-only");
  return view.address;
}

Result<std::uint64_t> number_of(nb::handle integer) {
  std::uint64_t value = 0;
  if (nb::try_cast(integer, value)) return value;
  return refusal(fmt::format("{} is no address", nb::cast<std::string>(nb::str(integer))));
}

Result<std::uint64_t> address_of(nb::handle array, const graph::TensorType& type, Access access,
                                 const LaunchPlace& place) {
  if (PyLong_Check(array.ptr())) return number_of(array);
  const DeviceArray* own = nullptr;
  if (nb::try_cast(array, own) && own != nullptr) return checked_address(view_of_own(*own), type, access, place);
  if (nb::hasattr(array, "__dlpack__")) {
    STITCH_ASSIGN(const DeviceView view, view_of(array, static_cast<std::int64_t>(place.stream)));
    return checked_address(view, type, access, place);
  }
  if (nb::hasattr(array, "__cuda_array_interface__")) {
    STITCH_ASSIGN(const DeviceView view, view_of_interface(array, place));
    return checked_address(view, type, access, place);
  }
  // Numbers of other libraries, such as CUdeviceptr.
  if (!PyFloat_Check(array.ptr()) && nb::hasattr(array, "__int__")) {
    const nb::object integer = nb::steal(PyNumber_Long(array.ptr()));
    if (!integer.is_valid()) throw nb::python_error();
    return number_of(integer);
  }
  return refusal(fmt::format("{} has no address in device memory", name_of(array)));
}

}  // namespace

Result<DeviceView> view_of(nb::handle given, std::int64_t stream) {
  nb::object array = nb::borrow(given);
  try {
    // First of all: NumPy's, for one, know no streams.
    const auto device = nb::cast<nb::tuple>(array.attr("__dlpack_device__")());
    const auto kind = nb::cast<std::int32_t>(nb::int_(device[0]));
    if (kind == nb::device::cpu::value) return refusal(fmt::format("{} is in the host's memory", name_of(given)));
    if (!is_read_by_gpus(kind))
      return refusal(
          fmt::format("{} is on a device of DLPack's kind {}, which is no GPU of CUDA's", name_of(given), kind));
    // A tensor that PyTorch would differentiate is not given away by it; nothing of a launch is recorded in any case.
    if (nb::hasattr(array, "requires_grad") && nb::cast<bool>(nb::bool_(array.attr("requires_grad"))))
      array = array.attr("detach")();
    const nb::object capsule = capsule_of(array, stream == 0 ? default_stream : stream);
    nb::ndarray<> writable;
    if (nb::try_cast(capsule, writable, false)) return view_of_tensor(writable, false);
    nb::ndarray<nb::ro> readable;
    if (nb::try_cast(capsule, readable, false)) return view_of_tensor(readable, true);
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_BufferError) && !error.matches(PyExc_TypeError) && !error.matches(PyExc_ValueError)) throw;
    return refusal(
        fmt::format("{} does not give its memory: {}", name_of(given), nb::cast<std::string>(nb::str(error.value()))));
  }
  return refusal(fmt::format("{} gives nothing that DLPack 1 has", name_of(given)));
}

std::vector<std::uint64_t> addresses_of(nb::sequence given, std::size_t count, const TypeAt& type_at,
                                        std::string_view kind, Access access, const LaunchPlace& place) {
  if (nb::len(given) != count) {
    throw Failure{make_error(ErrorKind::invalid_argument, "the {} has {} {}s, {} were given", place.whose, count, kind,
                             nb::len(given))};
  }
  std::vector<std::uint64_t> addresses;
  addresses.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto address = address_of(given[i], type_at(i), access, place);
    if (!address) throw Failure{address.error().within(fmt::format("{} {}", kind, i))};
    addresses.push_back(*address);
  }
  return addresses;
}

}  // namespace stitch::python
