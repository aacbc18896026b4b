#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/tensor_type.h"

/// HLO text as it stands in the file: modules, computations, instructions. Nothing here knows what an operator means.
/// All string_views point into the text that was parsed.
namespace stitch::import::hlo {

/// Line and column of a character, both from 1; a tab counts as one column.
struct Position {
  std::int32_t line = 1;
  std::int32_t column = 1;
};

/// An array, a tuple, or something without elements (token, opaque). Only a bitcast's meaning depends on the layout.
struct Shape {
  enum class Kind : std::uint8_t { array, tuple, other };
  Kind kind = Kind::array;
  std::string_view element;           ///< as printed: "f32", "c64", "token"
  std::optional<graph::DType> dtype;  ///< of an array, when the IR has it
  graph::Dims dims;
  bool dynamic = false;         ///< an extent is only a bound: "<=10" or "?"
  graph::Dims minor_to_major;   ///< as printed; empty: rank-1 … 0
  bool tiled = false;           ///< memory is not in the order of the dimensions at all
  std::vector<Shape> elements;  ///< of a tuple

  [[nodiscard]] bool is_array() const { return kind == Kind::array; }
};

/// key=value behind an instruction. The value is kept as text; import/hlo/attribute.h reads the forms there are.
struct Attribute {
  std::string_view key;
  std::string_view value;
  Position at;  ///< of the value
};

struct Instruction {
  std::string_view name;  ///< without the leading %
  Shape shape;
  std::string_view opcode;
  std::vector<std::int32_t> operands;  ///< positions in the computation, all smaller than this one's
  std::string_view payload;            ///< constant: its literal; parameter: its number
  std::vector<Attribute> attributes;
  Position at;          ///< of the name
  Position payload_at;  ///< of the payload
};

struct Computation {
  std::string_view name;
  std::vector<Instruction> instructions;
  std::int32_t root = 0;
  std::vector<std::int32_t> parameters;  ///< instruction of parameter 0, 1, …
  Position at;
};

/// One entry of the header's input_output_alias: an element of the result (by its path through tuples) may take the
/// memory of one of a parameter.
struct Alias {
  std::vector<std::int64_t> result;
  std::int64_t parameter = 0;
  std::vector<std::int64_t> element;  ///< of the parameter
  Position at;
};

/// A computation comes before those that call it, so there is no recursion.
struct Module {
  std::string_view name;
  std::vector<Computation> computations;
  std::int32_t entry = 0;
  std::vector<Alias> aliases;
};

}  // namespace stitch::import::hlo
