#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "graph/builder.h"
#include "graph/passes/scans/scan_site.h"

namespace stitch::graph {

/// The type in which a formula is tried: float64 for all floats.
DType in_trial(DType dtype);

/// An element-wise operator on other operands; of an expression whose floats are doubles or as they are.
Value copy_operator(Builder& b, const Node& node, std::vector<Value> operands, bool doubles);

/// Writes the formula of a scan's gradient (scan_gradients.h) with a builder, of values of the recursion that are
/// functions of a combination of two elements: what they are at one element is read off, and put in place for all.
class GradientFormula {
 public:
  /// How lines lie where it is written.
  struct Shape {
    Dims dims;
    std::int64_t dimension;
    bool reverse;  ///< the scan begins at the end
    bool doubles;  ///< in place of all floats
  };
  struct Operands {
    std::vector<Value> scanned, components;
    Value cotangent;
  };
  /// `walk` has followed the scan's components and its cotangent. All must outlive it.
  GradientFormula(const Graph& graph, const RangeWalk& walk, Builder& b, Shape shape, Operands operands)
      : graph_(graph), walk_(walk), b_(b), shape_(std::move(shape)), operands_(std::move(operands)) {}

  /// G of a decay's value; nothing where it is no function of elements that are there.
  std::optional<Value> total(Value decay);
  /// The gradient that a value's Jacobian gives of G, likewise; `with_first`: the first element's is G_0, not 0.
  std::optional<Value> gradient(Value jacobian, Value total, bool with_first);

 private:
  struct Leaves {
    std::function<Value(int)> left, right, joined;  ///< what stands for a component at the elements in question
    Value cotangent;
  };

  [[nodiscard]] bool is_cotangent(Value value) const;
  /// What a followed value is to the combination of [0, 2i + 1] with 2i + 2.
  [[nodiscard]] std::optional<Value> leaf(const Followed& known, const Leaves& leaves) const;
  [[nodiscard]] std::optional<Value> copy(Value root, const Dims& dims, const Leaves& leaves);
  Value part(Value value, bool from_second);
  Value without_first(Value value) { return part(value, !shape_.reverse); }
  Value without_last(Value value) { return part(value, shape_.reverse); }
  Value padded(Value value, bool behind);

  const Graph& graph_;
  const RangeWalk& walk_;
  Builder& b_;
  const Shape shape_;
  const Operands operands_;
};

}  // namespace stitch::graph
