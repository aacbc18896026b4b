#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "graph/attributes.h"
#include "graph/dtype.h"

namespace onnx {
class TensorProto;
}

namespace stitch::import::onnx {

namespace pb = ::onnx;

/// The element type of ONNX's TensorProto.DataType `code` (newer codes than the library's included); none for those
/// that the IR lacks: strings, complex numbers, 4-bit and the less usual 8-bit floats.
std::optional<graph::DType> dtype_of(std::int64_t code);

/// ONNX's name of a data type code: "FLOAT16"; "type 77" when there is none.
std::string type_name(std::int64_t code);

/// A tensor from a file: its type, and its elements unless they are stored outside the file.
struct TensorData {
  graph::TensorType type;
  std::optional<graph::ConstantAttributes> constant;
  std::string location;     ///< of the file that has the elements, where this one has not
  std::int64_t offset = 0;  ///< bytes into it
};

/// Errors: unsupported (an element type that the IR lacks), parse (dims and amount of data disagree; the message has
/// the tensor's name).
Result<TensorData> read_tensor(const pb::TensorProto& tensor);

}  // namespace stitch::import::onnx
