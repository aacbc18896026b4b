#pragma once

#include <string>

#include "codegen/contraction/contraction_text.h"
#include "kernel/contraction/computed_operand.h"

// What kernels print of operands that are computed while they are loaded (kernel/contraction/computed_operand.h): a
// structure in the place of print_operand's, which loads what a run of elements is made of, and makes them of that.
//
//     struct Left {
//       static constexpr int rows = 1024, depth = 768;
//       static constexpr bool whole_rows = true, whole_depth = true;
//       const f32* __restrict__ in0;
//       const f32* __restrict__ in2;
//       int batch;
//       struct Run {
//         f32 x0[8];
//         f32 x1[8];
//       };
//       …
//       __device__ __forceinline__ void load(Run& run, int row, int first) const { … }
//       __device__ __forceinline__ void make(const Run& run, int row, int first, bf16 (&elements)[8]) const { … }
//     };
namespace stitch::codegen {

/// The structure `name`, and that of its tiles. Errors: those of kernel::computed_element.
Status print_computed_operand(Writer& out, std::string_view name, const kernel::ContractionProblem& problem,
                              const kernel::ComputedOperand& computed, const TileText& tile);

/// What makes one of it: "{in0, in2, batch}".
std::string computed_members(const kernel::ComputedOperand& computed);

/// The registers that hold a tile on its way, of each side that is computed: `left_held`, `right_held`.
void print_held_tiles(Writer& out, const kernel::ContractionProblem& problem, int threads);

/// Prints `first_k` and `turns`, where a condition says what a block walks of its depth (kernel/contraction/
/// shown_depth.h): of blocks that share it each walks its part of that.
void print_walked_depth(Writer& out, const kernel::ContractionProblem& problem,
                        const kernel::ContractionSchedule& schedule);

/// Asks for a tile (`load`), and stores what came to `place` (`store`); both: one after the other.
struct StagedCopy {
  bool left = true, load = true, store = true;
};
void print_staged_copy(Writer& out, const StagedCopy& copy, std::string_view place, std::string_view tile, int depth);

}  // namespace stitch::codegen
