#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "graph/graph.h"

namespace stitch::kernel {

/// A kernel's graph that is written anew, operator by operator in its order, with some of them replaced. Parameters,
/// results and their order stay. What cannot be added (an extent beyond what a type may have, say) makes `finish` give
/// nothing.
class Rewriting {
 public:
  /// `kernel` outlives this.
  explicit Rewriting(const graph::Graph& kernel);

  [[nodiscard]] const graph::Graph& kernel() const { return kernel_; }
  /// What a value of the kernel, which was taken over or replaced before, is in the new graph.
  [[nodiscard]] graph::Value at(graph::Value value) const { return at_.at(value); }
  /// The type of a value of the new graph; a scalar f32 once something could not be added.
  [[nodiscard]] graph::TensorType type(graph::Value added) const {
    return failed_ ? graph::TensorType{} : graph_.type(added);
  }

  void replace(graph::Value value, graph::Value by) { at_[value] = by; }
  /// The operator as it is, on what its operands have become.
  void take_over(graph::NodeId id);

  graph::Value add(graph::Op op, std::vector<graph::Value> operands, graph::Attributes attributes = {});
  /// A number repeated to `dims`.
  graph::Value filled(graph::DType dtype, const graph::Dims& dims, double value);

  /// The new graph, once every operator of the kernel was taken over or replaced: without what nobody needs any more,
  /// and equal things once.
  std::optional<graph::Graph> finish();

 private:
  const graph::Graph& kernel_;
  graph::Graph graph_;
  bool failed_ = false;
  std::map<graph::Value, graph::Value> at_;
};

}  // namespace stitch::kernel
