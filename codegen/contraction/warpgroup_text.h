#pragma once

#include "codegen/writer.h"
#include "kernel/contraction/contraction_schedule.h"

// What kernels by wgmma print otherwise than the others (codegen/device/warpgroup.cuh).
namespace stitch::codegen {

/// What wgmma's descriptors say of an operand: 1 where its free dimension is contiguous.
int transposed(const kernel::ContractionOperand& operand);

/// A function around one instruction of 64 rows.
struct WgmmaText {
  std::string_view name;   ///< the function's
  std::string_view left;   ///< how the left operand is declared
  std::string sum, types;  ///< "f32", "f32.f16.f16"
  int columns = 64, depth = 16;
  bool adds = true;      ///< to what the sums are; else they begin with the product
  std::string operands;  ///< what follows the sums, by number
  std::string inputs;    ///< the left operand's constraints
};
void print_wgmma_function(Writer& out, const WgmmaText& text);

/// The structure `name`: the instruction of 64 rows and as many columns as a warp has.
void print_wgmma(Writer& out, std::string_view name, const kernel::ContractionProblem& problem,
                 const kernel::ContractionSchedule& schedule);

/// Where the warp's results begin: `warp_row`, `warp_column`, and `group_row`, where its warpgroup's do.
void print_warpgroup_place(Writer& out, const kernel::ContractionSchedule& schedule);

/// The loop over tiles of depth. Of its `stages` one is multiplied while the one before it may still be read and those
/// behind it are on their way: a copy goes where nobody reads any more, which the barrier before it says, so that the
/// tensor cores never wait for who asks for copies.
void print_warpgroup_loop(Writer& out, const kernel::ContractionProblem& problem,
                          const kernel::ContractionSchedule& schedule);

}  // namespace stitch::codegen
