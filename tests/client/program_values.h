#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "api/program_document.h"
#include "client/host/library_call.h"
#include "graph/builder.h"
#include "graph/literal.h"
#include "graph/reference/evaluate.h"
#include "profiler/verify/input_source.h"

// What tests of whole programs have in common: values, inputs, and the reference of results.
namespace stitch::client {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::TensorType;
using graph::Value;

/// Host memory of one tensor.
struct Memory {
  explicit Memory(std::int64_t size)
      : bytes(size),
        data(static_cast<std::byte*>(std::aligned_alloc(256, api::arena_bytes_of(std::max<std::int64_t>(1, size))))) {}
  Memory(Memory&& other) noexcept : bytes(other.bytes), data(std::exchange(other.data, nullptr)) {}
  ~Memory() { std::free(data); }
  [[nodiscard]] std::span<std::byte> span() const { return {data, bytes}; }
  std::size_t bytes;
  std::byte* data;
};

inline std::vector<Memory> random_inputs(const api::Program& program) {
  std::vector<Memory> inputs;
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    const api::ProgramPort& port = program.parameters[p];
    std::optional<profiler::InputSource::Range> range;
    if (port.low && port.high) range = {*port.low, *port.high};
    inputs.emplace_back(port.type.bytes());
    profiler::InputSource(port.type, profiler::Distribution::mixed, 7 + p, range)(0, inputs.back().span());
  }
  return inputs;
}

inline void expect_reference(const graph::Graph& graph, const std::vector<Memory>& inputs,
                             const std::vector<Memory>& outputs) {
  std::vector<graph::Tensor> arguments;
  for (std::size_t p = 0; p < inputs.size(); ++p) {
    const TensorType& type = graph.node(graph.parameters()[p]).type();
    arguments.push_back(graph::tensor_from_bytes(type, graph::Box::whole(type.dims), inputs[p].span()));
  }
  graph::EvaluateOptions options;
  options.bounds = true;
  options.error_model.flush_denormals = true;  // as verification has it
  options.error_model.serial_additions = std::max<std::int64_t>(32, longest_contraction(graph));
  const auto reference = graph::evaluate(graph, arguments, options);
  ASSERT_TRUE(reference.ok()) << reference.error().message;
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    const TensorType& type = graph.type(graph.results()[r]);
    const auto found = graph::tensor_from_bytes(type, graph::Box::whole(type.dims), outputs[r].span());
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < type.elements(); ++i)
      wrong += !graph::accepts((*reference)[r].at(i), (*reference)[r].bound(i), found.at(i));
    EXPECT_EQ(wrong, 0) << "of " << type.elements() << " elements of result " << r;
  }
}

inline Value dot(Builder& builder, Value a, Value b) { return builder.dot(a, b, {{}, {}, {1}, {0}, DType::f32}); }

/// Four products, of which all before the last find room in the result that it writes: their values lie in memory of
/// the caller's.
inline graph::Graph lending_graph() {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {24, 32}, "x"), w = builder.parameter(DType::f32, {32, 48}, "w");
  const Value u = builder.parameter(DType::f32, {48, 32}, "u"), t = builder.parameter(DType::f32, {32, 32}, "t");
  const Value v = builder.parameter(DType::f32, {32, 160}, "v");
  const Value first = builder.unary(Op::tanh, dot(builder, builder.unary(Op::exp, x), w));
  const Value second = builder.unary(Op::tanh, dot(builder, first, u));
  const Value third = builder.unary(Op::tanh, dot(builder, second, t));
  const Value fourth = builder.unary(Op::tanh, dot(builder, third, v));
  return *builder.finish({fourth, builder.reduce(graph::ReduceKind::sum, fourth, {1})});
}

inline std::int64_t lent_values(const api::Program& program) {
  return std::ranges::count(program.regions[0].values, api::ProgramValue::Storage::lent, &api::ProgramValue::storage);
}

/// Every turn multiplies a row with a matrix, writes it into the state and goes on with it and with the matrix's
/// square, which no kernel of ours makes: the loop has to run turn by turn. `turns`: -1 if they are to be found out by
/// the condition, which then depends on the values as well.
inline graph::Graph loop_graph(std::int64_t turns, std::int64_t limit) {
  const auto carried = [](Builder& builder) {
    return std::vector{builder.parameter(DType::s32, {}, "i"), builder.parameter(DType::f32, {8, 32}, "state"),
                       builder.parameter(DType::f32, {1, 32}, "row"), builder.parameter(DType::f32, {32, 32}, "w")};
  };
  Builder body("body");
  const std::vector<Value> in = carried(body);
  const Value made = body.unary(Op::tanh, dot(body, in[2], in[3]));
  const Value updated =
      body.add(Op::dynamic_update_slice, {in[1], made, in[0], body.scalar(DType::s32, 0)}, graph::UpdateAttributes{});
  const Value next = body.binary(Op::add, in[0], body.scalar(DType::s32, 1));
  const Value squared = body.unary(Op::tanh, dot(body, in[3], in[3]));
  Builder condition("condition");
  const std::vector<Value> at = carried(condition);
  Value more = condition.compare(graph::Comparison::lt, at[0], condition.scalar(DType::s32, limit));
  if (turns < 0) {
    const Value least = condition.reduce(graph::ReduceKind::min, condition.unary(Op::tanh, at[2]), {0, 1});
    const Value sane = condition.compare(graph::Comparison::ge, least, condition.scalar(DType::f32, -1));
    more = condition.binary(Op::bit_and, more, sane);
  }
  Builder outer;
  const Value state = outer.parameter(DType::f32, {8, 32}, "state"), row = outer.parameter(DType::f32, {1, 32}, "row");
  const Value w = outer.parameter(DType::f32, {32, 32}, "w");
  const auto regions = std::vector{std::make_shared<const graph::Graph>(*body.finish({next, updated, made, squared})),
                                   std::make_shared<const graph::Graph>(*condition.finish({more}))};
  const Value loop = outer.add(Op::loop, {outer.scalar(DType::s32, 0), outer.unary(Op::exp, state), row, w},
                               graph::LoopAttributes{turns}, regions);
  return *outer.finish({Value{loop.node, 1}, outer.unary(Op::exp, Value{loop.node, 2}), Value{loop.node, 0}});
}

}  // namespace stitch::client
