#pragma once

#include <functional>

#include "codegen/writer.h"
#include "kernel/contraction/contraction_problem.h"
#include "kernel/contraction/contraction_schedule.h"

// What kernels by tcgen05 print (codegen/device/tensor_memory.cuh) beside what all blocks that stay do
// (tensor_copy_text.h): a thread has the tiles that came multiplied, and the other warps take sums from tensor memory,
// those of one tile while the next one's are made where there is room for two.
namespace stitch::codegen {

/// The structure `Product`: the instruction's kind, and its descriptor; and `TileProducts`, which multiply by it.
void print_tensor_product(Writer& out, const kernel::ContractionProblem& problem,
                          const kernel::ContractionSchedule& schedule);

/// Barriers of the sums, `sums`, behind those of `stages`, and the block's columns of tensor memory. Before the barrier
/// that all threads begin with.
void print_tensor_memory(Writer& out, const kernel::ContractionProblem& problem,
                         const kernel::ContractionSchedule& schedule);
/// And behind it: where those columns are, `sums_at`. `together`: blocks that begin together.
void print_tensor_memory_place(Writer& out, const kernel::ContractionProblem& problem,
                               const kernel::ContractionSchedule& schedule, int together);
/// Gives the columns back, once nobody loads from them.
void print_tensor_memory_end(Writer& out, const kernel::ContractionProblem& problem,
                             const kernel::ContractionSchedule& schedule, int together);

/// What the warp does that has tiles multiplied; `open_tiles` opens the loop over the block's tiles, behind which they
/// are closed.
void print_multiplying_thread(Writer& out, const kernel::ContractionProblem& problem,
                              const kernel::ContractionSchedule& schedule, int together,
                              const std::function<void()>& open_tiles);
/// What the others do with a tile: they take its sums, as `cores`, in parts of their columns that registers hold, and
/// print `results` of each.
void print_taken_sums(Writer& out, const kernel::ContractionProblem& problem,
                      const kernel::ContractionSchedule& schedule, const std::function<void()>& results);

}  // namespace stitch::codegen
