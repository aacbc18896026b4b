#pragma once

#include <cstring>
#include <stdexcept>
#include <unordered_map>
#include <vector>

#include "graph/reference/evaluate.h"
#include "kernel/structure/scalar_program.h"

namespace stitch::kernel::test {

/// Computes items of a scalar program one element at a time, from whole arguments. Loads must be in bounds wherever
/// their guard holds; what a guard forbids is 0, as in the kernels.
class ItemInterpreter {
 public:
  ItemInterpreter(const graph::Graph& graph, const ScalarProgram& program, const std::vector<graph::Tensor>& arguments)
      : graph_(graph), program_(program), arguments_(arguments) {}

  /// Value of an item where the group's axes have these values.
  double value(ItemId item, const std::vector<std::int64_t>& axes) {
    at_ = axes;
    known_.assign(program_.items().size(), std::nullopt);
    return compute(item);
  }

  std::int64_t index(Index index, const std::vector<std::int64_t>& axes) {
    at_ = axes;
    known_.assign(program_.items().size(), std::nullopt);
    return index_value(index);
  }

 private:
  std::int64_t index_value(Index index) {
    std::unordered_map<Index, std::int64_t> variables;
    program_.pool().for_each_variable(index, [&](Index variable) {
      if (const ItemId item = program_.dynamic_item(variable); item >= 0) {
        const std::int64_t wanted = compute(item);
        variables[variable] = std::clamp<std::int64_t>(wanted, 0, program_.pool().high(variable));
        return;
      }
      for (std::size_t a = 0; a < at_.size(); ++a) {
        if (program_.axes().variables[a] == variable) variables[variable] = at_[a];
      }
    });
    return program_.pool().evaluate(index, variables);
  }

  double compute(ItemId id) {
    std::optional<double>& known = known_[id];
    if (!known) known = evaluate(program_.at(id));
    return *known;
  }

  double evaluate(const Item& item) {
    switch (item.kind) {
      case Item::Kind::literal: return decoded(item.dtype, item.bits);
      case Item::Kind::index: return static_cast<double>(index_value(item.index));
      case Item::Kind::in_range: {
        const std::int64_t at = index_value(item.index);
        return item.low <= at && at < item.high ? 1 : 0;
      }
      case Item::Kind::load: return load(item);
      case Item::Kind::reduced: throw std::runtime_error("a reduction has no value here");
      case Item::Kind::combine:
      case Item::Kind::compute: break;
    }
    std::vector<double> operands;
    for (const ItemId operand : item.operands) operands.push_back(compute(operand));
    return apply(item, operands);
  }

  double load(const Item& item) {
    if (item.guard >= 0 && compute(item.guard) == 0) return 0;
    const std::int64_t at = index_value(item.index);
    const graph::Tensor tensor =
        item.buffer.kind == Buffer::Kind::table
            ? graph::tensor_from(graph_.node(item.buffer.number).as<graph::ConstantAttributes>())
            : arguments_.at(item.buffer.number);
    if (at < 0 || at >= tensor.elements()) {
      throw std::runtime_error(fmt::format("element {} of {} is read", at, tensor.elements()));
    }
    return tensor.at(at);
  }

  static double decoded(graph::DType dtype, std::uint64_t bits) {
    std::vector<std::byte> bytes(graph::byte_size(dtype));
    std::memcpy(bytes.data(), &bits, bytes.size());
    return graph::tensor_from_bytes({dtype, {}}, graph::Tensor::zeros({dtype, {}}).box, bytes).at(0);
  }

  /// By the reference evaluator, as a graph of one operator.
  double apply(const Item& item, const std::vector<double>& operands) {
    graph::Graph scalar;
    std::vector<graph::Value> values;
    std::vector<graph::Tensor> arguments;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const graph::TensorType type{program_.at(item.operands[i]).dtype, {}};
      values.push_back(*scalar.add(graph::Op::parameter, {}, graph::ParameterAttributes{type}));
      graph::Tensor tensor = graph::Tensor::zeros(type);
      if (!tensor.floats.empty()) tensor.floats[0] = operands[i];
      if (!tensor.integers.empty()) tensor.integers[0] = static_cast<std::int64_t>(operands[i]);
      arguments.push_back(std::move(tensor));
    }
    const bool own = item.origin.node >= 0 && graph_.node(item.origin.node).op == item.op;
    graph::Attributes attributes = own ? graph_.node(item.origin.node).attributes : graph::default_attributes(item.op);
    graph::Op op = item.op;
    if (item.kind == Item::Kind::combine) {
      op = combining(item.combiner);
      attributes = graph::default_attributes(op);
    } else if (item.op == graph::Op::compare) {
      attributes = graph::CompareAttributes{item.comparison};
    }
    const auto result = scalar.add(op, values, attributes);
    if (!result) {
      throw std::runtime_error(result.error().message);
    }
    scalar.set_results({{result->node, item.kind == Item::Kind::compute && own ? item.origin.result : 0}});
    const auto evaluated = graph::evaluate(scalar, arguments);
    if (!evaluated) {
      throw std::runtime_error(evaluated.error().message);
    }
    return evaluated->front().at(0);
  }

  static graph::Op combining(graph::ReduceKind kind) {
    switch (kind) {
      case graph::ReduceKind::sum: return graph::Op::add;
      case graph::ReduceKind::product: return graph::Op::multiply;
      case graph::ReduceKind::max: return graph::Op::maximum;
      case graph::ReduceKind::min: return graph::Op::minimum;
      default: throw std::runtime_error("no operator for this combiner");
    }
  }

  const graph::Graph& graph_;
  const ScalarProgram& program_;
  const std::vector<graph::Tensor>& arguments_;
  std::vector<std::int64_t> at_;
  std::vector<std::optional<double>> known_;
};

}  // namespace stitch::kernel::test
