#include "costmodel/contraction/chain_time.h"

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

using kernel::ChainSchedule;
using kernel::ContractionOperand;
using kernel::ContractionProblem;
using kernel::ProductChain;

/// Instructions of a weight: an operator, an exponential besides, the conversion for the second product; what a turn
/// begins and ends with; a value of a column that a lane loads. Counted in SASS of CUDA 13.0 (sm_90a): of gradients of
/// 16 × 64 scores a warp 590 and 742 a turn, of which 96 and 128 multiply.
constexpr double weight_operator = 1.1, weight_exponential = 2, weight_conversion = 0.5, turn_walk = 70;
constexpr double column_value = 2;
/// By wgmma, of a weight: attention's take that much more time than their count, since they wait for one another and
/// for registers that are being multiplied; and cycles until a product's first results are there behind its fence and
/// barrier. Those of attention, measured on an H100 (attention_time.cpp); of chains guesses.
constexpr double together_share = 1.6, together_turn_cycles = 400;
/// Lanes of a warp that have different columns: of mma, of CUDA cores.
constexpr double column_lanes = 4, column_lanes_of_cores = 8;

class ChainPricing {
 public:
  ChainPricing(const ProductChain& chain, const ChainSchedule& s, const kernel::KeyWalk& walk, const DeviceSpec& device,
               const AnalyticalConstants& constants)
      : c_(chain), s_(s), walk_(walk), d_(device), k_(constants), shape_(kernel::shape_of(chain, s)) {
    count_operators();
  }

  AttentionTime price() {
    AttentionTime time;
    time.launch = launch_time(d_, k_);
    time.total = time.launch;
    if (shape_.tiles == 0) return time;
    const double blocks = static_cast<double>(shape_.blocks), at_once = static_cast<double>(d_.sm_count) * resident_;
    busy_sms_ = std::min<double>(d_.sm_count, blocks);
    count_turns(time);
    time.rounds = blocks / at_once;
    count_traffic(time);
    const double full = std::floor(blocks / at_once);
    const double last = std::ceil((blocks - full * at_once) / d_.sm_count);
    // Blocks of many turns begin, so that short ones fill up the end.
    add_rounds(full, resident_, time.turns, last == 0, time);
    if (last > 0) add_rounds(1, last, full > 0 ? time.turns : longest_, true, time);
    const int sharing = full > 0 ? resident_ : static_cast<int>(last);
    time.turn = pace().pipeline(static_cast<std::int64_t>(longest_), sharing, use_cycles(sharing), us_per_cycle());
    for (double* part :
         {&time.multiply, &time.special, &time.shared, &time.issue, &time.loop, &time.fill, &time.epilogue})
      *part *= us_per_cycle();
    time.total += norm_of({time.loop, time.l2, time.dram}) + time.fill + time.epilogue;
    return time;
  }

 private:
  [[nodiscard]] double us_per_cycle() const { return 1e6 / d_.clock_hz; }
  [[nodiscard]] double stage_bytes() const { return static_cast<double>(shape_.stage_bytes); }
  [[nodiscard]] double row_bytes() const {
    double bytes = 0;
    for (const std::int64_t each : shape_.row_bytes) bytes += static_cast<double>(each);
    return bytes;
  }
  [[nodiscard]] double l2_rate_of_sm() const {
    return std::min(k_.alone_bytes_per_clock, tile_bandwidth(d_) / d_.clock_hz / busy_sms_);
  }
  [[nodiscard]] bool cores() const { return s_.instruction == kernel::ContractionInstruction::cuda_core; }
  [[nodiscard]] bool together() const { return is_warpgroup(s_.instruction); }
  template <class Of>
  [[nodiscard]] double of_products(const Of& of) const {
    double all = 0;
    for (std::size_t i = 0; i < c_.scores.size(); ++i) all += of(c_.scores[i], shape_.scores[i], true);
    for (std::size_t r = 0; r < c_.products.size(); ++r) all += of(c_.products[r], shape_.products[r], false);
    return all;
  }

  /// Of each score's place: what is as large as the scores, and no more of the row or column alone.
  void count_operators() {
    const std::int64_t scores = c_.batch() * c_.rows() * c_.columns();
    for (const graph::Node& node : c_.graph->nodes()) {
      // A lane's columns are not those that share random bits, and its rows are other lanes'.
      if (graph::makes_random_bits(node.op) && node.type().elements() * 2 >= scores)
        instructions_ += graph::info(node.op).instructions.narrow - weight_operator;
      if (node.results.empty() || node.type().elements() != scores || !graph::is_elementwise(node.op)) continue;
      if (node.op == graph::Op::convert) continue;
      instructions_ += weight_operator;
      if (node.op != graph::Op::exp) continue;
      instructions_ += weight_exponential;
      exponentials_ += 1;
    }
    instructions_ += weight_conversion * static_cast<double>(c_.products.size());
    column_values_ = values_of_columns();
  }

  /// Parameters that have a value for each column. Of as many rows as columns nobody asks which are which: half.
  [[nodiscard]] double values_of_columns() const {
    double values = 0;
    for (std::size_t p = 0; p < c_.graph->parameters().size(); ++p) {
      const auto multiplied = [&](const ContractionProblem& part) {
        const int number = static_cast<int>(p);
        return part.left.parameter == number || part.right.parameter == number;
      };
      if (std::ranges::any_of(c_.scores, multiplied) || std::ranges::any_of(c_.products, multiplied)) continue;
      const graph::Node& parameter = c_.graph->node(c_.graph->parameters()[p]);
      if (parameter.type().elements() == c_.batch() * c_.columns()) values += c_.rows() == c_.columns() ? 0.5 : 1;
    }
    return values;
  }

  void count_turns(AttentionTime& time) {
    double all = 0;
    for (std::int64_t t = 0; t < shape_.row_tiles; ++t) {
      const kernel::KeyTiles walked = tiles_of(walk_, t, s_, shape_.column_tiles);
      const auto turns = static_cast<double>(std::max<std::int64_t>(0, walked.last - walked.first));
      all += turns;
      longest_ = std::max(longest_, turns);
    }
    time.turns = all / static_cast<double>(shape_.row_tiles);
  }

  /// Bytes of operands, each distinct one once: a tile that two products share is one.
  void count_traffic(AttentionTime& time) {
    const auto bytes = [](const ContractionOperand& operand, double free, double depth) {
      return different_batches(operand) * free * depth * graph::byte_size(operand.dtype);
    };
    double rows = 0, once = 0, of_batch = 0, results = 0;
    for (const ContractionProblem& score : c_.scores) {
      const auto depth = static_cast<double>(score.contracted), columns = static_cast<double>(c_.columns());
      rows += bytes(score.left, static_cast<double>(c_.rows()), depth);
      once += bytes(score.right, columns, depth);
      of_batch += columns * depth * graph::byte_size(score.right.dtype);
    }
    for (std::size_t r = 0; r < c_.products.size(); ++r) {
      const ContractionProblem& product = c_.products[r];
      const auto columns = static_cast<double>(product.columns), walked = static_cast<double>(c_.columns());
      results += static_cast<double>(c_.batch() * c_.rows()) * columns * graph::byte_size(product.result.dtype) +
                 epilogue_reads(product);
      if (c_.shared_operand(r) >= 0) continue;
      once += bytes(product.right, columns, walked);
      of_batch += columns * walked * graph::byte_size(product.right.dtype);
    }
    // Of values of rows and columns, and masks.
    const double others = std::max(0.0, static_cast<double>(c_.least_bytes()) - rows - once - results);
    const double kept = k_.l2_kept * static_cast<double>(d_.l2_bytes);
    const double batches_at_once = std::max(1.0, busy_sms_ * resident_ / static_cast<double>(shape_.row_tiles));
    const double again = of_batch * batches_at_once <= kept
                             ? 1
                             : std::max(1.0, static_cast<double>(shape_.row_tiles) / (busy_sms_ * resident_));
    const double reads = rows + others + once * again;
    time.dram_bytes = reads + results;
    time.l2_bytes = static_cast<double>(shape_.blocks) * (time.turns * stage_bytes() + row_bytes()) + others + results;
    found_in_l2_ = 1 - std::min(1.0, reads / std::max(1.0, time.l2_bytes));
    const double flight = busy_sms_ *
                          std::min<double>(resident_, std::ceil(static_cast<double>(shape_.blocks) / busy_sms_)) *
                          std::max(1, s_.stages - 1) * stage_bytes();
    const double writing = d_.copy_bandwidth() / (1 + DeviceSpec::write_turnaround);
    const double us = (reads / d_.reachable_bandwidth() + results / writing) * 1e6;
    time.dram = us / bandwidth_share(flight, busy_sms_, d_, k_);
    time.l2 = time.l2_bytes / std::min(tile_bandwidth(d_), busy_sms_ * k_.alone_bytes_per_clock * d_.clock_hz) * 1e6;
  }

  // Of one block and turn, cycles of an SM that it has to itself.
  [[nodiscard]] double scores_of_turn() const { return static_cast<double>(s_.block_rows) * s_.block_columns; }
  [[nodiscard]] double multiply_cycles() const {
    return of_products([&](const ContractionProblem& p, const kernel::ContractionSchedule& part, bool) {
      const double products = static_cast<double>(s_.block_rows) * part.block_columns * part.block_depth;
      return products / multiply_rate(p, s_.instruction, d_);
    });
  }
  [[nodiscard]] double special_cycles() const {
    return exponentials_ * scores_of_turn() / std::max(1, d_.special_lanes_per_sm);
  }
  [[nodiscard]] double shared_cycles() const {
    const double weights = cores() ? 2.0 * static_cast<double>(c_.products.size()) *
                                         static_cast<double>(shape_.weight_bytes) / d_.shared_bytes_per_clock
                                   : 0;
    return stage_bytes() / d_.shared_bytes_per_clock + weights +
           of_products([&](const ContractionProblem& p, const kernel::ContractionSchedule& part, bool score) {
             return turn_shared_cycles(p, part, shape_.warps, score || cores(), d_);
           });
  }
  /// A warp's instructions between the products, and around them.
  [[nodiscard]] double weight_instructions() const {
    const double columns = s_.block_columns / (cores() ? column_lanes_of_cores : column_lanes);
    const double weights =
        s_.warp_rows * s_.block_columns / 32.0 * instructions_ + columns * column_values_ * column_value;
    return weights * (together() ? together_share : 1) + turn_walk;
  }
  [[nodiscard]] double copies() const {
    double all = 0;
    for (std::size_t i = 0; i < c_.scores.size(); ++i)
      all += static_cast<double>(shape_.walked_bytes[i]) / shape_.scores[i].right_copy;
    for (std::size_t r = 0; r < c_.products.size(); ++r)
      all += static_cast<double>(shape_.other_bytes[r]) / shape_.products[r].right_copy;
    return all / shape_.threads * copy_instructions;
  }
  [[nodiscard]] double issue_cycles() const {
    const double products = of_products([](const ContractionProblem& p, const kernel::ContractionSchedule& part, bool) {
      return turn_instructions(p, part);
    });
    return shape_.warps * (products + weight_instructions() + copies()) / schedulers;
  }

  /// What `x` blocks of an SM do in a turn, cycles: units that are busy, or what one warp does one after the other.
  [[nodiscard]] double use_cycles(double x) const {
    const double busy = x * norm_of({multiply_cycles(), special_cycles(), shared_cycles(), issue_cycles()});
    if (together()) return use_together(x, busy);
    const double alone = static_cast<double>(schedulers) / shape_.warps;  // a warp's share, at its scheduler's rate
    const double looked_up = column_values_ > 0 ? d_.l2_latency : 0;
    const double chain =
        alone * (multiply_cycles() + special_cycles()) + weight_instructions() + 4 * d_.shared_latency + looked_up;
    return std::max(busy, chain);
  }
  /// Warpgroups begin a turn together: nobody has weights to make before the first has its scores, and nobody
  /// multiplies behind the last ones; other blocks fill that (guess, as of attention).
  [[nodiscard]] double use_together(double x, double busy) const {
    const double groups = static_cast<double>(shape_.warps) / kernel::warpgroup_warps;
    const double looked_up = column_values_ > 0 ? d_.l2_latency : 0;
    const double idle = together_turn_cycles + multiply_cycles() / groups;
    const double weights =
        std::max(weight_instructions(), special_cycles() / groups) + 3 * d_.shared_latency + looked_up;
    return std::max(busy + idle / x, idle + weights);
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
    const double first = stage_bytes() + row_bytes();
    time.fill += rounds * (d_.dram_latency / (last ? 1 : x) + (last ? x : 1) * first / l2_rate_of_sm());
    for (std::size_t r = 0; r < c_.products.size(); ++r) {
      const double results = static_cast<double>(s_.block_rows) * shape_.products[r].block_columns;
      time.epilogue +=
          rounds * x * results_cycles(c_.products[r], results, l2_rate_of_sm(), d_) / (x > 1 && !last ? 2 : 1);
    }
  }

  const ProductChain& c_;
  const ChainSchedule& s_;
  const kernel::KeyWalk& walk_;
  const DeviceSpec& d_;
  const AnalyticalConstants& k_;
  const kernel::ChainShape shape_;
  // Of wgmma's the compiler takes as many registers as there are.
  const int resident_ =
      together() ? s_.blocks_per_sm
                 : std::max(s_.blocks_per_sm,
                            kernel::resident_blocks(shape_.threads, shape_.registers, shape_.shared_bytes, d_));
  double instructions_ = 0, exponentials_ = 0;  ///< of a score's place
  double column_values_ = 0;
  double busy_sms_ = 1, found_in_l2_ = 0, longest_ = 0;
};

}  // namespace

AttentionTime chain_time(const ProductChain& chain, const ChainSchedule& schedule, const kernel::KeyWalk& walk,
                         const DeviceSpec& device, const AnalyticalConstants& constants) {
  return ChainPricing(chain, schedule, walk, device, constants).price();
}

double unfused_chain_us(const ProductChain& chain, const DeviceSpec& device, const AnalyticalConstants& constants) {
  const double scores =
      static_cast<double>(chain.batch()) * static_cast<double>(chain.rows()) * static_cast<double>(chain.columns());
  double bytes = 0, us = 0;
  for (const ContractionProblem& score : chain.scores) {
    bytes += scores * graph::byte_size(score.graph->node(score.root).type().dtype);
    us += library_us(score, device, constants);
  }
  for (const ContractionProblem& product : chain.products) {
    bytes += scores * graph::byte_size(product.left.dtype);
    us += library_us(product, device, constants);
  }
  const double kept = constants.l2_kept * static_cast<double>(device.l2_bytes);
  const double rate = bytes <= kept ? device.l2_bandwidth : device.copy_bandwidth();
  return us + constants.launch * device.launch_us + bytes / rate * 1e6;
}

}  // namespace stitch::costmodel
