#include "graph/codec/codec.h"

#include <nlohmann/json.hpp>

#include "graph/codec/codec_constant.h"

// Encoding. Decoding is in codec_decode.cpp.

namespace stitch::graph {
namespace {

using Json = nlohmann::json;

Json encode_field(std::int64_t value) { return value; }
Json encode_field(bool value) { return value; }
Json encode_field(const std::string& value) { return value; }
Json encode_field(DType value) { return to_string(value); }
Json encode_field(ReduceKind value) { return to_string(value); }
Json encode_field(Comparison value) { return to_string(value); }
Json encode_field(const TensorType& value) { return to_string(value); }

template <class T>
Json encode_field(const std::vector<T>& list) {
  Json array = Json::array();
  for (const T& value : list) array.push_back(encode_field(value));
  return array;
}

Json encode_attributes(const Attributes& attributes, Encoding encoding) {
  Json object = Json::object();
  if (const auto* constant = std::get_if<ConstantAttributes>(&attributes)) {
    object["type"] = encode_field(constant->type);
    object["data"] = encode_data(*constant, encoding);
    return object;
  }
  std::visit(
      [&](const auto& a) {
        using A = std::decay_t<decltype(a)>;
        if constexpr (!std::is_same_v<A, ConstantAttributes>) {
          A::fields(a,
                    [&](std::string_view name, const auto& field) { object[std::string(name)] = encode_field(field); });
        }
      },
      attributes);
  return object;
}

/// A node's first result as its number, others as [number, result].
Json encode_value(Value value) {
  if (value.result == 0) return value.node;
  return Json::array({value.node, value.result});
}

Json encode_values(std::span<const Value> values) {
  Json array = Json::array();
  for (const Value& value : values) array.push_back(encode_value(value));
  return array;
}

Json encode_graph(const Graph& graph, Encoding encoding) {
  Json document = Json::object();
  if (!graph.name.empty()) document["name"] = graph.name;
  Constraints::fields(graph.constraints, [&](const char* name, bool asked) {
    if (asked) document["constraints"].push_back(name);
  });
  Json& nodes = document["nodes"] = Json::array();
  for (const Node& node : graph.nodes()) {
    Json entry = Json::object();
    entry["op"] = to_string(node.op);
    if (!node.operands.empty()) entry["operands"] = encode_values(node.operands);
    Json attributes = encode_attributes(node.attributes, encoding);
    if (!attributes.empty()) entry["attributes"] = std::move(attributes);
    if (!node.name.empty()) entry["name"] = node.name;
    if (node.line != 0) entry["line"] = node.line;
    for (const auto& region : node.regions) entry["regions"].push_back(encode_graph(*region, encoding));
    nodes.push_back(std::move(entry));
  }
  document["results"] = encode_values(graph.results());
  return document;
}

}  // namespace

Json to_document(const Graph& graph, Encoding encoding) {
  Json document = encode_graph(graph, encoding);
  document["format"] = graph_format_name;
  document["version"] = graph_format_version;
  return document;
}

std::string encode(const Graph& graph, Encoding encoding, int indent) {
  const Json document = to_document(graph, encoding);
  if (encoding == Encoding::cbor) {
    std::string bytes;
    Json::to_cbor(document, bytes);
    return bytes;
  }
  // Names come from files of all sorts: what is not UTF-8 is replaced.
  return document.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace stitch::graph
