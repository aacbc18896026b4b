// The native half of the Python package: what stitch/*.py build on.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/environment.h"
#include "base/tally.h"
#include "base/trace.h"
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
  module.def("count_phase", &stitch::tally::phase, nanobind::arg("name"), nanobind::arg("took_us"),
             nanobind::arg("failed"), "Adds a phase to the process's sums (base/tally.h)");
  module.def("sums", &stitch::tally::json, "The process's sums as a JSON object (base/tally.h)");
  module.def("reset_sums", &stitch::tally::reset, "Begins them anew");
  module.def(
      "unknown_variables",
      [] {
        std::vector<std::pair<std::string, std::string>> named;
        for (const std::string& name : stitch::unknown_environment_variables())
          named.emplace_back(name, stitch::nearest_environment_variable(name));
        return named;
      },
      "Variables of the environment that begin like ours and that nobody reads, with the known one that is meant or "
      "\"\"");
  stitch::python::translate_failures(module);
  stitch::python::bind_fragment(module);
  stitch::python::bind_client(module);
  stitch::python::bind_program(module);
  stitch::python::bind_onnx(module);
  stitch::python::bind_xla(module);
}
