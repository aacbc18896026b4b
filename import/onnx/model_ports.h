#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace stitch::import {

/// One extent that an ONNX file states.
struct PortExtent {
  std::int64_t extent = -1;  ///< -1: open
  std::string name;          ///< of an open one ("batch"); may be empty

  bool operator==(const PortExtent&) const = default;
};

/// An input or output as an ONNX file declares it, before anything is assumed about its extents.
struct ModelPort {
  std::string name;
  std::string kind;     ///< "tensor", "sparse tensor", "sequence", "map", "optional"; "" where the file says nothing
  std::string element;  ///< of tensors: ONNX's name of the element type, "FLOAT16"
  std::optional<std::vector<PortExtent>> shape;  ///< of tensors; nothing: not even the rank is stated
};

/// What a runtime tells its users of an ONNX file.
struct ModelPorts {
  std::vector<ModelPort> inputs;       ///< that have to be fed
  std::vector<ModelPort> overridable;  ///< listed among the inputs, but there is an initializer of the name
  std::vector<ModelPort> outputs;
  std::string producer, domain, description, graph, graph_description;
  std::int64_t version = 0;                                   ///< of the model
  std::vector<std::pair<std::string, std::string>> metadata;  ///< in the file's order
};

/// Reads them; the rest of the file is parsed, but no operator of it is looked at. `max_bytes` as ImportOptions.
/// Errors: parse (names the byte), resource_exhausted.
Result<ModelPorts> onnx_ports(std::string_view bytes, std::int64_t max_bytes = std::int64_t{1} << 30);

}  // namespace stitch::import
