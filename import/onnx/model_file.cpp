#include "import/onnx/model_file.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <limits>

#include "import/onnx/wire.h"

namespace stitch::import::onnx {

Result<::onnx::ModelProto> parse_model(std::string_view bytes, std::int64_t max_bytes) {
  if (std::ssize(bytes) > std::min<std::int64_t>(max_bytes, std::numeric_limits<int>::max())) {
    return make_error(ErrorKind::resource_exhausted, "ONNX model: {} bytes, at most {} are read", bytes.size(),
                      max_bytes);
  }
  ::onnx::ModelProto model;
  if (!model.ParseFromArray(bytes.data(), bytes.size())) {
    return make_error(ErrorKind::parse, "ONNX model: damaged or truncated at {}",
                      locate_damage(bytes, *::onnx::ModelProto::descriptor()));
  }
  if (!model.has_graph()) {
    return make_error(ErrorKind::parse, "ONNX model: there is no graph in its {} bytes", bytes.size());
  }
  return model;
}

}  // namespace stitch::import::onnx
