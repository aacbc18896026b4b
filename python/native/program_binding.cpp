#include "python/native/program_binding.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/package_document.h"
#include "api/program_in_place.h"
#include "api/program_lock.h"
#include "base/device_class.h"
#include "client/open_program.h"
#include "python/native/arrays.h"
#include "python/native/device_kind.h"
#include "python/native/errors.h"
#include "python/native/fragment_binding.h"
#include "python/native/launch_arguments.h"

namespace stitch::python {

namespace nb = nanobind;

namespace {

using client::OpenProgram;
using Port = std::pair<std::string, TypeTuple>;

std::vector<Port> ports_of(const std::vector<api::ProgramPort>& ports) {
  std::vector<Port> named;
  for (const api::ProgramPort& port : ports) named.emplace_back(port.name, tuple_of(port.type));
  return named;
}

std::unique_ptr<OpenProgram> open_program(nb::bytes document, const std::string& device, int ordinal) {
  const std::string_view bytes(document.c_str(), document.size());
  nb::gil_scoped_release released;
  return value_of(OpenProgram::open(bytes, value_of(device_kind(device)), ordinal), a_device);
}

void run_on_arrays(OpenProgram& program, const std::vector<Array>& inputs, const std::vector<WritableArray>& outputs) {
  const auto from = spans_of<const std::byte>(inputs, program.inputs(), "program", "input");
  const auto to = spans_of<std::byte>(outputs, program.outputs(), "program", "output");
  nb::gil_scoped_release released;
  check(program.run(from, to));
}

void launch_program(OpenProgram& program, nb::sequence inputs, nb::sequence outputs, std::uint64_t stream) {
  check(program.can_launch());
  const LaunchPlace place{"program", program.ordinal(), stream};
  const auto of = [](const std::vector<api::ProgramPort>& ports) {
    return [&ports](std::size_t i) -> const graph::TensorType& { return ports[i].type; };
  };
  const api::Program& document = program.program();
  const auto from = addresses_of(std::move(inputs), document.parameters.size(), of(document.parameters), "input",
                                 Access::read, place);
  const auto to =
      addresses_of(std::move(outputs), document.results.size(), of(document.results), "output", Access::write, place);
  nb::gil_scoped_release released;
  check(program.launch(from, to, reinterpret_cast<void*>(stream)));
}

nb::dict program_info(const OpenProgram& program) {
  const api::Program& of = program.program();
  nb::dict steps, labels;
  std::int64_t launches = 0, bytes = 0;
  double predicted_us = 0, uncertainty_us = 0;
  for (const api::ProgramRegion& region : of.regions) {
    for (const api::ProgramStep& step : region.steps) {
      const std::string kind(api::kind_of(step));
      steps[kind.c_str()] = steps.contains(kind.c_str()) ? nb::cast<int>(steps[kind.c_str()]) + 1 : 1;
    }
  }
  for (const api::ProgramFragment& fragment : of.fragments) {
    if (!fragment.plan) continue;
    launches += fragment.occurrences * std::ssize(fragment.plan->launches);
    bytes += fragment.occurrences * fragment.plan->bytes;
    predicted_us += static_cast<double>(fragment.occurrences) * fragment.plan->predicted_us;
    uncertainty_us += static_cast<double>(fragment.occurrences) * fragment.plan->uncertainty_us;
    const char* label = fragment.plan->label.c_str();
    labels[label] = labels.contains(label) ? nb::cast<int>(labels[label]) + 1 : 1;
  }
  nb::list fallbacks;
  for (const client::ProgramFallback& fallback : program.fallbacks())
    fallbacks.append(nb::make_tuple(fallback.step, fallback.reason));
  nb::dict info;
  info["id"] = of.id.hex();
  info["model"] = of.model;
  info["device"] = of.target.device;
  info["steps"] = steps;
  info["labels"] = labels;
  info["launches"] = launches;
  info["bytes"] = bytes;
  info["predicted_us"] = predicted_us;
  info["uncertainty_us"] = uncertainty_us;
  info["arena_bytes"] = of.regions[0].arena_bytes;
  info["lower_bound_bytes"] = of.regions[0].lower_bound_bytes;
  info["eager_bytes"] = of.regions[0].eager_bytes;
  info["in_place"] = pairs_of(api::in_place_of(of));
  info["workspace_bytes"] = program.workspace_bytes();
  info["library"] = program.library();
  info["fallbacks"] = fallbacks;
  info["can_launch"] = program.can_launch().ok();
  info["why_no_launch"] = program.can_launch() ? "" : program.can_launch().error().message;
  return info;
}

/// A package, or a program as one of its own class alone.
Result<api::Package> package_of(std::string_view document) {
  if (api::looks_like_package(document)) return api::decode_package(document);
  STITCH_ASSIGN(api::Program program, api::decode_program(document, graph::Encoding::cbor));
  return api::Package{program.model, program.source, {std::move(program)}};
}

/// The class of that name; without one that of the GPU which CUDA numbers so.
Result<DeviceClass> class_of(const std::string& name, int ordinal) {
  if (!name.empty()) return find_device_class(name);
  STITCH_ASSIGN(const client::OpenExecutor gpu, client::open_executor(client::DeviceKind::cuda, ordinal));
  const std::optional<DeviceTraits> traits = gpu.executor->traits();
  if (!traits) return make_error(ErrorKind::unavailable, "the driver does not say what GPU {} is", ordinal);
  return classify(*traits);
}

/// The class, how the document goes with it, why, and for which class the program is that would run ("": none).
nb::tuple compatibility_of(nb::bytes document, const std::string& name, int ordinal) {
  const std::string_view bytes(document.c_str(), document.size());
  std::string device, target;
  api::Compatibility found;
  {
    nb::gil_scoped_release released;
    const api::Package package = value_of(package_of(bytes));
    const DeviceSpec spec = value_of(class_of(name, ordinal), a_device).spec;
    found = api::compatibility(package, spec);
    device = spec.name;
    if (found.program >= 0) target = package.programs[static_cast<std::size_t>(found.program)].target.device;
  }
  const std::string fitness(api::to_string(found.fitness));
  return nb::make_tuple(device, fitness, found.reason, target);
}

}  // namespace

void bind_program(nb::module_& module) {
  nb::class_<OpenProgram>(module, "Program", "A whole model, loaded on a device; runs follow one another.")
      .def(nb::new_(&open_program), nb::arg("document"), nb::arg("device") = "emulated", nb::arg("ordinal") = 0,
           "Opens a program's CBOR document with its code inside; needs no server and no compiler")
      .def_prop_ro("inputs", [](const OpenProgram& program) { return ports_of(program.program().parameters); })
      .def_prop_ro("outputs", [](const OpenProgram& program) { return ports_of(program.program().results); })
      .def_prop_ro("info", &program_info)
      .def_prop_ro("lock", [](const OpenProgram& program) { return api::lock_of(program.program()); })
      .def("check_lock",
           [](const OpenProgram& program, const std::string& lock) { check(api::check_lock(lock, program.program())); })
      .def("run", &run_on_arrays, nb::arg("inputs"), nb::arg("outputs"),
           "Runs on arrays of the host (DLPack), dense and row-major, and waits")
      .def("launch", &launch_program, nb::arg("inputs"), nb::arg("outputs"), nb::arg("stream") = 0,
           "Enqueues on a CUstream with addresses or arrays of the GPU and does not wait");
  module.def(
      "programs_locked",
      [](const std::string& lock) {
        nb::gil_scoped_release released;
        return value_of(api::parse_lock(lock)).size();
      },
      nb::arg("lock"), "How many programs a lock's text names");
  module.def("compatibility", &compatibility_of, nb::arg("document"), nb::arg("device") = "", nb::arg("ordinal") = 0,
             "How a program's or package's document goes with a class of GPUs, or with the GPU of that number");
}

}  // namespace stitch::python
