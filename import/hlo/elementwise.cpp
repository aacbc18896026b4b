#include <array>

#include "graph/literal.h"
#include "import/hlo/attribute.h"
#include "import/hlo/lowering.h"
#include "import/hlo/rules.h"
#include "import/hlo/total_order.h"

namespace stitch::import::hlo {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::Value;

Values operands_of(const Site& site) {
  Values operands;
  for (std::size_t i = 0; i < site.operands.size(); ++i) operands.push_back(site.operand(i));
  return operands;
}

/// A scalar operand stretched to the result's shape, where HLO allows one.
Value stretched(const Site& site, Value value) {
  const graph::Dims& dims = site.type().dims;
  return site.builder.dims(value).empty() && !dims.empty() ? site.builder.broadcast(value, dims, {}) : value;
}

bool is_scalar_function(const graph::Graph& graph) {
  for (const graph::Node& node : graph.nodes()) {
    const bool source = node.op == Op::parameter || node.op == Op::constant;
    if (!source && !graph::is_elementwise(node.op)) return false;
    for (const graph::TensorType& type : node.results) {
      if (type.rank() != 0) return false;
    }
  }
  return graph.results().size() == 1;
}

/// A function of scalars applied to every element.
Value applied(Builder& builder, const graph::Graph& function, const Values& arguments, const graph::Dims& dims) {
  std::vector<Value> image(function.size());
  std::size_t next_argument = 0;
  for (graph::NodeId id = 0; id < function.size(); ++id) {
    const graph::Node& node = function.node(id);
    Value& value = image[id];
    if (node.op == Op::parameter) {
      value = arguments[next_argument++];
      continue;
    }
    Values operands;
    for (const Value& operand : node.operands) {
      operands.push_back({image[operand.node].node, operand.result});
    }
    builder.at(node.name, node.line);
    value = builder.add(node.op, std::move(operands), node.attributes);
    if (node.op == Op::constant && !dims.empty()) value = builder.broadcast(value, dims, {});
  }
  return image[function.results()[0].node];
}

}  // namespace

Result<Values> lower_elementwise(const Site& site) { return Values{site.builder.add(site.op, operands_of(site))}; }

Result<Values> lower_logical(const Site& site) {
  Op op = site.op;
  if (site.type().dtype == DType::pred) op = op == Op::add ? Op::bit_or : Op::bit_and;
  return Values{site.builder.add(op, operands_of(site))};
}

Result<Values> lower_convert(const Site& site) {
  const Value x = site.operand(0);
  const DType dtype = site.type().dtype;
  if (site.builder.dtype(x) == dtype) return Values{x};
  if (site.op == Op::bitcast_convert && graph::byte_size(dtype) != graph::byte_size(site.builder.dtype(x))) {
    return site.lowering.opaque(site, std::string(site.instruction.opcode), "changes the size of its elements");
  }
  return Values{site.builder.add(site.op, {x}, graph::ConvertAttributes{dtype})};
}

Result<Values> lower_compare(const Site& site) {
  STITCH_ASSIGN(const Attribute* attribute, require_attribute(site.instruction, "direction"));
  struct Row {
    std::string_view name;
    graph::Comparison direction;
  };
  constexpr std::array<Row, 6> rows = {{{"EQ", graph::Comparison::eq},
                                        {"NE", graph::Comparison::ne},
                                        {"LT", graph::Comparison::lt},
                                        {"LE", graph::Comparison::le},
                                        {"GT", graph::Comparison::gt},
                                        {"GE", graph::Comparison::ge}}};
  Value x = site.operand(0), y = site.operand(1);
  const DType dtype = site.builder.dtype(x);
  const bool total = text_attribute(site.instruction, "type") == "TOTALORDER" && graph::is_floating(dtype);
  if (const auto bits = signed_of_size(graph::byte_size(dtype)); total && bits && site.builder.dtype(y) == dtype) {
    x = total_order_key(site.builder, x, *bits);
    y = total_order_key(site.builder, y, *bits);
  }
  for (const Row& row : rows) {
    if (row.name == attribute->value) return Values{site.builder.compare(row.direction, x, y)};
  }
  return site.error(fmt::format("unknown direction '{}'", attribute->value));
}

Result<Values> lower_select(const Site& site) {
  return Values{site.builder.select(stretched(site, site.operand(0)), site.operand(1), site.operand(2))};
}

Result<Values> lower_clamp(const Site& site) {
  const Value low = stretched(site, site.operand(0));
  const Value high = stretched(site, site.operand(2));
  return Values{site.builder.add(Op::clamp, {low, site.operand(1), high})};
}

Result<Values> lower_count_leading_zeros(const Site& site) {
  // Every bit below the highest set one is set; what remains unset are the leading zeros.
  Builder& builder = site.builder;
  Value x = site.operand(0);
  const graph::TensorType type = site.operand_type(0);
  if (!graph::is_integer(type.dtype)) return site.error("the operand is no integer");
  const int bits = graph::byte_size(type.dtype) * 8;
  for (int shift = 1; shift < bits; shift *= 2) {
    const Value distance = builder.filled(type.dtype, type.dims, shift);
    x = builder.binary(Op::bit_or, x, builder.binary(Op::shift_right_logical, x, distance));
  }
  return Values{builder.unary(Op::popcount, builder.unary(Op::bit_not, x))};
}

Result<Values> lower_map(const Site& site) {
  STITCH_ASSIGN(const Computation* computation, site.lowering.called(site, "to_apply"));
  STITCH_ASSIGN(const std::shared_ptr<const graph::Graph> function, site.lowering.shared_region(*computation));
  if (!is_scalar_function(*function)) return site.lowering.opaque(site, "map", "maps more than element-wise operators");
  if (function->parameters().size() != site.operands.size()) return site.error("the function's parameters do not fit");
  // Parameters are the first nodes of a region, in order.
  return Values{applied(site.builder, *function, operands_of(site), site.type().dims)};
}

}  // namespace stitch::import::hlo
