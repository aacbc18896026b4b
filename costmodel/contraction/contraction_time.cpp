#include "costmodel/contraction/contraction_time.h"

#include <algorithm>
#include <cmath>

#include "costmodel/bandwidth_share.h"
#include "costmodel/contraction/power_clock.h"
#include "costmodel/contraction/product_rates.h"
#include "costmodel/contraction/realigned_cost.h"
#include "costmodel/contraction/streamed_reads.h"
#include "kernel/contraction/computed_operand.h"
#include "kernel/contraction/contraction_rules.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/realigned_copy.h"
#include "kernel/contraction/row_reductions.h"
#include "kernel/contraction/shown_depth.h"
#include "kernel/contraction/streamed_depth.h"
#include "kernel/contraction/strips.h"
#include "kernel/contraction/tensor_box.h"
#include "kernel/program/legality.h"

namespace stitch::costmodel {
namespace {

using graph::DType;
using kernel::ContractionInstruction;
using kernel::ContractionOperand;
using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::ContractionShape;

/// A warp's instructions besides products, loads of fragments and copies: of a step, of a turn; guesses. What is said
/// to be fitted is so to schedules measured on an H100 (bench/results/gpu).
constexpr double step_instructions = 2, turn_instructions = 16;
/// All warps of a block ask for copies behind the same barrier: for this share of the time nobody multiplies; less of
/// it where wgmma does so meanwhile. And what a turn begins and ends with, cycles. Fitted.
constexpr double copies_alone = 0.5, copies_beside_wgmma = 0.25, turn_drain_cycles = 60;
/// Until a block knows that its tensor maps are those of its operands, and the engine has read them, cycles; a guess
/// (to make them takes 3,000 to 4,500). And what a turn waits for the other block of a cluster; fitted.
constexpr double map_cycles = 1500, cluster_turn_cycles = 60;
/// Copies of fewer than 4 bytes that are under way together (device/contraction.cuh).
constexpr int loads_through_registers = 8;
/// Blocks of two warps of cuda_core whose turn has more instructions than that, all of them unrolled, take so much
/// longer for each; those of more warps do not. Fitted; why is not known, instruction caches are likely.
constexpr int few_warps = 2;
constexpr double most_unrolled = 1400, long_code = 1.9;
/// A warp's instructions for a result and each pass over the sums in which rows are combined; a guess.
constexpr double row_instructions = 3;
/// And for a result that is added to the sum of its column: the addition, and its share of what lanes exchange, which
/// is an instruction for each of a lane's columns and strip; a guess.
constexpr double column_instructions = 2;
/// Where nothing but rows leaves, for each pass and operator: the maximum, the sum of exponentials and a label's of a
/// cross entropy are 13 for a result in SASS of CUDA 13.0.
constexpr double row_alone_instructions = 1.5;
/// Where a part of the depth ends, a warp's instructions for each result of a lane: a multiplication by one factor, a
/// multiply-add with the other, and half of one that clears two sums; of integers a conversion besides. So SASS of CUDA
/// 13.0 has it. And for each factor, beside what it is made of: a place within the edges, and a wait for what was asked
/// for; guess.
constexpr double scaled_instructions = 2.5, factor_instructions = 4;
/// Of tcgen05: what a thread issues for an instruction of 128 rows, with its descriptors (SASS of CUDA 13.0); and
/// cycles in which each of four warps loads a column of sums; a guess.
constexpr double product_instructions = 6, column_cycles = 1;
/// A loop is bound by the unit that is busy for so much of it.
constexpr double unit_share = 0.75;

/// What multiplies: an instruction of the schedule, or a library's asynchronous one.
struct Engine {
  double per_clock = 0;                     ///< multiply-adds of an SM
  double clock = 1;                         ///< share of it that power leaves who multiplies all of the time
  bool asynchronous = false;                ///< reads operands from shared memory by itself, while warps wait
  int sharing_left = 1, sharing_right = 1;  ///< blocks of a cluster that get what they share from L2 once
  bool copy_engine = false;  ///< tiles come without instructions of those that multiply; blocks stay for several tiles
  bool pairs = false;  ///< a library's, by tcgen05: blocks that share an operand have a part of it each, and sums apart
  /// Warpgroups of a block that add sums of few bits to others (kernel::promotes), each while the others multiply; 0:
  /// sums are f32.
  double promoting = 0;
};

Engine engine_of(const ContractionProblem& problem, const ContractionSchedule& s, const DeviceSpec& device) {
  const kernel::TensorShares shares = s.tensor_copies ? kernel::tensor_shares(problem, s) : kernel::TensorShares{};
  const double clock = clock_share(problem, s.instruction, device);
  Engine engine{full_clock_rate(problem, s.instruction, device),
                clock,
                reads_tiles(s.instruction),
                shares.left,
                shares.right,
                s.tensor_copies};
  if (promotes(s.instruction))
    engine.promoting = static_cast<double>(kernel::shape_of(problem, s).warps) / kernel::warpgroup_warps;
  return engine;
}

/// Bytes of device memory that are read for the operands. Blocks that run together walk `group` rows of tiles column by
/// column; what they share they find in L2, and so do those behind them as far as L2 holds it. Of the depth a block
/// reads a share.
double operand_reads(const ContractionProblem& problem, const ContractionSchedule& s, const ContractionShape& shape,
                     double together, double kept, double walked) {
  const auto bytes_of = [&](bool left, int block, std::int64_t all) {
    const ContractionOperand& operand = left ? problem.left : problem.right;
    return static_cast<double>(block) * problem.contracted * walked * read_bytes(problem, left) *
           different_share(problem, operand, all);
  };
  const double left_row = bytes_of(true, s.block_rows, problem.rows);
  const double right_column = bytes_of(false, s.block_columns, problem.columns);
  const double rows = shape.row_tiles, columns = shape.column_tiles;
  const double group = std::min<double>(s.group, rows);
  const double across = std::clamp(together / s.split / group, 1.0, columns);  // columns of tiles that run together
  // Where one band has fewer tiles than run together, so many run side by side.
  const double side_by_side = std::max(1.0, together / s.split / (group * across));
  const double bands = std::ceil(rows / (group * side_by_side)), turns = std::ceil(columns / across);
  const double band_bytes = group * side_by_side * left_row, front_bytes = across * right_column;
  // Blocks of a front go through the depth side by side: of it L2 needs to hold little, of what is read again all.
  const double left_times = turns <= 1 || band_bytes + front_bytes <= kept ? 1 : turns;
  const double once = 1 / walked;  // a band reads a share of it, but all of them everything
  const double right_times =
      bands <= 1 || once * columns * right_column + band_bytes <= kept ? once : std::max(once, bands);
  const double left = std::min<double>(problem.rows, rows * s.block_rows) / s.block_rows * left_row;
  const double right = std::min<double>(problem.columns, columns * s.block_columns) / s.block_columns * right_column;
  return left * left_times * different_batches(problem.left) + right * right_times * different_batches(problem.right);
}

/// Of blocks that walk a share of the depth.
ContractionShape walked_shape(const ContractionProblem& problem, const ContractionSchedule& s, double share) {
  ContractionShape shape = kernel::shape_of(problem, s);
  shape.depth_tiles = std::llround(std::ceil(static_cast<double>(shape.depth_tiles) * share));
  return shape;
}

class Pricing {
 public:
  Pricing(const ContractionProblem& problem, const ContractionSchedule& s, const DeviceSpec& device,
          const AnalyticalConstants& constants, const Engine& engine)
      : p_(problem),
        s_(s),
        d_(device),
        c_(constants),
        engine_(engine),
        walked_(kernel::walked_share(problem, s)),
        shape_(walked_shape(problem, s, walked_)),
        streamed_parts_(kernel::streamed_parts(shape_.streamed)),
        left_reads_(read_bytes(problem, true) / graph::byte_size(problem.left.dtype) *
                    realigned_sectors(problem, s, true)),
        right_reads_(read_bytes(problem, false) / graph::byte_size(problem.right.dtype) *
                     realigned_sectors(problem, s, false)),
        epilogue_reads_(epilogue_reads(problem)),
        epilogue_operators_(epilogue_operators(problem)) {}

  ContractionTime price() {
    ContractionTime time;
    time.launch = launch_time(d_, c_) + (s_.row_blocks > 1 ? c_.cluster_launch_us : 0);
    // That many fit at least: what the compiler keeps its registers within. More do where they need less.
    time.resident =
        std::max(s_.blocks_per_sm, kernel::resident_blocks(shape_.threads, shape_.registers, shape_.shared_bytes, d_));
    if (s_.resident > 0)
      time.resident = std::min(time.resident, static_cast<int>(kernel::divided_up(shape_.grid, d_.sm_count)));
    time.total = time.launch;
    if (shape_.tiles == 0) return time;
    const double sms = sms_for(time.resident);
    const double at_once = sms * time.resident;
    busy_sms_ = std::min<double>(sms, static_cast<double>(shape_.blocks));
    if (s_.streamed > 0) {
      price_streamed(sms, at_once, time);
    } else {
      price_rounds(sms, at_once, time);
    }
    for (double* part :
         {&time.multiply, &time.shared, &time.issue, &time.loop, &time.fill, &time.epilogue, &time.partial})
      *part *= us_per_cycle();
    slow_down(time);
    // Multiplying, shared memory and issue are within the loop.
    time.total += norm_of({time.loop, time.l2, time.dram}) + time.fill + time.epilogue + time.partial;
    return time;
  }

 private:
  /// To the clock that power leaves.
  void slow_down(ContractionTime& time) const {
    const double behind = time.fill + time.epilogue + time.partial;
    time.clock = clock_under_power({time.multiply, time.loop, time.l2, time.dram, behind}, engine_.clock);
    for (double* part :
         {&time.multiply, &time.shared, &time.issue, &time.loop, &time.l2, &time.fill, &time.epilogue, &time.partial,
          &time.turn.load_us, &time.turn.use_us, &time.turn.busy_us, &time.turn.between_us})
      *part /= time.clock;
  }

  void price_rounds(double sms, double at_once, ContractionTime& time) {
    const double blocks = static_cast<double>(shape_.blocks);
    time.rounds = blocks / at_once;
    const double full = std::floor(blocks / at_once);
    const double last = std::ceil((blocks - full * at_once) / sms);
    count_traffic(std::min(blocks, at_once), time);
    if (last > 0) {
      add_rounds(full, time.resident, false, time);
      add_rounds(1, last, true, time);
    } else {
      add_rounds(full - 1, time.resident, false, time);
      add_rounds(1, time.resident, true, time);
    }
    if (s_.split > 1) add_partial(time);
    time.turn = turn_of(full > 0 ? time.resident : static_cast<int>(last));
  }

  /// Blocks that share turns, and behind them those with a tile each.
  void price_streamed(double sms, double at_once, ContractionTime& time) {
    const kernel::StreamedDepth& streamed = shape_.streamed;
    const double blocks = static_cast<double>(streamed.blocks);
    time.rounds = static_cast<double>(shape_.tiles) / at_once;
    count_traffic(std::min(blocks, at_once), time);
    const double sharing = std::ceil(blocks / at_once);  // rounds of them: one, unless there is room for fewer
    const double x = std::min<double>(time.resident, std::ceil(blocks / sms));
    const double turns = static_cast<double>(streamed.most_turns());
    const bool last = streamed.whole == 0;
    add_turns(sharing * turns, x, time);
    // A block begins anew with each tile that it has turns of, and tiles are finished by whoever comes last.
    const double tiles = std::ceil(static_cast<double>(streamed.tiles) / blocks);
    const double begun = std::min(turns, std::ceil(static_cast<double>(streamed.places()) / blocks));
    time.epilogue += sharing * tiles * epilogue_cycles(x) / (x > 1 && !last ? 2 : 1);
    time.fill += sharing * begun * fill_cycles(x, last);
    add_streamed_parts(sms, std::min(2.0, begun), time);
    const double whole = static_cast<double>(streamed.whole), full = std::ceil(whole / at_once);
    if (full > 1) add_rounds(full - 1, time.resident, false, time);
    if (full > 0) add_rounds(1, time.resident, true, time);
    time.turn = turn_of(static_cast<int>(x));
    time.turn.turns = streamed.most_turns();
  }

  /// Blocks leave at most two parts each, at either end; tiles that come in parts are shared among the SMs.
  void add_streamed_parts(double sms, double left_by_block, ContractionTime& time) const {
    const kernel::StreamedParts& all = streamed_parts_;
    if (all.tiles == 0) return;
    const double tile = static_cast<double>(s_.block_rows) * s_.block_columns * graph::byte_size(p_.accumulator);
    const double written = std::ceil(static_cast<double>(all.parts) / sms);
    const double read = std::ceil(static_cast<double>(all.tiles) / sms) * static_cast<double>(all.most);
    time.partial += left_by_block * handing_over_cycles() + written * tile / l2_rate_of(busy_sms_) +
                    read * tile / l2_rate_of(static_cast<double>(all.tiles));
  }

  /// SMs that have work where each has room for so many blocks: those of a cluster stand in one GPC, and what is left
  /// of it stays idle.
  [[nodiscard]] double sms_for(int x) const {
    return static_cast<double>(kernel::blocks_in_clusters(s_.cluster * s_.row_blocks, x, d_)) / x;
  }
  [[nodiscard]] double us_per_cycle() const { return 1e6 / d_.clock_hz; }
  [[nodiscard]] double stage_bytes() const { return static_cast<double>(shape_.left_bytes + shape_.right_bytes); }
  /// Of a stage, what a block has from L2.
  [[nodiscard]] double loaded_bytes() const {
    const double left = left_reads_ * static_cast<double>(shape_.left_bytes),
                 right = right_reads_ * static_cast<double>(shape_.right_bytes);
    return left / engine_.sharing_left + right / engine_.sharing_right;
  }
  /// Bytes that each of so many SMs has from L2 in a cycle, or brings there, where all do so at once.
  [[nodiscard]] double l2_rate_of(double sms) const {
    const double asking = std::min(busy_sms_, sms);
    return std::min(c_.alone_bytes_per_clock, tile_bandwidth(d_) / d_.clock_hz / asking);
  }
  [[nodiscard]] double l2_rate_of_sm() const { return l2_rate_of(busy_sms_); }

  void count_traffic(double together, ContractionTime& time) {
    const double kept = c_.l2_kept * static_cast<double>(d_.l2_bytes);
    double reads = operand_reads(p_, s_, shape_, together, kept, walked_);
    double others = epilogue_reads_;
    for (const kernel::ComputedOperand& computed : p_.computed) others += static_cast<double>(computed.small_bytes);
    if (p_.scales) others += static_cast<double>(p_.scales->bytes);
    const double results = result_bytes(p_);
    const double parts = part_bytes();                   // of partial sums, written and read
    const double spilled = std::max(0.0, parts - kept);  // of those, what L2 does not hold
    const double turns = s_.streamed > 0 ? static_cast<double>(shape_.tiles) * shape_.depth_tiles
                                         : static_cast<double>(shape_.blocks) * shape_.depth_tiles;
    if (s_.streamed > 0) reads += streamed_reads(p_, s_, shape_, kept);
    time.dram_bytes = reads + others + results + 2 * spilled;
    time.l2_bytes = turns * loaded_bytes() + others + results + 2 * parts;
    const double resident = std::min<double>(time.resident, std::ceil(shape_.blocks / busy_sms_));
    const double flight = busy_sms_ * resident * std::max(1, tiles_ahead()) * stage_bytes();
    const double writing = d_.copy_bandwidth() / (1 + DeviceSpec::write_turnaround);
    const double us = ((reads + others + spilled) / d_.reachable_bandwidth() + (results + spilled) / writing) * 1e6;
    time.dram = us / bandwidth_share(flight, busy_sms_, d_, c_);
    time.l2 = time.l2_bytes / std::min(tile_bandwidth(d_), busy_sms_ * c_.alone_bytes_per_clock * d_.clock_hz) * 1e6;
    found_in_l2_ = 1 - std::min(1.0, reads / std::max(1.0, time.l2_bytes));
  }

  /// Of all sums that blocks leave for one another.
  [[nodiscard]] double part_bytes() const {
    if (s_.streamed == 0) return static_cast<double>(shape_.scratch_bytes);
    const double parts = static_cast<double>(streamed_parts_.parts);
    return parts * s_.block_rows * s_.block_columns * graph::byte_size(p_.accumulator);
  }

  /// Bytes of the words that realigned tiles are made of: what L1 has of them comes by the same wires.
  [[nodiscard]] double realigned_words() const {
    return 2.0 * static_cast<double>((s_.left_realigned ? shape_.left_bytes : 0) +
                                     (s_.right_realigned ? shape_.right_bytes : 0));
  }

  /// Of one block and turn, cycles of an SM that it has to itself.
  [[nodiscard]] double multiply_cycles() const {
    return static_cast<double>(s_.block_rows) * s_.block_columns * s_.block_depth / engine_.per_clock;
  }
  [[nodiscard]] double shared_cycles() const {
    const double left = graph::byte_size(p_.left.dtype), right = graph::byte_size(p_.right.dtype);
    const double cycles = (stage_bytes() + realigned_words()) / d_.shared_bytes_per_clock;  // of what copies write
    if (in_tensor_memory(s_.instruction)) {
      // Of 128 rows the left operand is read once, the right one by each of them; of a pair each block reads its half
      // for both.
      const double products = static_cast<double>(s_.block_rows) / kernel::tensor_memory_lanes;
      const double read = (s_.block_rows * left + products * kernel::right_columns(s_) * right) * s_.block_depth;
      return cycles + read / d_.shared_bytes_per_clock;
    }
    if (is_warpgroup(s_.instruction)) {
      // Of 64 rows the left operand is read once, the right one by each of them.
      const double groups = static_cast<double>(shape_.warps) / kernel::warpgroup_warps, products = s_.warp_rows / 16.0;
      const double read = groups * products * (64 * left + s_.warp_columns * right) * s_.block_depth;
      return cycles + read / d_.shared_bytes_per_clock;
    }
    if (engine_.asynchronous) return 2 * (engine_.pairs ? loaded_bytes() / d_.shared_bytes_per_clock : cycles);
    if (s_.instruction == ContractionInstruction::cuda_core) {
      const double loads = core_load_cycles(s_.thread_rows, left) + core_load_cycles(s_.thread_columns, right);
      return cycles + shape_.warps * loads * s_.block_depth;
    }
    const double read = shape_.warps * (s_.warp_rows * left + s_.warp_columns * right) * s_.block_depth;
    return cycles + read / d_.shared_bytes_per_clock;
  }
  [[nodiscard]] double issue_cycles() const {
    if (in_tensor_memory(s_.instruction)) {  // one thread
      const double products = static_cast<double>(s_.block_rows) / kernel::tensor_memory_lanes;
      return (turn_instructions + shape_.depth_steps * products * product_instructions) / c_.warp_issue;
    }
    const double of_turn = (engine_.copy_engine ? 0 : copying_instructions()) + turn_instructions;
    const double of_warp = of_turn + scaling_instructions() + shape_.depth_steps * instructions_of_step();
    return shape_.warps * of_warp / schedulers;
  }
  /// Of a warp and turn, its share of what a part of the depth ends with; of sums of few bits, what each tile ends
  /// with: an addition for each, or a multiplication and a multiply-add (SASS of CUDA 13.0).
  [[nodiscard]] double scaling_instructions() const {
    const double promoted = engine_.promoting > 0 ? promoted_share() * (p_.scales ? 2 : 1) : 0;
    if (!p_.scales) return promoted * shape_.accumulators;
    const double parts = s_.block_depth / static_cast<double>(p_.scales->depth);
    const double scaled = parts * (scaled_instructions + (graph::is_floating(p_.left.dtype) ? 0 : 1));
    const double factors = shape_.row_factors * (factor_instructions + p_.scales->row_instructions) +
                           shape_.column_factors * (factor_instructions + p_.scales->column_instructions);
    return shape_.accumulators * (promoted > 0 ? promoted : scaled) + parts * factors;
  }
  [[nodiscard]] double instructions_of_step() const {
    if (engine_.asynchronous) return 1;
    if (s_.instruction == ContractionInstruction::cuda_core) {
      const double loads = (s_.thread_rows + s_.thread_columns) / 4.0 * shape_.fragment_depth;
      const double all = s_.thread_rows * s_.thread_columns * shape_.fragment_depth + loads + step_instructions;
      return all * (shape_.warps <= few_warps && all * shape_.depth_steps > most_unrolled ? long_code : 1);
    }
    const kernel::InstructionInfo& instruction = info(s_.instruction);
    const double products = split_work(s_.instruction).products * (s_.warp_rows / instruction.rows) *
                            (s_.warp_columns / instruction.columns);
    // Of f32 two loads bring what an instruction for bf16 takes.
    const double loads = s_.instruction == ContractionInstruction::mma_m16n8k16_bf16x3 ? 2 : 1;
    return products + loads * (s_.warp_rows + s_.warp_columns) / 16.0 + splitting_of_step() + step_instructions;
  }
  /// Of a warp.
  [[nodiscard]] double splitting_of_step() const {
    const double elements = (s_.warp_rows + s_.warp_columns) * shape_.fragment_depth / 32.0;
    return split_work(s_.instruction).instructions * elements;
  }

  /// A turn of `x` blocks of an SM by the pipeline in registers: warps of a scheduler hide one another's loads, and so
  /// do steps that are loaded ahead.
  [[nodiscard]] double inner_cycles(double x) const {
    const double most = x * norm_of({multiply_cycles(), shared_cycles(), issue_cycles()});
    if (engine_.asynchronous) return most;
    const double warps = std::max(1.0, shape_.warps * x / schedulers);
    const double use = multiply_cycles() / shape_.depth_steps * schedulers / shape_.warps;  // of a warp and step
    const double left = graph::byte_size(p_.left.dtype), right = graph::byte_size(p_.right.dtype);
    const double bytes = (s_.warp_rows * left + s_.warp_columns * right) * shape_.fragment_depth;
    const double load = d_.shared_latency + bytes / d_.shared_bytes_per_clock + splitting_of_step();
    const bool hidden = load <= (s_.fragment_stages * warps - 1) * use;
    const double step = hidden ? warps * use : (load + use) / s_.fragment_stages;
    return std::max(most, shape_.depth_steps * step);
  }

  /// A turn of `x` blocks by the pipeline in shared memory, cycles.
  struct Turn {
    double use, load;  ///< of all blocks; of one tile
    double busy;       ///< where no tile is waited for
    double between;    ///< barriers, and what a turn begins and ends with
  };
  [[nodiscard]] Turn turn(double x) const {
    const double use = inner_cycles(x), transfer = x * loaded_bytes() / l2_rate_of_sm();
    const double busy = std::max({use, transfer, engine_.asynchronous ? blocking_cycles() : 0, promoting_cycles()});
    const bool meets_others = s_.tensor_copies && (s_.paired || engine_.sharing_left > 1 || engine_.sharing_right > 1);
    const double waits = meets_others ? cluster_turn_cycles : 0;
    const double between = engine_.copy_engine ? waits : d_.block_barrier_cycles + idle_cycles();
    return {use, load_latency(d_, found_in_l2_) + transfer, busy, between / x};
  }
  /// What a warpgroup takes for a tile whose sums it waits for and adds to others, one after the other: where others
  /// multiply meanwhile, the SM is not held up. Where all meet at a barrier every turn nobody does (idle_cycles).
  [[nodiscard]] double promoting_cycles() const {
    if (engine_.promoting == 0 || !engine_.copy_engine) return 0;
    const double alone = multiply_cycles() / engine_.promoting;
    const double adding = scaling_instructions() * shape_.warps / (engine_.promoting * schedulers);
    return alone + promoted_share() * turn_drain_cycles + adding;
  }
  /// Of what is added to others, in a turn.
  [[nodiscard]] double promoted_share() const { return s_.block_depth / static_cast<double>(kernel::promoted_depth); }
  /// Tiles on their way or being multiplied: of wgmma's stages one more is still read. What is computed or realigned is
  /// in registers for no longer than a turn.
  [[nodiscard]] int stages() const {
    const bool read_once = s_.tensor_copies && promotes(s_.instruction);  // before the next one is multiplied
    const int all = is_warpgroup(s_.instruction) && !read_once ? s_.stages - 1 : s_.stages;
    return holds_tiles() ? std::min(2, all) : all;
  }
  [[nodiscard]] int tiles_ahead() const { return holds_tiles() ? 1 : s_.stages - 1; }
  [[nodiscard]] bool holds_tiles() const { return !p_.computed.empty() || kernel::holds_realigned(s_); }
  [[nodiscard]] double turn_cycles(double x) const {
    const Turn t = turn(x);
    const bool hidden = t.load <= (stages() * x - 1) * t.use / x;
    return (hidden ? t.busy : std::max(t.busy, (t.load + t.use / x) / stages())) + t.between;
  }
  [[nodiscard]] PipelineTurn turn_of(int x) const {
    const Turn t = turn(x);
    const double us = us_per_cycle();
    return {shape_.depth_tiles, stages(),       s_.fragment_stages,        x,
            t.load * us,        t.use / x * us, (t.busy + t.between) * us, t.between * us};
  }
  /// Of a turn, in which a block alone on its SM multiplies nothing.
  [[nodiscard]] double idle_cycles() const {
    const double alone = engine_.asynchronous ? copies_beside_wgmma : copies_alone;
    // wgmma's sums are there once all of its products are.
    const double scaling = engine_.asynchronous ? shape_.warps * scaling_instructions() / schedulers : 0;
    return alone * shape_.warps * copying_instructions() / schedulers + turn_drain_cycles + scaling +
           (engine_.asynchronous ? 0 : blocking_cycles());
  }
  /// Of a turn, in which a warp waits for what it copies through registers, some loads at a time
  /// (device/contraction.cuh): wgmma multiplies meanwhile.
  [[nodiscard]] double blocking_cycles() const {
    const auto of = [&](std::int64_t bytes, int copy) {
      if (copy >= 4 || engine_.copy_engine || !p_.computed.empty()) return 0.0;
      return std::ceil(static_cast<double>(bytes) / copy / shape_.threads / loads_through_registers);
    };
    const double times = of(shape_.left_bytes, s_.left_copy) + of(shape_.right_bytes, s_.right_copy);
    return times * load_latency(d_, found_in_l2_);
  }
  /// Of a warp and turn.
  [[nodiscard]] double copying_instructions() const {
    const auto of = [&](const ContractionOperand& operand, double bytes, int copy) {
      const kernel::ComputedOperand* computed = kernel::computed_side(p_, &operand == &p_.left);
      const int size = graph::byte_size(operand.dtype);
      if (kernel::is_realigned(s_, &operand == &p_.left))
        return bytes / copy / shape_.threads * realigned_instructions(operand);
      const double each = computed != nullptr
                              ? computing_instructions(*computed, size, copy / size)
                              : copy_instructions + window_instructions * static_cast<double>(operand.windows.size());
      return bytes / copy / shape_.threads * each;
    };
    return of(p_.left, shape_.left_bytes, s_.left_copy) + of(p_.right, shape_.right_bytes, s_.right_copy);
  }

  [[nodiscard]] double epilogue_cycles(double x) const {
    const double results = static_cast<double>(s_.block_rows) * s_.block_columns;
    const double strips = 2 * results * graph::byte_size(p_.accumulator) / d_.shared_bytes_per_clock;
    double stored = 0;  // of several products a tile is of one
    for (const kernel::ContractionResult& result : kernel::results_of(p_))
      stored += result.of_elements() ? results * graph::byte_size(result.dtype) / c_.alone_bytes_per_clock : 0;
    const double issued =
        results / 32 / schedulers / std::max(0.5, std::min(1.0, shape_.warps * x / schedulers * c_.warp_issue));
    const double instructions = issued * (result_instructions + operator_instructions * epilogue_operators_ +
                                          column_instructions * static_cast<double>(p_.column_sums.size()));
    const double wait = epilogue_reads_ > 0 ? d_.dram_latency : 0;
    // Rows alone do not leave as results do: what they are made of is computed in the passes.
    const bool rows_alone = p_.members.empty() && kernel::results_of_element(p_) == 0;
    const double passed = rows_alone
                              ? issued * row_alone_instructions * (row_passes() + epilogue_operators_)
                              : std::max({strips, stored, instructions}) + issued * row_passes() * row_instructions;
    return x * passed + wait + row_exchange_cycles() + column_exchange_cycles();
  }
  /// Over a block's sums, before its results are made: what is carried, and each reduction.
  [[nodiscard]] double row_passes() const {
    return p_.row_reductions.empty() ? 0 : static_cast<double>(p_.row_reductions.size()) + 1;
  }
  /// Three barriers a level, of which one is the cluster's: a message to the others and one back, behind one with what
  /// they combine.
  [[nodiscard]] double row_exchange_cycles() const {
    const double cluster = s_.row_blocks > 1 ? 3 * d_.cluster_latency : 0;
    return kernel::row_levels(p_.row_reductions) * (3 * d_.block_barrier_cycles + 2 * d_.shared_latency + cluster);
  }

  /// A barrier before parts of columns' sums are left and one behind, and each group's that are read.
  [[nodiscard]] double column_exchange_cycles() const {
    if (p_.column_sums.empty()) return 0;
    const double parts = static_cast<double>(kernel::column_bytes(p_, s_)) / 4;
    return 2 * d_.block_barrier_cycles + d_.shared_latency * std::ceil(parts / (32 * shape_.warps));
  }

  /// What of a round's epilogues nothing else hides. From tensor memory a block takes the sums of one tile while those
  /// of the next one are made; where there is room for one tile, once all are in registers, or the last part of them.
  [[nodiscard]] double shown_epilogue_cycles(double x, bool last) const {
    const bool apart = in_tensor_memory(s_.instruction) || engine_.pairs;
    if (!apart || last) return epilogue_cycles(x) / (x > 1 && !last ? 2 : 1);
    const double turns = static_cast<double>(shape_.depth_tiles) * turn_cycles(x), all = epilogue_cycles(x);
    if (shape_.sum_turns != 1) return std::max(0.0, all - turns);
    const double before = all * (1 - static_cast<double>(kernel::taken_columns(s_)) / s_.warp_columns);
    return before + x * shape_.sum_columns * column_cycles + std::max(0.0, all - before - turns);
  }

  /// `last`: nothing of another round hides what these blocks begin and end with.
  void add_rounds(double rounds, double x, bool last, ContractionTime& time) const {
    add_turns(rounds * static_cast<double>(shape_.depth_tiles), x, time);
    time.epilogue += rounds * shown_epilogue_cycles(x, last);
    // While a block stores its tile, the next one's operands come.
    if (engine_.copy_engine && !last) return;
    if (s_.tensor_copies) time.fill += map_cycles;
    time.fill += rounds * fill_cycles(x, last);
  }
  /// Of an SM, by `x` blocks each.
  void add_turns(double turns, double x, ContractionTime& time) const {
    time.multiply += turns * x * multiply_cycles();
    time.shared += turns * x * shared_cycles();
    time.issue += turns * x * issue_cycles();
    time.loop += turns * turn_cycles(x);
  }
  /// Blocks of an SM drift apart from round to round: what one of them waits for the others fill.
  [[nodiscard]] double fill_cycles(double x, bool last) const {
    return d_.dram_latency / (last ? 1 : x) + (last ? x : 1) * stage_bytes() / l2_rate_of_sm();
  }

  /// The last block of a tile waits for the others' sums and adds them.
  void add_partial(ContractionTime& time) const {
    const double tile = static_cast<double>(s_.block_rows) * s_.block_columns * graph::byte_size(p_.accumulator);
    const double tiles = std::ceil(static_cast<double>(shape_.tiles) / d_.sm_count);  // that an SM adds up
    const double parts = std::ceil(static_cast<double>(shape_.blocks) / d_.sm_count);
    time.partial += handing_over_cycles() + parts * tile / l2_rate_of(busy_sms_) +
                    tiles * s_.split * tile / l2_rate_of(static_cast<double>(shape_.tiles));
  }
  /// From a block's last sum until another one may read all of them.
  [[nodiscard]] double handing_over_cycles() const {
    return 2 * d_.l2_latency + c_.last_block * d_.grid_barrier_us / us_per_cycle();
  }

  const ContractionProblem& p_;
  const ContractionSchedule& s_;
  const DeviceSpec& d_;
  const AnalyticalConstants& c_;
  const Engine engine_;
  const double walked_;  ///< of the depth, by each block
  const ContractionShape shape_;
  const kernel::StreamedParts streamed_parts_;
  const double left_reads_, right_reads_;  ///< bytes that one of an operand's tile takes: of a computed one others
  const double epilogue_reads_;
  const double epilogue_operators_;
  double busy_sms_ = 1, found_in_l2_ = 0;
};

/// Tiles that libraries ship, by rows, columns and depth in bytes.
struct LibraryTile {
  int rows, columns, depth_bytes, warp_rows, warp_columns, stages;
};
constexpr std::array library_tiles = {
    LibraryTile{256, 128, 64, 64, 64, 3}, LibraryTile{128, 256, 64, 64, 64, 3}, LibraryTile{128, 128, 64, 64, 64, 4},
    LibraryTile{128, 64, 64, 64, 32, 5},  LibraryTile{64, 128, 64, 32, 64, 5},  LibraryTile{64, 64, 128, 32, 32, 4},
    LibraryTile{64, 32, 128, 32, 16, 5},  LibraryTile{32, 64, 128, 16, 32, 5},  LibraryTile{32, 32, 128, 16, 16, 6},
    LibraryTile{16, 64, 256, 16, 16, 5},  LibraryTile{64, 16, 256, 16, 16, 5},  LibraryTile{256, 256, 128, 128, 64, 3},
};

/// And those that cuBLAS took besides on an H100, by the names of its kernels (bench/results/gpu): what multiplies by
/// itself has any multiple of 8 columns, and sums are shared by up to five times 64 rows.
constexpr std::array asynchronous_tiles = {
    LibraryTile{320, 128, 128, 64, 64, 3}, LibraryTile{192, 192, 128, 64, 64, 4}, LibraryTile{192, 128, 128, 64, 64, 5},
    LibraryTile{128, 192, 128, 64, 64, 5}, LibraryTile{96, 128, 128, 32, 64, 7},  LibraryTile{128, 96, 128, 64, 32, 7},
    LibraryTile{144, 64, 128, 48, 32, 8},  LibraryTile{64, 144, 128, 32, 48, 8},  LibraryTile{96, 64, 128, 32, 32, 8},
    LibraryTile{64, 96, 128, 32, 32, 8},   LibraryTile{48, 64, 128, 16, 32, 8},   LibraryTile{64, 48, 128, 32, 16, 8},
};

constexpr int most_without_pairs = 320 * 128;  // results of a tile that registers hold
/// And those that two warpgroups' hold twice, where sums of few bits are added to others (CUTLASS's, DeepGEMM's).
constexpr int most_promoted = 128 * 192, promoting_groups = 2;

/// As a library computes it: a gradient by the data leaves out the products with what is in its input's holes.
ContractionProblem without_holes(ContractionProblem problem) {
  for (const kernel::WindowDimension& window : problem.left.windows)
    problem.contracted = kernel::divided_up(problem.contracted, window.holes);
  return problem;
}

/// Of a convolution by multiply-adds where it reads each operand once, µs: what libraries have for few features.
double direct_us(const ContractionProblem& problem, const DeviceSpec& device, const AnalyticalConstants& constants) {
  const double rate = core_rate(problem, device) * core_clock_share(problem, device);
  const double multiplying = problem.products() / (rate * device.sm_count * device.clock_hz);
  const double moving = static_cast<double>(problem.least_bytes()) / device.copy_bandwidth();
  return launch_time(device, constants) + std::max(multiplying, moving) * 1e6;
}

/// The fastest of the tiles that libraries ship.
double best_tile_us(const ContractionProblem& problem, const DeviceSpec& device, const AnalyticalConstants& constants) {
  const bool singles = problem.left.dtype == DType::f32;
  // Three products of TF32 or bf16 are nobody's but ours.
  const bool whole = singles && kernel::types_of(problem).f32 != graph::F32Arithmetic::tf32;
  const double rate = whole ? 0 : tensor_rate(problem, device);
  const bool doubles = problem.accumulator == DType::f64;
  const bool asynchronous = device.tensor.synchronous_share < 1 && !doubles;
  Engine engine{rate, 1, asynchronous, 1, 1, asynchronous};
  engine.pairs = asynchronous && kernel::tensor_memory_instruction_for(problem, device).has_value();
  // Their sums of f8 are added to f32 unless they are asked not to (CUBLASLT_MATMUL_DESC_FAST_ACCUM).
  const auto is_small = [](const ContractionOperand& operand) {
    return graph::is_floating(operand.dtype) && graph::byte_size(operand.dtype) == 1;
  };
  const bool promoted = device.compute_major == 9 && is_small(problem.left) && is_small(problem.right);
  if (promoted) engine.promoting = promoting_groups;
  ContractionSchedule s;
  s.instruction = singles   ? ContractionInstruction::mma_m16n8k8_tf32
                  : doubles ? ContractionInstruction::mma_m16n8k4_f64
                            : ContractionInstruction::mma_m16n8k16;
  if (rate == 0) {
    engine.per_clock = core_rate(problem, device);
    engine.asynchronous = engine.copy_engine = false;
    s.instruction = ContractionInstruction::cuda_core;
  }
  engine.clock = clock_share(problem, s.instruction, device);
  if (rate > 0) engine.per_clock /= engine.clock;
  const int size = std::max(graph::byte_size(problem.left.dtype), graph::byte_size(problem.right.dtype));
  s.left_copy = s.right_copy = 16;
  s.group = 8;
  double best = std::numeric_limits<double>::infinity();
  const auto try_tile = [&](const LibraryTile& tile) {
    if (tile.rows * tile.columns > (promoted ? most_promoted : most_without_pairs) && !engine.pairs) return;
    s.block_rows = tile.rows;
    s.block_columns = tile.columns;
    // Where products are as fast as those of pairs, tiles are as deep as the swizzle lets them be.
    s.block_depth = engine.pairs ? 128 / size : std::max(16, tile.depth_bytes / size);
    s.warp_rows = tile.warp_rows;
    s.warp_columns = tile.warp_columns;
    if (rate == 0) {
      s.warp_rows = std::min(32, s.warp_rows);
      s.thread_rows = s.warp_rows / 4;
      s.thread_columns = s.warp_columns / 8;
    }
    s.stages = tile.stages;
    s.fragment_stages = 2;
    s.split = 1;
    const ContractionShape shape = kernel::shape_of(problem, s);
    const int registers = std::min(shape.registers, device.max_registers_per_thread);
    s.blocks_per_sm = kernel::resident_blocks(shape.threads, registers, shape.shared_bytes, device);
    // Clusters of two share the larger operand.
    const bool left_is_larger = shape.left_bytes > shape.right_bytes;
    engine.sharing_left = engine.asynchronous && left_is_larger ? 2 : 1;
    engine.sharing_right = engine.asynchronous && !left_is_larger ? 2 : 1;
    if (s.blocks_per_sm == 0) return;
    for (s.split = 1; s.split == 1 || (s.split <= 32 && s.split * s.block_depth <= problem.contracted); s.split *= 2)
      best = std::min(best, Pricing(problem, s, device, constants, engine).price().total);
  };
  std::ranges::for_each(library_tiles, try_tile);
  if (engine.asynchronous) std::ranges::for_each(asynchronous_tiles, try_tile);
  return best;
}

}  // namespace

std::array<std::pair<const char*, double>, 6> ContractionTime::limits() const {
  return {{{"latency of loads", loop},
           {"tensor cores or multiply-adds", multiply},
           {"shared memory", shared},
           {"issue", issue},
           {"l2", l2},
           {"dram", dram}}};
}

std::pair<const char*, double> ContractionTime::binding() const {
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto all = limits();
  const auto most = std::max_element(all.begin(), all.end(), less);
  if (most != all.begin()) return *most;
  // The loop takes at least what its units take: one of them, or else what it waits for.
  const auto unit = std::max_element(all.begin() + 1, all.begin() + 4, less);
  return unit->second >= unit_share * loop ? *unit : *most;
}

ContractionTime contraction_time(const ContractionProblem& problem, const ContractionSchedule& schedule,
                                 const DeviceSpec& device, const AnalyticalConstants& constants) {
  return Pricing(problem, schedule, device, constants, engine_of(problem, schedule, device)).price();
}

double computing_apart_us(const ContractionProblem& problem, bool apart, const DeviceSpec& device,
                          const AnalyticalConstants& constants) {
  double us = 0;
  for (const kernel::ComputedOperand& computed : problem.computed) {
    const graph::Graph& graph = *problem.computing;
    double bytes = static_cast<double>(graph.type(computed.value).bytes());
    if (apart) {
      us += launch_time(device, constants);
      for (const int parameter : computed.reads)
        bytes += static_cast<double>(graph.node(graph.parameters()[parameter]).type().bytes());
    }
    us += bytes / device.copy_bandwidth() * 1e6;
  }
  return us;
}

double rows_apart_us(const ContractionProblem& problem, const graph::Graph& product, const DeviceSpec& device,
                     const AnalyticalConstants& constants) {
  // What the product leaves is read; it has written that one of the results already, where it is one.
  const double left = static_cast<double>(product.type(product.results()[0]).bytes());
  const double results = result_bytes(problem);
  const double written = problem.results.empty() ? results : std::max(0.0, results - left);
  return launch_time(device, constants) + (left + written) / device.copy_bandwidth() * 1e6;
}

double library_us(const ContractionProblem& problem, const DeviceSpec& device, const AnalyticalConstants& constants) {
  if (!problem.is_convolution()) return best_tile_us(problem, device, constants);
  const ContractionProblem dense = without_holes(problem);
  return std::min(best_tile_us(dense, device, constants), direct_us(dense, device, constants));
}

}  // namespace stitch::costmodel
