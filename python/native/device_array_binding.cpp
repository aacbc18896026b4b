#include "python/native/device_array_binding.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/cuda_executor.h"
#include "python/native/arrays.h"
#include "python/native/device_array.h"
#include "python/native/errors.h"
#include "python/native/launch_arguments.h"

namespace stitch::python {

namespace nb = nanobind;

namespace {

/// A GPU's context, opened once; it outlives static objects, with arrays that nobody frees.
std::shared_ptr<const client::CudaContext> context_of(int ordinal) {
  static std::mutex mutex;
  static auto* contexts = new std::map<int, std::shared_ptr<const client::CudaContext>>;
  const std::lock_guard lock(mutex);
  auto& context = (*contexts)[ordinal];
  if (!context) context = value_of(client::CudaExecutor::create(ordinal))->context();
  return context;
}

graph::TensorType type_named(const std::string& dtype, std::vector<std::int64_t> shape) {
  const auto named = graph::dtype_from_name(dtype);
  if (!named) throw Failure{make_error(ErrorKind::invalid_argument, "there is no element type '{}'", dtype)};
  return {*named, std::move(shape)};
}

std::unique_ptr<DeviceArray> array_of(int ordinal, graph::TensorType type) {
  auto array = std::make_unique<DeviceArray>();
  array->context = context_of(ordinal);
  array->ordinal = ordinal;
  array->type = std::move(type);
  return array;
}

std::unique_ptr<DeviceArray> make_empty(const std::string& dtype, const std::vector<std::int64_t>& shape, int ordinal) {
  auto array = array_of(ordinal, type_named(dtype, shape));
  const nb::gil_scoped_release released;
  const client::CurrentContext current(*array->context);
  check(current.status());
  const client::BesideCaptures beside(*array->context->driver);
  check(array->memory.emplace(*array->context->driver).make(array->type.bytes()));
  array->address = array->memory->address();
  return array;
}

std::unique_ptr<DeviceArray> at_address(std::uint64_t address, const std::string& dtype,
                                        const std::vector<std::int64_t>& shape, int ordinal, nb::object owner) {
  auto array = array_of(ordinal, type_named(dtype, shape));
  array->address = address;
  array->owner = std::move(owner);
  return array;
}

/// Whoever gave it orders its work: nobody is told a stream, since there is none yet. `dtype`: of its elements, where
/// that is another one of their width. `ordinal`: the GPU that is to use memory which all of them read.
std::unique_ptr<DeviceArray> of_dlpack(nb::object source, const std::string& dtype, int ordinal) {
  constexpr std::int64_t no_stream = -1;
  const DeviceView view = value_of(view_of(source, no_stream));
  const std::optional<graph::DType> element = dtype.empty() ? dtype_of(view.dtype) : graph::dtype_from_name(dtype);
  if (!element || 8 * graph::byte_size(*element) != view.dtype.bits) {
    throw Failure{make_error(ErrorKind::invalid_argument, "elements of {} bits (DLPack's code {}) are no {}",
                             view.dtype.bits, view.dtype.code, dtype.empty() ? "type that is known" : dtype)};
  }
  if (view.strides != graph::row_major_strides(view.shape) && graph::element_count(view.shape) > 1)
    throw Failure{make_error(ErrorKind::invalid_argument, "the array is not dense and row-major")};
  const bool one_gpu = view.device_kind == nb::device::cuda::value;
  auto array = array_of(one_gpu ? view.ordinal : ordinal, {*element, view.shape});
  array->address = view.address;
  array->is_read_only = view.is_read_only;
  array->owner = std::move(source);
  return array;
}

void need_bytes(const DeviceArray& array, std::size_t bytes) {
  if (static_cast<std::int64_t>(bytes) == array.type.bytes()) return;
  throw Failure{make_error(ErrorKind::invalid_argument, "{} has {} bytes, the host's array {}",
                           graph::to_string(array.type), array.type.bytes(), bytes)};
}

using Bytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ReadBytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void write(const DeviceArray& array, const ReadBytes& from) {
  need_bytes(array, from.size());
  if (array.is_read_only) throw Failure{make_error(ErrorKind::invalid_argument, "the array is read-only")};
  const nb::gil_scoped_release released;
  const client::CurrentContext current(*array.context);
  check(current.status());
  const auto& driver = *array.context->driver;
  if (from.size() > 0)
    check(driver.check(driver.copy_to_device(array.address, from.data(), from.size()), "cuMemcpyHtoD"));
}

void read(const DeviceArray& array, const Bytes& to) {
  need_bytes(array, to.size());
  const nb::gil_scoped_release released;
  const client::CurrentContext current(*array.context);
  check(current.status());
  const auto& driver = *array.context->driver;
  if (to.size() > 0) check(driver.check(driver.copy_to_host(to.data(), array.address, to.size()), "cuMemcpyDtoH"));
}

void synchronize(int ordinal, std::uint64_t stream) {
  const nb::gil_scoped_release released;
  const auto context = context_of(ordinal);
  const client::CurrentContext current(*context);
  check(current.status());
  check(context->driver->check(context->driver->synchronize_stream(reinterpret_cast<CUstream>(stream)),
                               "cuStreamSynchronize"));
}

/// For DLPack. Whoever takes it owes it nothing: the array has no work of its own under way.
nb::object exported(nb::handle self) {
  const auto& array = nb::cast<const DeviceArray&>(self);
  if (array.is_read_only) throw nb::buffer_error("the array is read-only");
  const std::vector<std::size_t> shape(array.type.dims.begin(), array.type.dims.end());
  const nb::ndarray<> view(reinterpret_cast<void*>(array.address), shape.size(), shape.data(), self, nullptr,
                           dlpack_type(array.type.dtype), nb::device::cuda::value, array.ordinal);
  return nb::cast(view);  // of no framework: a capsule
}

}  // namespace

void bind_device_array(nb::module_& module) {
  nb::class_<DeviceArray>(module, "DeviceArray", "Memory of a GPU with a type, dense and row-major.")
      .def_static("empty", &make_empty, nb::arg("dtype"), nb::arg("shape"), nb::arg("ordinal") = 0,
                  "Memory of its own, uninitialised")
      .def_static("at", &at_address, nb::arg("address"), nb::arg("dtype"), nb::arg("shape"), nb::arg("ordinal") = 0,
                  nb::arg("owner") = nb::none(), "Somebody else's memory by its address, which nobody looks into")
      .def_static("of", &of_dlpack, nb::arg("array"), nb::arg("dtype") = "", nb::arg("ordinal") = 0,
                  "What another library gives by __dlpack__; `dtype`: its elements are of this type of their width")
      .def_prop_ro("dtype", [](const DeviceArray& array) { return std::string(graph::to_string(array.type.dtype)); })
      .def_prop_ro("shape", [](const DeviceArray& array) { return nb::tuple(nb::cast(array.type.dims)); })
      .def_prop_ro("nbytes", [](const DeviceArray& array) { return array.type.bytes(); })
      .def_ro("address", &DeviceArray::address)
      .def_ro("ordinal", &DeviceArray::ordinal)
      .def("write", &write, nb::arg("bytes"), "Copies bytes of the host into it and waits")
      .def("read", &read, nb::arg("bytes"), "Copies it into bytes of the host and waits")
      .def("__dlpack__",
           [](nb::handle self, const nb::kwargs& options) {
             if (options.contains("copy") && nb::cast<bool>(nb::bool_(options["copy"])))
               throw nb::buffer_error("the array is not copied");
             return exported(self);
           })
      .def("__dlpack_device__",
           [](const DeviceArray& array) { return std::pair<int, int>(nb::device::cuda::value, array.ordinal); });
  module.def("synchronize", &synchronize, nb::arg("ordinal"), nb::arg("stream"),
             "Waits for what a stream of a GPU was given");
}

}  // namespace stitch::python
