#pragma once

#include <string>

#include "codegen/contraction/contraction_text.h"

// What kernels print of operands that are realigned (kernel/contraction/realigned_copy.h), behind print_operand's:
//
//     struct LeftLines : Left {
//       static constexpr int aligned = 2, ragged = 10;
//       const f16* end;
//       __device__ __forceinline__ bool reaches_end(int row, int k) const {
//         return data + at(row, k) >= end - 5;
//       }
//     };
//     …
//     const LeftLines left = {{in0 + Left::of_batch(batch)}, in0 + 4198397};
//     RealignedTile<LeftTile, 256, LeftLines> left_held;
namespace stitch::codegen {

/// The structure, of the left or right operand.
void print_realigned(Writer& out, const kernel::ContractionProblem& problem, bool left);
/// What a block names the left or right operand: one that is realigned, or else as it lies.
void print_tile_operand(Writer& out, const kernel::ContractionProblem& problem,
                        const kernel::ContractionSchedule& schedule, bool left);
/// The registers that hold a tile on its way, of each side that is realigned.
void print_realigned_tiles(Writer& out, const kernel::ContractionProblem& problem,
                           const kernel::ContractionSchedule& schedule, int threads);
/// Whether a tile of the left or right operand is held in registers on its way: computed, or realigned.
bool is_held(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule, bool left);

}  // namespace stitch::codegen
