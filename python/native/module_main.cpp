// The native half of the Python package: what stitch/*.py build on.
#include <nanobind/nanobind.h>

#include "base/version.h"
#include "python/native/client_binding.h"
#include "python/native/errors.h"
#include "python/native/fragment_binding.h"
#include "python/native/onnx_binding.h"
#include "python/native/program_binding.h"
#include "python/native/xla_handler.h"

NB_MODULE(_native, module) {
  // PyTorch and our own tables keep compiled functions, and so plans, until the interpreter is gone: no news to a user.
  nanobind::set_leak_warnings(false);
  module.attr("version") = std::string_view(stitch::tool_version).data();
  stitch::python::translate_failures(module);
  stitch::python::bind_fragment(module);
  stitch::python::bind_client(module);
  stitch::python::bind_program(module);
  stitch::python::bind_onnx(module);
  stitch::python::bind_xla(module);
}
