#include "kernel/contraction/strips.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "kernel/contraction/gated_contraction.h"

namespace stitch::kernel {

int core_run(const ContractionOperand& operand, int thread_extent) {
  if (contiguity(operand) != Contiguity::free) return 1;
  return std::min({thread_extent, 4, 16 / graph::byte_size(operand.dtype)});
}

int taken_columns(const ContractionSchedule& s) {
  constexpr int most = 128, step = 16;
  if (!in_tensor_memory(s.instruction)) return s.warp_columns;
  int parts = 1;
  while (s.warp_columns > most * parts || (s.warp_columns % (step * parts) != 0 && step * parts < s.warp_columns))
    ++parts;
  return s.warp_columns / parts;
}

int widest_store(const ContractionProblem& part, const ContractionSchedule& s) {
  const ResultAccess widest = widest_access(part);
  const ContractionStrips strips = strips_of(part, s);
  const int columns = part.gates == 1 ? strips.columns : gate_run;
  const auto run = static_cast<unsigned>(widest.along_rows ? strips.rows : columns);
  return std::min(widest.elements, static_cast<int>(std::bit_floor(run)));
}

int store_of(const ContractionProblem& part, const ContractionSchedule& s) {
  return std::min(s.store, widest_store(part, s));
}

ContractionStrips strips_of(const ContractionProblem& problem, const ContractionSchedule& s) {
  ContractionStrips strips;
  if (s.instruction == ContractionInstruction::cuda_core) {
    const int run = core_run(problem.left, s.thread_rows);
    strips.rows = s.warp_rows / std::max(1, s.thread_rows) * run;
  } else {
    strips.rows = info(s.instruction).rows;
  }
  strips.count = s.warp_rows / std::max(1, strips.rows);
  // 8 more words: rows of a quarter warp then begin at different banks. A multiple of 16 bytes. From tensor memory a
  // lane has a row, which it stores 16 bytes at a time: 4 more words, so that eight rows' are in different banks.
  const int size = graph::byte_size(problem.accumulator);
  const int more = in_tensor_memory(s.instruction) ? 16 : 32;
  // Beside the stages of tensor copies there is room for little, the less the more warps have strips of 32 rows.
  const int warps = s.block_rows / s.warp_rows * (s.block_columns / s.warp_columns);
  const int most = in_tensor_memory(s.instruction) && warps > warpgroup_warps ? 16 : 32;
  strips.columns = s.tensor_copies ? std::gcd(taken_columns(s), most) : s.warp_columns;
  strips.pitch = strips.columns + more / size;
  strips.bytes = std::int64_t{size} * strips.rows * strips.pitch;
  return strips;
}

}  // namespace stitch::kernel
