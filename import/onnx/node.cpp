#include "import/onnx/node.h"

#include <fmt/ranges.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

namespace stitch::import::onnx {
namespace {

using pb::AttributeProto;

/// Files older than IR version 2 leave the kind out; then the field that is filled tells.
AttributeProto::AttributeType kind_of(const AttributeProto& attribute) {
  if (attribute.type() != AttributeProto::UNDEFINED) return attribute.type();
  if (attribute.has_i()) return AttributeProto::INT;
  if (attribute.has_f()) return AttributeProto::FLOAT;
  if (attribute.has_s()) return AttributeProto::STRING;
  if (attribute.has_t()) return AttributeProto::TENSOR;
  if (attribute.has_g()) return AttributeProto::GRAPH;
  if (attribute.ints_size() > 0) return AttributeProto::INTS;
  if (attribute.floats_size() > 0) return AttributeProto::FLOATS;
  if (attribute.strings_size() > 0) return AttributeProto::STRINGS;
  return AttributeProto::UNDEFINED;
}

std::string kind_name(AttributeProto::AttributeType kind) {
  return AttributeProto::AttributeType_IsValid(kind) ? AttributeProto::AttributeType_Name(kind) : "UNDEFINED";
}

std::string describe_value(const AttributeProto& attribute) {
  switch (kind_of(attribute)) {
    case AttributeProto::INT: return fmt::format("{}", attribute.i());
    case AttributeProto::FLOAT: return fmt::format("{}", attribute.f());
    case AttributeProto::STRING: return attribute.s();
    case AttributeProto::INTS: return fmt::format("[{}]", fmt::join(attribute.ints(), ","));
    case AttributeProto::FLOATS: return fmt::format("[{}]", fmt::join(attribute.floats(), ","));
    case AttributeProto::STRINGS: return fmt::format("[{}]", fmt::join(attribute.strings(), ","));
    default: return kind_name(kind_of(attribute));
  }
}

}  // namespace

const AttributeProto* NodeView::find(std::string_view name) const {
  for (const AttributeProto& attribute : node_->attribute()) {
    if (attribute.name() != name) continue;
    if (attribute.ref_attr_name().empty()) return &attribute;
    if (bindings_ == nullptr) return nullptr;
    const auto bound = bindings_->find(attribute.ref_attr_name());
    return bound == bindings_->end() ? nullptr : bound->second;
  }
  return nullptr;
}

const std::string& NodeView::op() const { return node_->op_type(); }

std::size_t NodeView::outputs() const { return node_->output_size(); }

const std::string& NodeView::output(std::size_t i) const { return node_->output(i); }

Result<const AttributeProto*> NodeView::typed(std::string_view name, int wanted) const {
  const AttributeProto* attribute = find(name);
  if (attribute == nullptr) return attribute;
  const AttributeProto::AttributeType kind = kind_of(*attribute);
  // An empty list of a file that leaves the kind out cannot be told from any other kind.
  if (kind != wanted && kind != AttributeProto::UNDEFINED) {
    return make_error(ErrorKind::parse, "attribute '{}' is {}, not {}", name, kind_name(kind),
                      kind_name(static_cast<AttributeProto::AttributeType>(wanted)));
  }
  return attribute;
}

Result<std::int64_t> NodeView::integer(std::string_view name, std::int64_t fallback) const {
  STITCH_ASSIGN(const AttributeProto* attribute, typed(name, AttributeProto::INT));
  return attribute == nullptr ? fallback : attribute->i();
}

Result<double> NodeView::number(std::string_view name, double fallback) const {
  STITCH_ASSIGN(const AttributeProto* attribute, typed(name, AttributeProto::FLOAT));
  return attribute == nullptr ? fallback : attribute->f();
}

Result<std::string> NodeView::text(std::string_view name, std::string_view fallback) const {
  STITCH_ASSIGN(const AttributeProto* attribute, typed(name, AttributeProto::STRING));
  return attribute == nullptr ? std::string(fallback) : attribute->s();
}

Result<std::optional<graph::Dims>> NodeView::integers(std::string_view name) const {
  STITCH_ASSIGN(const AttributeProto* attribute, typed(name, AttributeProto::INTS));
  if (attribute == nullptr) return std::optional<graph::Dims>{};
  return std::optional<graph::Dims>{graph::Dims(attribute->ints().begin(), attribute->ints().end())};
}

Result<graph::Dims> NodeView::integers(std::string_view name, graph::Dims fallback) const {
  STITCH_ASSIGN(std::optional<graph::Dims> given, integers(name));
  return given ? std::move(*given) : std::move(fallback);
}

Result<std::vector<double>> NodeView::numbers(std::string_view name, const std::vector<double>& fallback) const {
  STITCH_ASSIGN(const AttributeProto* attribute, typed(name, AttributeProto::FLOATS));
  if (attribute == nullptr) return fallback;
  return std::vector<double>(attribute->floats().begin(), attribute->floats().end());
}

Result<std::vector<std::string>> NodeView::texts(std::string_view name,
                                                 const std::vector<std::string>& fallback) const {
  STITCH_ASSIGN(const AttributeProto* attribute, typed(name, AttributeProto::STRINGS));
  if (attribute == nullptr) return fallback;
  return std::vector<std::string>(attribute->strings().begin(), attribute->strings().end());
}

Result<const pb::GraphProto*> NodeView::graph(std::string_view name) const {
  STITCH_ASSIGN(const AttributeProto* attribute, typed(name, AttributeProto::GRAPH));
  if (attribute == nullptr) return make_error(ErrorKind::parse, "attribute '{}' is missing", name);
  return &attribute->g();
}

Result<const pb::TensorProto*> NodeView::tensor(std::string_view name) const {
  STITCH_ASSIGN(const AttributeProto* attribute, typed(name, AttributeProto::TENSOR));
  if (attribute == nullptr) return make_error(ErrorKind::parse, "attribute '{}' is missing", name);
  return &attribute->t();
}

std::string NodeView::describe() const {
  std::vector<std::string> parts;
  for (const AttributeProto& given : node_->attribute()) {
    const AttributeProto* attribute = find(given.name());
    if (attribute != nullptr) parts.push_back(fmt::format("{}={}", given.name(), describe_value(*attribute)));
  }
  std::sort(parts.begin(), parts.end());
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace stitch::import::onnx
