#pragma once

#include "kernel/contraction/gated_contraction.h"
#include "tests/codegen/matmul_case.h"

/// Products with gates: recurrent cells and gated linear units, as models write them.
namespace stitch::codegen::test {

struct Gated {
  std::string name;
  std::int64_t batch, rows, units, depth;
  int gates = 2;
  DType dtype = DType::f32;
  DType result = DType::f32;  ///< of the products
  Layout right = Layout::plain;
  std::string form = {};  ///< "": slices of one product; "split": of its columns reshaped; "apart": two products
  bool cell = false;      ///< a second result, made of a state besides
  graph::Constraints constraints = {};
};
inline void PrintTo(const Gated& each, std::ostream* out) { *out << each.name; }

/// The gates, each [batch, rows, units].
inline std::vector<Value> gates_of(Builder& b, const Gated& g) {
  const bool right_turned = g.right == Layout::turned;
  const Value x = b.parameter(g.dtype, {g.batch, g.rows, g.depth});
  const auto product = [&](std::int64_t columns) {
    const Value w =
        b.parameter(g.dtype, right_turned ? Dims{g.batch, columns, g.depth} : Dims{g.batch, g.depth, columns});
    const Value sum = b.dot(x, w, {{0}, {0}, {2}, {right_turned ? 2 : 1}, g.result});
    const Value bias = b.parameter(g.result, {columns});
    return b.binary(Op::add, sum, b.broadcast(bias, {g.batch, g.rows, columns}, {2}));
  };
  if (g.form == "apart") return {product(g.units), product(g.units)};
  Value all = product(g.units * g.gates);
  if (g.form == "split") all = b.reshape(all, {g.batch, g.rows, g.gates, g.units});
  std::vector<Value> gates;
  for (int gate = 0; gate < g.gates; ++gate) {
    if (g.form == "split") {
      const Value one = b.slice(all, {0, 0, gate, 0}, {g.batch, g.rows, gate + 1, g.units});
      gates.push_back(b.reshape(one, {g.batch, g.rows, g.units}));
    } else {
      gates.push_back(b.slice(all, {0, 0, gate * g.units}, {g.batch, g.rows, (gate + 1) * g.units}));
    }
  }
  return gates;
}

inline graph::Graph graph_of(const Gated& g) {
  Builder b;
  const std::vector<Value> gates = gates_of(b, g);
  Value unit = b.binary(Op::multiply, b.unary(Op::tanh, gates[0]), gates[1]);
  for (std::size_t i = 2; i < gates.size(); ++i) unit = b.binary(Op::add, unit, b.unary(Op::logistic, gates[i]));
  std::vector<Value> results = {unit};
  if (g.cell) {
    const Value state = b.parameter(g.result, {g.batch, g.rows, g.units});
    const Value next = b.binary(Op::add, b.binary(Op::multiply, state, b.unary(Op::logistic, gates.back())), unit);
    results = {next, b.unary(Op::tanh, next)};
  }
  auto graph = b.finish(results);
  if (!graph) throw std::runtime_error(graph.error().message);
  graph->constraints = g.constraints;
  return *std::move(graph);
}

inline kernel::ContractionProblem problem_of(const Gated& g) {
  auto problem = kernel::derive_gated(graph_of(g));
  if (!problem) throw std::runtime_error(problem.error().message);
  return *std::move(problem);
}

}  // namespace stitch::codegen::test
