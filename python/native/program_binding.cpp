#include "python/native/program_binding.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "python/native/arrays.h"
#include "python/native/errors.h"
#include "python/native/fragment_binding.h"
#include "python/native/host_program.h"

namespace stitch::python {

namespace nb = nanobind;

namespace {

using Port = std::pair<std::string, TypeTuple>;

std::vector<Port> ports_of(const std::vector<api::ProgramPort>& ports) {
  std::vector<Port> named;
  for (const api::ProgramPort& port : ports) named.emplace_back(port.name, tuple_of(port.type));
  return named;
}

std::unique_ptr<HostProgram> open_program(nb::bytes document, const std::string& device, int ordinal) {
  const std::string_view bytes(document.c_str(), document.size());
  nb::gil_scoped_release released;
  return value_of(HostProgram::open(bytes, device, ordinal));
}

void run_on_arrays(HostProgram& program, const std::vector<Array>& inputs, const std::vector<WritableArray>& outputs) {
  const auto from = spans_of<const std::byte>(inputs, program.inputs(), "program", "input");
  const auto to = spans_of<std::byte>(outputs, program.outputs(), "program", "output");
  nb::gil_scoped_release released;
  check(program.run(from, to));
}

nb::dict program_info(const HostProgram& program) {
  const client::ProgramRunner& runner = program.runner();
  const api::Program& of = runner.program();
  nb::dict steps, labels;
  std::int64_t launches = 0;
  for (const api::ProgramRegion& region : of.regions) {
    for (const api::ProgramStep& step : region.steps) {
      const std::string kind(api::kind_of(step));
      steps[kind.c_str()] = steps.contains(kind.c_str()) ? nb::cast<int>(steps[kind.c_str()]) + 1 : 1;
    }
  }
  for (const api::ProgramFragment& fragment : of.fragments) {
    if (!fragment.plan) continue;
    launches += fragment.occurrences * std::ssize(fragment.plan->launches);
    const char* label = fragment.plan->label.c_str();
    labels[label] = labels.contains(label) ? nb::cast<int>(labels[label]) + 1 : 1;
  }
  nb::list fallbacks;
  for (const client::ProgramFallback& fallback : runner.fallbacks())
    fallbacks.append(nb::make_tuple(fallback.step, fallback.reason));
  nb::dict info;
  info["id"] = of.id.hex();
  info["model"] = of.model;
  info["device"] = of.target.device;
  info["steps"] = steps;
  info["labels"] = labels;
  info["launches"] = launches;
  info["arena_bytes"] = runner.arena_bytes();
  info["lower_bound_bytes"] = of.regions[0].lower_bound_bytes;
  info["eager_bytes"] = of.regions[0].eager_bytes;
  info["workspace_bytes"] = runner.workspace_bytes();
  info["library"] = runner.library();
  info["fallbacks"] = fallbacks;
  return info;
}

}  // namespace

void bind_program(nb::module_& module) {
  nb::class_<HostProgram>(module, "Program", "A whole model, loaded on a device; runs follow one another.")
      .def(nb::new_(&open_program), nb::arg("document"), nb::arg("device") = "emulated", nb::arg("ordinal") = 0,
           "Opens a program's CBOR document with its code inside; needs no server and no compiler")
      .def_prop_ro("inputs", [](const HostProgram& program) { return ports_of(program.runner().inputs()); })
      .def_prop_ro("outputs", [](const HostProgram& program) { return ports_of(program.runner().outputs()); })
      .def_prop_ro("info", &program_info)
      .def("run", &run_on_arrays, nb::arg("inputs"), nb::arg("outputs"),
           "Runs on arrays of the host (DLPack), dense and row-major, and waits");
}

}  // namespace stitch::python
