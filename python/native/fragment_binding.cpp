#include "python/native/fragment_binding.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "graph/canonical.h"
#include "graph/codec/codec.h"
#include "graph/print.h"
#include "import/import.h"
#include "python/native/errors.h"

namespace stitch::python {

namespace nb = nanobind;

TypeTuple tuple_of(const graph::TensorType& type) { return {std::string(graph::to_string(type.dtype)), type.dims}; }

std::vector<std::pair<std::int64_t, std::int64_t>> pairs_of(const std::vector<api::InPlace>& pairs) {
  std::vector<std::pair<std::int64_t, std::int64_t>> numbers;
  for (const api::InPlace& pair : pairs) numbers.emplace_back(pair.parameter, pair.result);
  return numbers;
}

Fragment fragment_of(import::Imported imported) {
  return {std::move(imported.graph), std::move(imported.parameters), std::move(imported.results),
          std::move(imported.boundaries), std::move(imported.weights)};
}

namespace {

/// (operator, place, reason) of each.
nb::list boundaries_of(const Fragment& fragment) {
  nb::list list;
  for (const import::Boundary& boundary : fragment.boundaries)
    list.append(nb::make_tuple(boundary.op, boundary.place, boundary.reason));
  return list;
}

/// (parameter, bytes, file, offset) of each; the bytes are empty where a file beside the model has them.
nb::list weights_of(const Fragment& fragment) {
  nb::list list;
  for (const import::Weight& weight : fragment.weights)
    list.append(nb::make_tuple(weight.parameter, nb::bytes(weight.data.data(), weight.data.size()), weight.location,
                               weight.offset));
  return list;
}

std::vector<TypeTuple> parameter_types(const Fragment& fragment) {
  std::vector<TypeTuple> types;
  for (const graph::NodeId id : fragment.graph.parameters()) types.push_back(tuple_of(fragment.graph.node(id).type()));
  return types;
}

std::vector<TypeTuple> result_types(const Fragment& fragment) {
  std::vector<TypeTuple> types;
  for (const graph::Value& value : fragment.graph.results()) types.push_back(tuple_of(fragment.graph.type(value)));
  return types;
}

}  // namespace

void bind_fragment(nb::module_& module) {
  nb::class_<Fragment>(module, "Fragment", "A graph of operators with named parameters and results.")
      .def_prop_ro("name", [](const Fragment& fragment) { return fragment.graph.name; })
      .def_prop_ro("parameters", &parameter_types, "(element type, extents) of each parameter")
      .def_prop_ro("results", &result_types, "(element type, extents) of each result")
      .def_prop_ro("parameter_names", [](const Fragment& fragment) { return fragment.parameters; })
      .def_prop_ro("result_names", [](const Fragment& fragment) { return fragment.results; })
      .def_prop_ro("boundaries", &boundaries_of, "(operator, place, reason) of what nobody here computes")
      .def_prop_ro("weights", &weights_of, "(parameter, bytes, file, offset) of an ONNX model's initializers")
      .def_prop_ro("operators", [](const Fragment& fragment) { return graph::operator_count(fragment.graph); })
      .def(
          "to_json", [](const Fragment& fragment) { return graph::encode(fragment.graph, graph::Encoding::json); },
          "The document that docs/fragment-format.md describes")
      .def("__str__", [](const Fragment& fragment) { return graph::to_text(fragment.graph); });

  module.def(
      "read_model",
      [](nb::bytes bytes, const std::string& name) {
        const std::string_view text(bytes.c_str(), bytes.size());
        nb::gil_scoped_release released;
        return fragment_of(value_of(import::import_bytes(text, name)));
      },
      nb::arg("bytes"), nb::arg("name") = "", "Reads a fragment, HLO text or an ONNX model");
  module.def(
      "read_aten", [](const std::string& document) { return fragment_of(value_of(import::import_aten(document))); },
      nb::arg("document"), nb::call_guard<nb::gil_scoped_release>(),
      "Reads a document of core ATen operators (docs/importers.md)");
  module.def("aten_operator_known", &import::aten_operator_known, nb::arg("op"),
             "Whether there is a rule for an operator such as \"aten.add.Tensor\"");
}

}  // namespace stitch::python
