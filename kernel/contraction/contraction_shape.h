#pragma once

#include <cstdint>
#include <vector>

#include "kernel/contraction/contraction_schedule.h"
#include "kernel/contraction/streamed_depth.h"

namespace stitch::kernel {

/// Static shared memory of device/grid.cuh's arrives_last, and alignment.
inline constexpr std::int64_t arrival_shared = 32;
inline constexpr std::int64_t tensor_map_bytes = 128;
/// Columns of an SM's tensor memory, of which a block has a power of two; and its lanes (PTX ISA, "Tensor Memory").
inline constexpr int tensor_memory_columns = 512, least_tensor_columns = 32, tensor_memory_lanes = 128;

constexpr std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// What follows from problem and schedule.
struct ContractionShape {
  int warps = 1;     ///< that multiply; of tcgen05 that take what is multiplied
  int threads = 32;  ///< theirs, and those of the warps that ask for tensor copies, and for products (tcgen05)
  std::int64_t row_tiles = 0, column_tiles = 0;  ///< of one batch; whole clusters of rows, columns of all members
  std::int64_t depth_tiles = 0;                  ///< of one block: all of them ÷ split, rounded up
  std::int64_t tiles = 0;                        ///< over all batches
  std::int64_t blocks = 1;  ///< tiles × split, or those that share turns and the others; at least 1
  std::int64_t grid = 1;    ///< that are launched: so many, or those that stay for several tiles
  int depth_steps = 1;      ///< fragments along one tile's depth: block_depth ÷ fragment_depth
  int fragment_depth =
      1;  ///< along the contracted dimension: the instruction's; of cuda_core what a lane loads at once
  std::int64_t left_bytes = 0, right_bytes = 0;  ///< of one stage in shared memory
  std::int64_t shared_bytes = 0;                 ///< dynamic: stages, or the epilogue's strips where those are larger
  std::int64_t strips_at = 0;                    ///< byte of it where strips begin: beside the stages of tensor copies
  std::int64_t rows_at = 0;                      ///< and what rows are combined to, beside all else: row_bytes
  std::int64_t columns_at = 0;                   ///< and parts of columns' sums: column_bytes
  StreamedDepth streamed;                        ///< where blocks share turns
  std::int64_t scratch_bytes = 0;                ///< partial sums of split > 1, or of shared turns
  std::int64_t arrivals = 0;                     ///< tiles that come in parts, or may: each has a counter
  int accumulators = 0;                          ///< 4-byte registers of a thread's results
  int sum_turns = 0;       ///< tiles of sums in tensor memory: of two one is multiplied while the other one leaves
  int sum_columns = 0;     ///< of tensor memory, of one tile
  int tensor_columns = 0;  ///< and all that a block asks for, a power of two
  int fragments = 0;       ///< 4-byte registers of its operands, all fragment stages
  int row_factors = 0, column_factors = 0;  ///< of a part's scales, that a thread has (scaled_contraction.h)
  int held = 0;                             ///< of a tile that is computed or realigned, on its way to shared memory
  int registers = 0;                        ///< estimate of all that a thread has
};
/// Tensor maps that tensor copies take: one of each operand.
std::int64_t tensor_maps(const ContractionProblem& problem);
/// What tensor copies have in shared memory behind their stages: a tensor map of each operand, and two barriers a
/// stage; in tensor memory two for each tile of sums besides, and where those are.
std::int64_t tensor_copy_bytes(const ContractionProblem& problem, const ContractionSchedule& schedule);
/// The first column of tiles of each of parts_of(problem), which has those up to the next one's: a tile is of one.
std::vector<std::int64_t> first_tiles(const ContractionProblem& problem, const ContractionSchedule& schedule);
/// What rows are combined to, f32, of each reduction and row: by each warp along the row, by each block of a cluster
/// (where there are several), and in all. Where blocks stay, one of a cluster may be a tile ahead: what blocks leave
/// for one another is there twice, with a barrier for each level.
std::int64_t row_bytes(const ContractionProblem& problem, const ContractionSchedule& schedule);
/// Rows that follow one another in a tile, of which a warp has the sum of a column (column_sums.h): a part of a group.
int column_part_rows(const ContractionProblem& problem, const ContractionSchedule& schedule);
/// Rows of a group.
int column_group_rows(const ContractionProblem& problem);
/// Of each sum and column of a tile such parts, f32.
std::int64_t column_bytes(const ContractionProblem& problem, const ContractionSchedule& schedule);
/// Of a product whose depth is scaled part by part: whether all rows, or columns, of a warp have one factor.
bool has_one_row_factor(const ContractionProblem& problem, const ContractionSchedule& schedule);
bool has_one_column_factor(const ContractionProblem& problem, const ContractionSchedule& schedule);
ContractionShape shape_of(const ContractionProblem& problem, const ContractionSchedule& schedule);

}  // namespace stitch::kernel
