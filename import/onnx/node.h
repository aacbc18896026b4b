#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/tensor_type.h"

// The generated header takes seconds to compile; only the sources that look into messages include it.
namespace onnx {
class AttributeProto;
class FunctionProto;
class GraphProto;
class NodeProto;
class TensorProto;
class ValueInfoProto;
}  // namespace onnx

namespace stitch::import::onnx {

namespace pb = ::onnx;

/// Values of a function's attributes at the call that is being inlined, by name.
using AttributeBindings = std::map<std::string, const pb::AttributeProto*>;

/// One node's attributes, read by name. An attribute of the wrong kind is an error (parse) that names it; a reference
/// to a function's attribute is followed.
class NodeView {
 public:
  /// All three must outlive the view; `bindings` is null outside functions.
  NodeView(const pb::NodeProto& node, const AttributeBindings* bindings) : node_(&node), bindings_(bindings) {}

  [[nodiscard]] const pb::NodeProto& proto() const { return *node_; }
  [[nodiscard]] const std::string& op() const;
  [[nodiscard]] std::size_t outputs() const;
  /// The name of output i, empty for one that is left out.
  [[nodiscard]] const std::string& output(std::size_t i) const;
  /// The attribute, or null when the node does not give it.
  [[nodiscard]] const pb::AttributeProto* find(std::string_view name) const;
  [[nodiscard]] bool has(std::string_view name) const { return find(name) != nullptr; }

  [[nodiscard]] Result<std::int64_t> integer(std::string_view name, std::int64_t fallback) const;
  [[nodiscard]] Result<double> number(std::string_view name, double fallback) const;
  [[nodiscard]] Result<std::string> text(std::string_view name, std::string_view fallback) const;
  /// None when the node does not give it.
  [[nodiscard]] Result<std::optional<graph::Dims>> integers(std::string_view name) const;
  [[nodiscard]] Result<graph::Dims> integers(std::string_view name, graph::Dims fallback) const;
  [[nodiscard]] Result<std::vector<double>> numbers(std::string_view name, const std::vector<double>& fallback) const;
  [[nodiscard]] Result<std::vector<std::string>> texts(std::string_view name,
                                                       const std::vector<std::string>& fallback) const;
  /// A subgraph or a tensor that the operator cannot do without.
  [[nodiscard]] Result<const pb::GraphProto*> graph(std::string_view name) const;
  [[nodiscard]] Result<const pb::TensorProto*> tensor(std::string_view name) const;

  /// The attributes as text, in the order of their names: "axis=1, mode=linear"; tensors and subgraphs by kind only.
  [[nodiscard]] std::string describe() const;

 private:
  /// The attribute, if it is of the wanted kind (a number of AttributeProto.AttributeType).
  [[nodiscard]] Result<const pb::AttributeProto*> typed(std::string_view name, int wanted) const;

  const pb::NodeProto* node_;
  const AttributeBindings* bindings_;
};

}  // namespace stitch::import::onnx
