#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace stitch::import::hlo {

/// One element of one value.
struct Element {
  graph::Value value;
  std::int64_t index = 0;  ///< row-major

  auto operator<=>(const Element&) const = default;
};

/// One element's content: `real` of a floating type, else `integer` (pred: 0 or 1; unsigned types zero-extended).
struct Scalar {
  std::int64_t integer = 0;
  double real = 0;
};

/// The computation of a few elements of a graph, traced back through element-wise operators, broadcasts, reshapes,
/// transposes, slices and loops of known trip count to elements of parameters. The importer recognises computations by
/// what they compute (arg-max, threefry, a loop's counter), and this is how it asks. Exact for integers; floats are
/// rounded to their type after every step.
class ElementProgram {
 public:
  /// Nothing when an element depends on an operator that is not covered, or on more than `most_steps` elements.
  static std::optional<ElementProgram> compile(const graph::Graph& graph, std::span<const Element> outputs,
                                               std::size_t most_steps = 1U << 14);

  /// An element of a parameter that the outputs depend on.
  struct Input {
    std::int64_t parameter = 0;  ///< position in Graph::parameters()
    std::int64_t index = 0;
    auto operator<=>(const Input&) const = default;
  };
  [[nodiscard]] std::span<const Input> inputs() const { return inputs_; }
  /// Whether it only orders, selects and combines truth values: then its outcome depends on nothing but how its
  /// inputs compare, and trying every order is a proof.
  [[nodiscard]] bool only_compares() const { return only_compares_; }
  [[nodiscard]] std::size_t steps() const { return steps_.size(); }

  /// The outputs for these inputs; nothing when an operator is not covered after all.
  [[nodiscard]] std::optional<std::vector<Scalar>> run(std::span<const Scalar> inputs) const;

 private:
  struct Step {
    graph::Op op = graph::Op::parameter;  ///< parameter: an input, constant: `value`
    graph::DType dtype = graph::DType::f32;
    graph::DType operand_dtype = graph::DType::f32;
    graph::Comparison comparison = graph::Comparison::eq;
    std::int32_t operands[3] = {0, 0, 0};
    Scalar value;
  };
  class Compiler;
  static std::optional<Scalar> apply(const Step& step, const Scalar* x, const Scalar* y, const Scalar* z);

  std::vector<Step> steps_;
  std::vector<Input> inputs_;  ///< input i is read by the i-th parameter step
  std::vector<std::int32_t> outputs_;
  bool only_compares_ = true;
};

/// The value of a scalar (or one-element) value that depends on no parameter.
std::optional<Scalar> constant_scalar(const graph::Graph& graph, graph::Value value);

/// `scalar` as a number.
double as_number(const Scalar& scalar, graph::DType dtype);
Scalar from_number(double number, graph::DType dtype);

}  // namespace stitch::import::hlo
