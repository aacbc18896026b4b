#include "python/native/onnx_binding.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "graph/dtype.h"
#include "import/import.h"
#include "import/onnx/model_ports.h"
#include "python/native/errors.h"
#include "python/native/fragment_binding.h"

namespace stitch::python {

namespace nb = nanobind;

namespace {

/// (name, kind, element, extents): extents are numbers, names, or None; all of them None where the rank is open.
nb::list list_of(const std::vector<import::ModelPort>& ports) {
  nb::list list;
  for (const import::ModelPort& port : ports) {
    nb::object shape = nb::none();
    if (port.shape) {
      nb::list extents;
      for (const import::PortExtent& extent : *port.shape) {
        if (extent.extent >= 0) {
          extents.append(extent.extent);
        } else if (!extent.name.empty()) {
          extents.append(extent.name);
        } else {
          extents.append(nb::none());
        }
      }
      shape = std::move(extents);
    }
    list.append(nb::make_tuple(port.name, port.kind, port.element, shape));
  }
  return list;
}

nb::dict declared_ports(nb::bytes bytes) {
  const std::string_view text(bytes.c_str(), bytes.size());
  const import::ModelPorts ports = [&] {
    nb::gil_scoped_release released;
    return value_of(import::onnx_ports(text));
  }();
  nb::dict metadata, result;
  for (const auto& [key, value] : ports.metadata) metadata[key.c_str()] = value;
  result["inputs"] = list_of(ports.inputs);
  result["overridable"] = list_of(ports.overridable);
  result["outputs"] = list_of(ports.outputs);
  result["producer"] = ports.producer;
  result["domain"] = ports.domain;
  result["description"] = ports.description;
  result["graph"] = ports.graph;
  result["graph_description"] = ports.graph_description;
  result["version"] = ports.version;
  result["metadata"] = metadata;
  return result;
}

/// Element type, extents and bytes of an array that the graph may be specialised for.
using Known = std::tuple<std::string, std::vector<std::int64_t>, nb::bytes>;

Fragment read_onnx(nb::bytes bytes, const std::map<std::string, std::int64_t>& extents,
                   const std::map<std::string, Known>& known, bool weights) {
  import::ImportOptions options;
  options.keep_weights = weights;
  options.extents.assign(extents.begin(), extents.end());
  for (const auto& [name, value] : known) {
    const auto& [word, dims, data] = value;
    const auto dtype = graph::dtype_from_name(word);
    if (!dtype) throw Failure{make_error(ErrorKind::invalid_argument, "'{}' is no element type", word)};
    graph::ConstantAttributes constant{{*dtype, dims}, std::vector<std::byte>(data.size())};
    if (std::ssize(constant.data) != constant.type.bytes())
      throw Failure{make_error(ErrorKind::invalid_argument, "'{}': {} bytes for {}", name, data.size(),
                               graph::to_string(constant.type))};
    if (data.size() > 0) std::memcpy(constant.data.data(), data.c_str(), data.size());
    options.known_inputs.emplace_back(name, std::move(constant));
  }
  const std::string_view text(bytes.c_str(), bytes.size());
  nb::gil_scoped_release released;
  return fragment_of(value_of(import::import_onnx(text, options)));
}

}  // namespace

void bind_onnx(nb::module_& module) {
  module.def("onnx_ports", &declared_ports, nb::arg("bytes"),
             "What an ONNX file declares of its inputs, outputs and itself");
  module.def("read_onnx", &read_onnx, nb::arg("bytes"), nb::arg("extents"), nb::arg("known"), nb::arg("weights"),
             "Reads an ONNX model with these extents for its open dimensions, specialised for the values of inputs in "
             "`known` (element type, extents, bytes) where it needs them");
}

}  // namespace stitch::python
