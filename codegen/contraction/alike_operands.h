#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/contraction/contraction_text.h"

// Operands that one loop reads (kernel::read_alike), of which every tile is of one: one structure that has the elements
// of each by what it holds.
//
//     struct Right {
//       static constexpr int depth = 768;
//       static constexpr bool whole_rows = true, whole_depth = true;
//       const bf16* data;
//       int rows;
//       s64 contracted0;  // stride that they differ in
//       …
//     };
namespace stitch::codegen {

struct AlikeOperands {
  std::string_view name;    ///< "Left", "Right"
  std::string_view chosen;  ///< the variable that says whose a tile is: "member", "term"
  std::vector<const kernel::ContractionOperand*> operands;
  std::vector<std::int64_t> rows, depths;  ///< of each
};

/// The structure, and that of its tiles.
void print_alike(Writer& out, const AlikeOperands& alike, const TileText& tile);

/// What makes one of the chosen operand: "{in1 + (…), 64}".
std::string chosen_operand(const AlikeOperands& alike);

/// Where an operand begins: "in1 + (…)".
std::string begin_of(const kernel::ContractionOperand& operand);

}  // namespace stitch::codegen
