#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace stitch::graph {

/// Builds a graph without checking after every step: the first error sticks, later calls do nothing, and finish()
/// returns it. For importers (which set `at` to the place they are reading) and for tests.
class Builder {
 public:
  explicit Builder(std::string name = {}) { graph_.name = std::move(name); }

  /// Name and source line given to the nodes that follow.
  void at(std::string name, std::int32_t line = 0) {
    name_ = std::move(name);
    line_ = line;
  }

  Value parameter(DType dtype, Dims dims, std::string name = {});
  Value constant(ConstantAttributes constant) { return add(Op::constant, {}, std::move(constant)); }
  Value scalar(DType dtype, double value);
  /// A scalar broadcast to `dims`.
  Value filled(DType dtype, Dims dims, double value);
  Value iota(DType dtype, Dims dims, std::int64_t dimension);

  Value unary(Op op, Value x) { return add(op, {x}); }
  Value binary(Op op, Value x, Value y) { return add(op, {x, y}); }
  Value compare(Comparison direction, Value x, Value y) {
    return add(Op::compare, {x, y}, CompareAttributes{direction});
  }
  Value select(Value condition, Value yes, Value no) { return add(Op::select, {condition, yes, no}); }
  Value convert(Value x, DType dtype);  ///< x itself when it has that dtype
  Value bitcast(Value x, DType dtype);

  Value broadcast(Value x, Dims dims, Dims mapping);
  Value reshape(Value x, Dims dims);  ///< x itself when it has these dims
  Value transpose(Value x, Dims permutation);
  Value slice(Value x, Dims starts, Dims limits, Dims strides = {});  ///< strides default to 1
  Value concatenate(std::vector<Value> parts, std::int64_t dimension);
  Value pad(Value x, Value fill, Dims low, Dims high, Dims interior = {});
  Value reverse(Value x, Dims dimensions);
  Value reduce(ReduceKind kind, Value x, Dims dimensions);
  Value dot(Value lhs, Value rhs, DotAttributes attributes);

  /// NumPy-style: x repeated to `dims`, aligned at the last dimension, extents of 1 stretched.
  Value broadcast_to(Value x, const Dims& dims);
  /// Binary operator with NumPy-style broadcasting of both sides.
  Value broadcast_binary(Op op, Value x, Value y);

  Value add(Op op, std::vector<Value> operands, Attributes attributes = {},
            std::vector<std::shared_ptr<const Graph>> regions = {});

  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] const Graph& graph() const { return graph_; }
  /// The type of a value; a scalar f32 once the builder has failed.
  [[nodiscard]] const TensorType& type(Value value) const;
  [[nodiscard]] const Dims& dims(Value value) const { return type(value).dims; }
  [[nodiscard]] DType dtype(Value value) const { return type(value).dtype; }

  /// Records a failure found by the caller, unless there is one already.
  void fail(Error error);

  /// The graph with these results, or the first error.
  Result<Graph> finish(std::vector<Value> results);

 private:
  Graph graph_;
  std::optional<Error> error_;
  std::string name_;
  std::int32_t line_ = 0;
};

/// Shape of NumPy-style broadcasting of a with b; an error when an extent pair is neither equal nor has a 1.
Result<Dims> broadcast_shape(const Dims& a, const Dims& b);

}  // namespace stitch::graph
