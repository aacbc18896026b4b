#include "graph/passes/splat.h"

#include <cstring>

#include "graph/literal.h"
#include "graph/reduce_kind.h"

namespace stitch::graph {

const ConstantAttributes* splat_constant(const Rewriter& graph, Value value) {
  while (graph.is(value, Op::broadcast) || graph.is(value, Op::reshape) || graph.is(value, Op::transpose)) {
    value = graph.operand(value);
  }
  if (!graph.is(value, Op::constant) || graph.type(value).elements() != 1) return nullptr;
  return &graph.node(value).as<ConstantAttributes>();
}

std::optional<double> splat_number(const Rewriter& graph, Value value) {
  const ConstantAttributes* constant = splat_constant(graph, value);
  if (constant == nullptr) return std::nullopt;
  const double number = element(*constant, 0);
  const bool wide = constant->type.dtype == DType::s64 || constant->type.dtype == DType::u64;
  if (wide && !(number > -0x1p53 && number < 0x1p53)) return std::nullopt;
  return number;
}

std::optional<std::int64_t> splat_integer(const Rewriter& graph, Value value) {
  const ConstantAttributes* constant = splat_constant(graph, value);
  if (constant == nullptr || is_floating(constant->type.dtype)) return std::nullopt;
  return load_integer(constant->type.dtype, constant->data.data());
}

bool is_splat_of(const Rewriter& graph, Value value, double number) {
  const std::optional<double> held = splat_number(graph, value);
  return held && *held == number;
}

bool is_identity(const Rewriter& graph, Value value, ReduceKind kind) {
  const ConstantAttributes* constant = splat_constant(graph, value);
  if (constant == nullptr) return false;
  const std::uint64_t bits = identity_bits(kind, constant->type.dtype);
  if (std::memcmp(constant->data.data(), &bits, constant->data.size()) == 0) return true;
  return kind == ReduceKind::sum && element(*constant, 0) == 0;  // -0.0
}

}  // namespace stitch::graph
