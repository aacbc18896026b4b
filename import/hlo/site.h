#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/builder.h"
#include "import/hlo/syntax.h"

namespace stitch::import::hlo {

/// What an instruction is in the graph: the values of its leaves, tuples taken apart. Tokens have none.
using Values = std::vector<graph::Value>;

/// The arrays in a shape, in order. Errors: unsupported for an element type that the IR lacks or a dynamic extent.
Result<std::vector<graph::TensorType>> leaf_types(const Shape& shape);
/// How many there are, whatever their types.
std::size_t leaf_count(const Shape& shape);

/// "OPCODE 'NAME'", as errors name an instruction.
std::string place_of(const Instruction& instruction);

class Lowering;

/// One instruction on its way into the graph: what a rule (import/hlo/rules.h) gets to see.
struct Site {
  Lowering& lowering;
  graph::Builder& builder;
  const Computation& computation;
  const Instruction& instruction;
  graph::Op op;             ///< of the rule's row
  std::string_view reason;  ///< of the rule's row
  std::vector<const Values*> operands;
  std::vector<graph::TensorType> types;  ///< leaves of the declared shape

  /// Operand i, an array.
  [[nodiscard]] graph::Value operand(std::size_t i) const { return operands[i]->front(); }
  [[nodiscard]] const graph::TensorType& operand_type(std::size_t i) const { return builder.type(operand(i)); }
  [[nodiscard]] const Shape& operand_shape(std::size_t i) const {
    return computation.instructions[instruction.operands[i]].shape;
  }
  /// The declared type of an array result.
  [[nodiscard]] const graph::TensorType& type() const { return types.front(); }
  /// A parse error at the instruction: "line L, column C: OPCODE 'NAME': message".
  [[nodiscard]] Error error(std::string_view message) const;
};

}  // namespace stitch::import::hlo
