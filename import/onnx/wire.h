#pragma once

#include <string>
#include <string_view>

namespace google::protobuf {
class Descriptor;
}

namespace stitch::import::onnx {

/// Where a serialized message stops being one: "byte 1234, in graph.node[17].attribute[2]". For bytes that protobuf
/// has refused to parse; walks the wire format along the message's description.
std::string locate_damage(std::string_view bytes, const google::protobuf::Descriptor& message);

}  // namespace stitch::import::onnx
