#include "costmodel/contraction/attention_time.h"

#include <algorithm>
#include <cmath>

#include "costmodel/bandwidth_share.h"
#include "costmodel/contraction/contraction_time.h"
#include "costmodel/contraction/product_rates.h"
#include "costmodel/contraction/turn_cost.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/program/legality.h"

namespace stitch::costmodel {
namespace {

using kernel::AttentionProblem;
using kernel::AttentionSchedule;
using kernel::ContractionInstruction;
using kernel::ContractionOperand;
using kernel::ContractionProblem;
using kernel::ContractionSchedule;

/// Instructions for one score: its maximum, difference, exponential and sum, and its conversion (fitted to 19 schedules
/// of six attentions measured on an H100, bench/results/gpu); for one result that follows the maximum; and of a turn
/// (fitted).
constexpr double score_instructions = 13, scale_instructions = 1, walk_instructions = 160;
/// By wgmma, of a score: 5 are counted in SASS of CUDA 13.0, but they wait for one another and for registers that are
/// being multiplied; fitted to 37 schedules of five attentions measured on an H100. What a turn begins and ends with;
/// guess.
constexpr double warpgroup_score_instructions = 12, warpgroup_walk_instructions = 60;
/// And until a product's first results are there behind its fence and barrier, cycles; fitted to the same.
constexpr double warpgroup_turn_cycles = 400;
/// Cycles until a lane has what another one shuffled; guess.
constexpr double shuffle_cycles = 25;
/// Columns of a row that follow one another in a lane's part of a fragment, and words of random bits that philox makes.
constexpr double fragment_run = 2, words_of_philox = 4;
/// A loop is bound by the unit that is busy for so much of it.
constexpr double busy_share = 0.85;

class AttentionPricing {
 public:
  AttentionPricing(const AttentionProblem& problem, const AttentionSchedule& s, const kernel::KeyWalk& walk,
                   const DeviceSpec& device, const AnalyticalConstants& constants)
      : p_(problem), s_(s), walk_(walk), d_(device), c_(constants), shape_(kernel::shape_of(problem, s)) {}

  AttentionTime price() {
    AttentionTime time;
    time.launch = launch_time(d_, c_);
    time.total = time.launch;
    if (shape_.tiles == 0) return time;
    const double blocks = shape_.blocks, at_once = static_cast<double>(d_.sm_count) * resident_;
    busy_sms_ = std::min<double>(d_.sm_count, blocks);
    count_turns(time);
    operators_ = operators_of_score(time.turns * s_.split);
    time.rounds = blocks / at_once;
    count_traffic(time);
    const double full = std::floor(blocks / at_once);
    const double last = std::ceil((blocks - full * at_once) / d_.sm_count);
    // Blocks of many turns begin, so that short ones fill up the end.
    add_rounds(full, resident_, time.turns, last == 0, time);
    if (last > 0) add_rounds(1, last, full > 0 ? time.turns : longest_, true, time);
    if (s_.split > 1) add_partial(time);
    const int sharing = full > 0 ? resident_ : static_cast<int>(last);
    time.turn = pace().pipeline(static_cast<std::int64_t>(longest_), sharing, use_cycles(sharing), us_per_cycle());
    for (double* part : {&time.multiply, &time.special, &time.shared, &time.issue, &time.loop, &time.fill,
                         &time.epilogue, &time.partial})
      *part *= us_per_cycle();
    time.total += norm_of({time.loop, time.l2, time.dram}) + time.fill + time.epilogue + time.partial;
    return time;
  }

 private:
  [[nodiscard]] double us_per_cycle() const { return 1e6 / d_.clock_hz; }
  [[nodiscard]] double stage_bytes() const { return static_cast<double>(shape_.key_bytes + shape_.value_bytes); }
  [[nodiscard]] double l2_rate_of_sm() const {
    return std::min(c_.alone_bytes_per_clock, tile_bandwidth(d_) / d_.clock_hz / busy_sms_);
  }
  [[nodiscard]] bool together() const { return is_warpgroup(s_.instruction); }
  [[nodiscard]] double groups() const { return static_cast<double>(shape_.warps) / kernel::warpgroup_warps; }
  /// Operators of a logit. By wgmma a factor is free, and a mask of positions is evaluated only where it hides some
  /// keys: by the tiles of keys that a tile of rows touches.
  [[nodiscard]] double operators_of_score(double turns) const {
    const double all = epilogue_operators(p_.scores);
    if (!together() || !kernel::logit_factor(p_)) return all;
    const graph::Graph& graph = *p_.scores.graph;
    const bool masked =
        std::ranges::any_of(graph.nodes(), [](const graph::Node& node) { return node.op == graph::Op::select; });
    if (!masked) return 0;
    const double hiding = 1 + static_cast<double>(s_.block_rows) / s_.block_keys;
    return walk_.below || walk_.above ? all * std::min(1.0, hiding / std::max(1.0, turns)) : all;
  }
  [[nodiscard]] bool cores() const { return s_.instruction == ContractionInstruction::cuda_core; }
  /// Instructions of a weight's dropout. Neighbours along the keys share random bits, as far as a lane has them.
  [[nodiscard]] double dropout_instructions() const {
    if (!p_.dropout) return 0;
    const double shared_by = cores() ? shape_.scores.thread_columns : fragment_run;
    double instructions = 0;
    for (const graph::Node& node : p_.dropout->graph->nodes()) {
      if (!graph::is_elementwise(node.op) || node.type().elements() < p_.batch() * p_.rows() * p_.keys()) continue;
      const double each = graph::info(node.op).instructions.narrow;
      instructions += node.op == graph::Op::philox4x32 ? each / std::min(words_of_philox, shared_by) : each;
    }
    return instructions;
  }

  void count_turns(AttentionTime& time) {
    const std::int64_t tiles = kernel::divided_up(p_.keys(), s_.block_keys);
    double all = 0;
    for (std::int64_t t = 0; t < shape_.row_tiles; ++t) {
      const kernel::KeyTiles walked = walk_.of(t, s_, tiles);
      all += static_cast<double>(walked.last - walked.first);
      longest_ = std::max(longest_, std::ceil(static_cast<double>(walked.last - walked.first) / s_.split));
    }
    time.turns = all / static_cast<double>(shape_.row_tiles) / s_.split;
    longest_ = std::min<double>(longest_, static_cast<double>(shape_.key_tiles));
  }

  void count_traffic(AttentionTime& time) {
    const auto bytes = [](const ContractionOperand& operand, double rows, double depth) {
      return different_batches(operand) * rows * depth * graph::byte_size(operand.dtype);
    };
    const double rows = p_.rows(), keys = p_.keys(), walked = time.turns * s_.split * s_.block_keys;
    const double queries = bytes(p_.scores.left, rows, p_.depth());
    const double others = epilogue_reads(p_.scores) + epilogue_reads(p_.product) + update_bytes();
    const double once = bytes(p_.scores.right, keys, p_.depth()) + bytes(p_.product.right, keys, p_.width());
    // Blocks of a batch run together and walk the same keys; those of the next round find them in L2, if it holds them.
    const double of_batch = once / std::max(1.0, different_batches(p_.scores.right));
    const double kept = c_.l2_kept * static_cast<double>(d_.l2_bytes);
    const double batches_at_once = std::max(1.0, busy_sms_ * resident_ / (shape_.row_tiles * s_.split));
    const double again =
        of_batch * batches_at_once <= kept ? 1 : std::max(1.0, shape_.row_tiles / (busy_sms_ * resident_));
    const double of_row = static_cast<double>(p_.width()) * graph::byte_size(p_.product.result.dtype) +
                          static_cast<double>(p_.statistics.size()) * graph::byte_size(graph::DType::f32);
    const double results = static_cast<double>(p_.batch()) * rows * of_row + stored_operand_bytes();
    const double parts = static_cast<double>(shape_.part_bytes), spilled = std::max(0.0, parts - kept);
    const double reads = queries + others + once * again;
    time.dram_bytes = reads + results + 2 * spilled;
    // A mask is read by every batch that repeats it.
    const double masks = mask_bytes_of_score() * static_cast<double>(shape_.tiles) * s_.block_rows * walked;
    time.l2_bytes = static_cast<double>(shape_.blocks) * (time.turns * stage_bytes() + shape_.query_bytes) + masks +
                    results + 2 * parts;
    found_in_l2_ = 1 - std::min(1.0, reads / std::max(1.0, time.l2_bytes));
    const double flight = busy_sms_ * std::min<double>(resident_, std::ceil(shape_.blocks / busy_sms_)) *
                          std::max(1, s_.stages - 1) * stage_bytes();
    const double writing = d_.copy_bandwidth() / (1 + DeviceSpec::write_turnaround);
    const double us = ((reads + spilled) / d_.reachable_bandwidth() + (results + spilled) / writing) * 1e6;
    time.dram = us / bandwidth_share(flight, busy_sms_, d_, c_);
    time.l2 = time.l2_bytes / std::min(tile_bandwidth(d_), busy_sms_ * c_.alone_bytes_per_clock * d_.clock_hz) * 1e6;
  }

  /// Of keys and values that are results, too, and of what is new of them.
  [[nodiscard]] double stored_operand_bytes() const {
    return static_cast<double>(p_.stored_operands()) * graph::byte_size(p_.scores.right.dtype);
  }
  [[nodiscard]] double update_bytes() const {
    double bytes = 0;
    if (p_.updated_keys) bytes += static_cast<double>(p_.updated_keys->keys * p_.depth());
    if (p_.updated_values) bytes += static_cast<double>(p_.updated_values->keys * p_.width());
    return bytes * static_cast<double>(p_.batch()) * graph::byte_size(p_.scores.right.dtype);
  }

  [[nodiscard]] static bool is_update(const std::optional<kernel::UpdatedOperand>& updated, int parameter) {
    return updated && updated->update.parameter == parameter;
  }

  /// Bytes that the logits' functions read for each score.
  [[nodiscard]] double mask_bytes_of_score() const {
    double bytes = 0;
    const graph::Graph& graph = *p_.scores.graph;
    for (std::size_t p = 0; p < graph.parameters().size(); ++p) {
      const int number = static_cast<int>(p);
      const bool operand = number == p_.scores.left.parameter || number == p_.scores.right.parameter ||
                           number == p_.product.right.parameter || is_update(p_.updated_keys, number) ||
                           is_update(p_.updated_values, number);
      const graph::TensorType& type = graph.node(graph.parameters()[p]).type();
      if (!operand && type.elements() >= p_.keys()) bytes += graph::byte_size(type.dtype);
    }
    return bytes;
  }

  // Of one block and turn, cycles of an SM that it has to itself.
  [[nodiscard]] double scores_of_turn() const { return static_cast<double>(s_.block_rows) * s_.block_keys; }
  [[nodiscard]] double score_cycles() const {
    return scores_of_turn() * shape_.scores.block_depth / multiply_rate(p_.scores, s_.instruction, d_);
  }
  [[nodiscard]] double value_cycles() const {
    return scores_of_turn() * shape_.product.block_columns / multiply_rate(p_.product, s_.instruction, d_);
  }
  [[nodiscard]] double multiply_cycles() const { return score_cycles() + value_cycles(); }
  [[nodiscard]] double special_cycles() const { return scores_of_turn() / std::max(1, d_.special_lanes_per_sm); }
  [[nodiscard]] double shared_cycles() const {
    return stage_bytes() / d_.shared_bytes_per_clock + product_shared(p_.scores, shape_.scores, true) +
           product_shared(p_.product, shape_.product, cores()) +
           (cores() ? static_cast<double>(shape_.weight_bytes) / d_.shared_bytes_per_clock : 0);
  }
  [[nodiscard]] double product_shared(const ContractionProblem& p, const ContractionSchedule& s, bool with_left) const {
    return turn_shared_cycles(p, s, shape_.warps, with_left, d_);
  }
  /// A warp's instructions between the products, and around them.
  [[nodiscard]] double softmax_instructions() const {
    const double scores = s_.warp_rows * s_.block_keys / 32.0,
                 results = s_.warp_rows * shape_.product.block_columns / 32.0;
    const double each = together() ? warpgroup_score_instructions : score_instructions;
    return scores * (each + operator_instructions * operators_ + dropout_instructions_) + results * scale_instructions +
           (together() ? warpgroup_walk_instructions : walk_instructions);
  }
  [[nodiscard]] double copies() const {
    const auto of = [&](double bytes, int copy) { return bytes / copy / shape_.threads * copy_instructions; };
    // What is stored is read of shared memory and asked for its place once more.
    const auto times = [](const auto& updated) { return updated && updated->result >= 0 ? 2.0 : 1.0; };
    return times(p_.updated_keys) * of(shape_.key_bytes, s_.key_copy) +
           times(p_.updated_values) * of(shape_.value_bytes, s_.value_copy);
  }
  [[nodiscard]] double issue_cycles() const {
    return shape_.warps *
           (turn_instructions(p_.scores, shape_.scores) + turn_instructions(p_.product, shape_.product) +
            softmax_instructions() + copies()) /
           schedulers;
  }

  /// What `x` blocks of an SM do in a turn, cycles: units that are busy, or what one warp does one after the other.
  [[nodiscard]] double use_cycles(double x) const {
    const double busy = x * norm_of({multiply_cycles(), special_cycles(), shared_cycles(), issue_cycles()});
    if (together()) return use_together(x, busy);
    const double alone = static_cast<double>(schedulers) / shape_.warps;  // a warp's share, at its scheduler's rate
    const double exchange = 2 * std::log2(cores() ? 8 : 4) * shuffle_cycles + 3 * d_.shared_latency;
    const double chain = alone * (multiply_cycles() + special_cycles()) + softmax_instructions() + exchange;
    return std::max(busy, chain);
  }
  /// Warpgroups begin a turn together: nobody has exponentials to take before the first has its scores, and nobody
  /// multiplies behind the last ones; guess, as is that other blocks fill that. Schedules whose exponentials overlap
  /// with products were measured to gain nothing by it.
  [[nodiscard]] double use_together(double x, double busy) const {
    const double scores = score_cycles() / groups(), values = value_cycles() / groups();
    const double exchange = 4 * shuffle_cycles + 3 * d_.shared_latency;
    const double softmax = std::max(softmax_instructions(), special_cycles() / groups()) + exchange;
    const double idle = warpgroup_turn_cycles + scores + values;
    return std::max(busy + idle / x, idle + softmax);
  }
  [[nodiscard]] TurnPace pace() const {
    return {s_.stages, stage_bytes(), l2_rate_of_sm(), load_latency(d_, found_in_l2_), d_.block_barrier_cycles};
  }

  void add_rounds(double rounds, double x, double turns, bool last, AttentionTime& time) const {
    if (rounds <= 0) return;
    time.multiply += rounds * turns * x * multiply_cycles();
    time.special += rounds * turns * x * special_cycles();
    time.shared += rounds * turns * x * shared_cycles();
    time.issue += rounds * turns * x * issue_cycles();
    time.loop += rounds * turns * pace().turn(x, use_cycles(x));
    const double first = stage_bytes() + static_cast<double>(shape_.query_bytes);
    time.fill += rounds * (d_.dram_latency / (last ? 1 : x) + (last ? x : 1) * first / l2_rate_of_sm());
    const double results = static_cast<double>(s_.block_rows) * shape_.product.block_columns;
    time.epilogue += rounds * x * results_cycles(p_.product, results, l2_rate_of_sm(), d_) / (x > 1 && !last ? 2 : 1);
  }

  /// The last block of a tile waits for the others' results and joins them.
  void add_partial(AttentionTime& time) const {
    const double tile = static_cast<double>(shape_.part_bytes) / static_cast<double>(shape_.blocks);
    const double tiles = std::ceil(static_cast<double>(shape_.tiles) / d_.sm_count);
    const double parts = std::ceil(static_cast<double>(shape_.blocks) / d_.sm_count);
    time.partial += 3 * d_.l2_latency + (tiles * s_.split + parts) * tile / c_.alone_bytes_per_clock;
  }

  const AttentionProblem& p_;
  const AttentionSchedule& s_;
  const kernel::KeyWalk& walk_;
  const DeviceSpec& d_;
  const AnalyticalConstants& c_;
  const kernel::AttentionShape shape_;
  // That many fit at least: what the compiler keeps its registers within. More do where they need less; of wgmma's it
  // takes as many as there are.
  const int resident_ =
      together() ? s_.blocks_per_sm
                 : std::max(s_.blocks_per_sm,
                            kernel::resident_blocks(shape_.threads, shape_.registers, shape_.shared_bytes, d_));
  double busy_sms_ = 1, found_in_l2_ = 0, longest_ = 0, operators_ = 0;
  const double dropout_instructions_ = dropout_instructions();
};

}  // namespace

std::array<std::pair<const char*, double>, 7> AttentionTime::limits() const {
  return {{{"what follows one another", loop},
           {"tensor cores or multiply-adds", multiply},
           {"exponentials", special},
           {"shared memory", shared},
           {"issue", issue},
           {"l2", l2},
           {"dram", dram}}};
}

std::pair<const char*, double> AttentionTime::binding() const {
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto all = limits();
  const auto most = std::max_element(all.begin(), all.end(), less);
  if (most != all.begin()) return *most;
  const auto unit = std::max_element(all.begin() + 1, all.begin() + 5, less);
  return unit->second >= busy_share * loop ? *unit : *most;
}

AttentionTime attention_time(const AttentionProblem& problem, const AttentionSchedule& schedule,
                             const kernel::KeyWalk& walk, const DeviceSpec& device,
                             const AnalyticalConstants& constants) {
  return AttentionPricing(problem, schedule, walk, device, constants).price();
}

double unfused_attention_us(const AttentionProblem& problem, const DeviceSpec& device,
                            const AnalyticalConstants& constants) {
  const double scores = static_cast<double>(problem.batch()) * problem.rows() * problem.keys();
  const double bytes = scores * (graph::byte_size(problem.scores.graph->node(problem.scores.root).type().dtype) +
                                 graph::byte_size(problem.product.left.dtype));
  const double kept = constants.l2_kept * static_cast<double>(device.l2_bytes);
  const double rate = bytes <= kept ? device.l2_bandwidth : device.copy_bandwidth();
  const double softmax = constants.launch * device.launch_us + bytes / rate * 1e6;
  double updates = 0;
  for (const auto* updated : {&problem.updated_keys, &problem.updated_values}) {
    if (!*updated) continue;
    const double whole = static_cast<double>((*updated)->elements) * graph::byte_size((*updated)->update.dtype);
    updates += constants.launch * device.launch_us + 2 * whole / device.copy_bandwidth() * 1e6;
  }
  return library_us(problem.scores, device, constants) + softmax + library_us(problem.product, device, constants) +
         updates;
}

}  // namespace stitch::costmodel
