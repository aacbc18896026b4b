// The native half of the Python package: what stitch/*.py build on.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/trace.h"
#include "base/version.h"
#include "python/native/client_binding.h"
#include "python/native/device_array_binding.h"
#include "python/native/errors.h"
#include "python/native/fragment_binding.h"
#include "python/native/onnx_binding.h"
#include "python/native/program_binding.h"
#include "python/native/xla_handler.h"

NB_MODULE(_native, module) {
  // PyTorch and our own tables keep compiled functions, and so plans, until the interpreter is gone: no news to a user.
  nanobind::set_leak_warnings(false);
  module.attr("version") = std::string_view(stitch::tool_version).data();
  module.def(
      "trace",
      [](const std::string& name, const std::string& members, std::optional<std::int64_t> began_us) {
        if (began_us) {
          stitch::trace::event_since(name, *began_us, members);
        } else {
          stitch::trace::event_of(name, members);
        }
      },
      nanobind::arg("name"), nanobind::arg("members"), nanobind::arg("began_us") = nanobind::none(),
      nanobind::call_guard<nanobind::gil_scoped_release>(),
      "An event in the process's trace (base/trace.h); members of a JSON object, without its braces");
  stitch::python::translate_failures(module);
  stitch::python::bind_fragment(module);
  stitch::python::bind_client(module);
  stitch::python::bind_program(module);
  stitch::python::bind_onnx(module);
  stitch::python::bind_device_array(module);
  stitch::python::bind_xla(module);
}
