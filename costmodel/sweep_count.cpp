#include "costmodel/sweep_count.h"

#include <algorithm>

#include "costmodel/operation_cost.h"
#include "kernel/program/legality.h"
#include "kernel/structure/items.h"

namespace stitch::costmodel {
namespace {

using graph::Op;
using kernel::Anchor;
using kernel::Item;
using kernel::ItemId;
using kernel::Level;
using Place = kernel::LoadPlaces::Place;

/// A warp alone issues an instruction every 4 cycles along a dependent chain (Jia et al., "Dissecting the NVIDIA Volta
/// GPU Architecture via Microbenchmarking", 2018, table 4.1), and by the stall counts of our unrolled loops' machine
/// code every 1.4 to 1.8 without waits for memory and special functions; in between by guess. Where a scheduler has
/// several warps of the block it issues one instruction a cycle, less a tenth (guess).
constexpr double cycles_alone = 2.5;
constexpr double cycles_of_each_warp = 1.1;
constexpr int schedulers_per_sm = 4;
/// Share of a load's latency that shows in each further iteration of a loop whose next loads go out early (guess).
constexpr double latency_shown_per_iteration = 0.5;
/// In a shifted row that has no loop each element is asked whether it is in the row (guess: a comparison
/// and a selection).
constexpr double instructions_of_range_test = 2;
/// Held values go through shared memory by accesses of 16 bytes, four f32, each with an instruction for its address
/// (guess).
constexpr double held_elements_per_access = 4;
constexpr double instructions_of_held_access = 2;
constexpr int wide_bytes = 8;
/// Of what is staged in shared memory: a copy writes it, and the turn that uses it reads it.
constexpr double passes_of_stage = 2;
/// Of a turn whose stage a warp has filled by bulk copies: the lane that asks and its arrival, the wait for the bytes
/// and the one for the other lanes, with the numbers of stage and phase (counted in machine code of CUDA 13.0 for
/// sm_90a).
constexpr double instructions_of_bulk_turn = 30;
/// From a barrier's last byte to a warp that waits for it, beyond what a load's own wait takes (guess).
constexpr double cycles_of_phase = 20;
/// Of Σ exp(x − maximum) with its maximum (codegen/device/max_exp_sum.cuh): exponentials, and the other instructions,
/// of them those that choose (maximum, minimum, comparison, selection) on the integer unit.
struct PairWork {
  double exponentials, others, choices;
};
constexpr PairWork of_vector_element = {1, 3, 1};  ///< maximum, difference, addition
constexpr PairWork of_vector = {1, 5, 3};          ///< and once a vector: maximum, base, difference, multiply-add
constexpr PairWork of_element = {1, 9, 6};         ///< one by itself
constexpr PairWork of_partial = {2, 7, 3};         ///< a pair of partial results

/// What the items of one sweep add up to.
class SweepCounter {
 public:
  SweepCounter(const CountedGroup& counted, const kernel::Sweep& sweep, LoadTraffic& loads, GroupFeatures& features)
      : counted_(counted), group_(counted.group), sweep_(sweep), loads_(loads), features_(features) {}

  void count(int sweep) {
    for (const ItemId id : sweep_.uniform) {
      const Item& item = counted_.program.at(id);
      const double times = counted_.per_thread(item.axes & group_.outer_loops);
      if (item.kind == Item::Kind::load) {
        loads_.request(id, 1, times);
      } else {
        count_operation(item, times);
      }
    }
    for (const ItemId id : sweep_.body) {
      const Item& item = counted_.program.at(id);
      const double times = counted_.per_thread(item.axes);
      if (item.kind == Item::Kind::load) {
        loads_.request(id, group_.accesses[id].width, times);
        count_flight(id, times);
        count_stage(id, times);
      } else {
        count_operation(item, times);
      }
    }
    loads_.pass_to_l2();
    for (const int a : sweep_.anchors) count_sum(group_.structure.anchors[a]);
    for (const kernel::HeldItem& held : group_.held) {
      if (held.place == kernel::Hold::shared) count_held(held, sweep);
    }
    if (flight_ > features_.bytes_in_flight) {
      features_.bytes_in_flight = flight_;
      features_.ahead_share = ahead_ / flight_;
    }
    if (sweep == 0 && group_.ahead.bulk) count_bulk_turns();
    features_.latency_cycles += waiting_cycles() + body_cycles();
    features_.serial_cycles += serial_cycles();
  }

 private:
  [[nodiscard]] static bool is_ahead(const kernel::LoadsAhead& ahead, ItemId id) {
    return ahead.contains(id) || ahead.stages_of(id) != nullptr;
  }

  /// Turns of a loop whose loads of an item are on their way together: while a stage is used all others are filled.
  [[nodiscard]] int turns_under_way(ItemId id) const {
    for (const kernel::LoadsAhead* ahead : {&group_.ahead, &sweep_.ahead}) {
      if (ahead->stages_of(id) != nullptr) return ahead->stages - 1;
    }
    return 1;
  }

  /// What lies in a stage is written there and read from it; what is held there besides is counted with what is held.
  void count_stage(ItemId id, double times) {
    const bool staged = group_.ahead.stages_of(id) != nullptr || sweep_.ahead.stages_of(id) != nullptr;
    if (!staged) return;
    near_stage_ = true;
    const auto held = std::ranges::find(group_.held, id, &kernel::HeldItem::item);
    if (held != group_.held.end() && held->place == kernel::Hold::shared) return;
    const double instructions = counted_.warps * times / held_elements_per_access * instructions_of_held_access;
    const double bytes = times * graph::byte_size(counted_.program.at(id).dtype);
    features_.shared_bytes += passes_of_stage * bytes * group_.threads * group_.tiles * counted_.schedule.cluster;
    features_.instructions += instructions;
    features_.exchange_instructions += instructions;
  }

  /// What warps do with their barriers in every turn.
  void count_bulk_turns() {
    const double turns = counted_.outer_iterations();
    features_.instructions += counted_.warps * turns * instructions_of_bulk_turn;
    features_.latency_cycles += turns * cycles_of_phase;
  }

  /// Bytes that a load has on their way to one thread before their first use.
  void count_flight(ItemId id, double times) {
    const Item& item = counted_.program.at(id);
    const Place place = counted_.places.of(id);
    near_ = near_ || place == Place::l1 || place == Place::shared;
    far_ = far_ || place == Place::device;
    if (place != Place::device && place != Place::l2) return;
    const double lanes = item.axes.empty() ? 1 : warp_lanes;
    // Of what is copied to shared memory all of a tile is on its way.
    const bool copied = std::ranges::count(sweep_.copied, id) > 0;
    const double at_once =
        copied ? times / counted_.outer_iterations() : std::min(times, counted_.per_iteration(item.axes));
    const bool row_ahead = is_ahead(group_.ahead, id), ahead = row_ahead || is_ahead(sweep_.ahead, id);
    iteration_waits_ = iteration_waits_ || (!copied && !ahead);
    row_waits_ = row_waits_ || !row_ahead;
    const double turns = turns_under_way(id) + counted_.places.turns_ahead(id);
    const double bytes = turns * counted_.made_share(item) * graph::byte_size(item.dtype) * at_once *
                         std::min(1.0, counted_.distinct_lanes(item.axes) / lanes);
    flight_ += bytes;
    if (ahead) ahead_ += bytes;
  }

  /// Further words of random bits come with the first one.
  [[nodiscard]] bool computes_with_another(const Item& item) const {
    if (item.kind != Item::Kind::compute || !graph::makes_random_bits(item.op)) return false;
    return std::any_of(sweep_.body.begin(), sweep_.body.end(), [&](ItemId id) {
      const Item& other = counted_.program.at(id);
      return other.kind == Item::Kind::compute && other.op == item.op && other.operands == item.operands &&
             other.origin.result < item.origin.result;
    });
  }

  /// Blocks of random bits that a thread computes for each element: neighbours of a vector whose block's number is
  /// their own one shifted share it, which the compiler finds (seen in SASS of CUDA 13.0).
  [[nodiscard]] double blocks_of_element(const Item& item) const {
    double blocks = 1;
    for (const int a : item.axes) {
      const std::int64_t vector = group_.extent(a, Level::vector);
      std::int64_t shared = vector;
      for (const ItemId id : item.operands) {
        const Item& operand = counted_.program.at(id);
        if (operand.axes.contains(a)) shared = std::min(shared, neighbours_in_block(operand, a, vector));
      }
      blocks /= static_cast<double>(shared);
    }
    return blocks;
  }

  /// Elements of a vector along an axis for which i >> s is one number.
  [[nodiscard]] std::int64_t neighbours_in_block(const Item& number, int axis, std::int64_t vector) const {
    if (number.kind != Item::Kind::compute || number.op != Op::shift_right_logical) return 1;
    const Item& place = counted_.program.at(number.operands[0]);
    const Item& by = counted_.program.at(number.operands[1]);
    if (place.kind != Item::Kind::index || by.kind != Item::Kind::literal || by.bits >= 16) return 1;
    const std::int64_t width = std::min(vector, std::int64_t{1} << by.bits);
    return counted_.program.counts_along(place.index, axis, width) ? width : 1;
  }

  void count_operation(const Item& item, double times) {
    if (computes_with_another(item)) return;
    if (item.kind == Item::Kind::compute && graph::makes_random_bits(item.op)) times *= blocks_of_element(item);
    const bool computes = item.kind == Item::Kind::compute;
    const double executions = counted_.warps * times;
    const double cost = operation_cost(item);
    features_.instructions += executions * cost;
    features_.integer_instructions += executions * integer_cost(item);
    if (graph::byte_size(item.dtype) == wide_bytes) features_.wide_instructions += executions * cost;
    if (computes && item.dtype == graph::DType::f64) features_.f64_instructions += executions * cost;
    if (item.kind == Item::Kind::index || item.kind == Item::Kind::in_range)
      features_.index_instructions += executions * cost;
    body_ += times * cost;
    if (computes && graph::info(item.op).cost == graph::OpCost::expensive && item.op != Op::divide &&
        !graph::makes_random_bits(item.op)) {
      features_.special_instructions += executions;
    }
  }

  /// Whether a sum is one of products that nothing else needs, in a turn of a recurrent kernel: a multiply-add each.
  [[nodiscard]] bool is_accumulated_product(const Anchor& anchor) const {
    if (!counted_.residence.takes_turns() || anchor.kind != Anchor::Kind::reduce || anchor.items.size() != 1)
      return false;
    const Item& item = counted_.program.at(anchor.items[0]);
    return item.kind == Item::Kind::compute && item.op == Op::multiply;
  }

  /// Instructions of what is executed so often for pairs of a maximum and a sum, without adding them to the total.
  double count_pair_work(const PairWork& work, graph::DType dtype, double executions) {
    Item exponential;
    exponential.kind = Item::Kind::compute;
    exponential.op = Op::exp;
    exponential.dtype = dtype;
    const double instructions = work.exponentials * operation_cost(exponential) + work.others;
    const bool wide = graph::byte_size(dtype) == wide_bytes;
    features_.special_instructions += executions * work.exponentials;
    features_.integer_instructions += executions * work.choices * (wide ? 2 : 1);
    if (wide) {
      features_.wide_instructions += executions * instructions;
      features_.f64_instructions += executions * instructions;
    }
    return instructions;
  }

  /// Instructions for each element that a thread adds to its accumulators.
  double instructions_of_sum(const Anchor& anchor, double executions) {
    if (anchor.combiner != Op::max_exp_sum) return 1;
    const graph::DType dtype = counted_.program.at(anchor.items[0]).dtype;
    if (anchor.items.size() > 1) return count_pair_work(of_partial, dtype, executions);
    const bool runs = group_.vector_extent() > 1 && anchor.reduced.contains(group_.mapping.vector_axis);
    if (!runs) return count_pair_work(of_element, dtype, executions);
    const double vectors = 1.0 / group_.vector_extent();
    return count_pair_work(of_vector_element, dtype, executions) +
           vectors * count_pair_work(of_vector, dtype, executions * vectors);
  }

  /// The additions of a thread to its accumulators.
  void count_sum(const Anchor& anchor) {
    if (anchor.kind != Anchor::Kind::reduce && anchor.kind != Anchor::Kind::partial) return;
    if (is_accumulated_product(anchor)) return;
    const double times = counted_.per_thread(anchor.axes);
    const double executions = counted_.warps * times;
    const double instructions = instructions_of_sum(anchor, executions);
    features_.instructions += executions * instructions;
    body_ += times * instructions;
    const int along = std::max(group_.mapping.vector_axis, 0);
    const bool loops = group_.inner_loops.contains(along);
    if (!group_.shift || !anchor.axes.contains(along) || loops) return;
    features_.instructions += executions * instructions_of_range_test;
    features_.integer_instructions += executions * instructions_of_range_test;
    features_.index_instructions += executions * instructions_of_range_test;
    body_ += times;
  }

  /// Held values that live in shared memory pass through it once per use.
  void count_held(const kernel::HeldItem& held, int sweep) {
    const bool uses = held.from == sweep || (held.from < sweep && held.until >= sweep);
    if (!uses) return;
    const Item& item = counted_.program.at(held.item);
    const double times = counted_.per_thread(item.axes);
    const double instructions = counted_.warps * times / held_elements_per_access * instructions_of_held_access;
    const double bytes = times * kernel::held_bytes(item);
    features_.shared_bytes += bytes * group_.threads * group_.tiles * counted_.schedule.cluster;
    features_.instructions += instructions;
    features_.exchange_instructions += instructions;
  }

  /// Cycles of the first loads of an iteration.
  [[nodiscard]] double first_latency() const {
    if (far_) return counted_.device.dram_latency;
    if (flight_ > 0) return counted_.device.l2_latency;
    return near_ ? counted_.device.shared_latency : 0;
  }

  /// Cycles of the instructions of a thread in a tile, between which those of the block's other warps go out.
  [[nodiscard]] double body_cycles() const { return body_ * cycles_of_instruction(counted_.schedule.threads); }

  /// Of the loops within the sweep, for each turn of those around it.
  [[nodiscard]] double iterations() const {
    double iterations = 1;
    for (const int a : group_.inner_loops) iterations *= group_.extent(a, Level::loop);
    return iterations;
  }

  /// What of a sweep stands between loads and stores of one row: all of it where values are at hand, and where they are
  /// loaded in a loop the last iteration's.
  [[nodiscard]] double serial_cycles() const {
    const double row = body_cycles() / counted_.outer_iterations();
    return flight_ > 0 ? row / iterations() : first_latency() + row;
  }

  /// Cycles of waiting for loads. Those of a loop's next iteration go out while this one's values are used; those of
  /// the next row wait for the end of this one, unless they are made a turn ahead.
  [[nodiscard]] double waiting_cycles() const {
    const double further = flight_ > 0 && !iteration_waits_ ? 0 : iterations() - 1;
    double rows = counted_.outer_iterations();
    const double of_stages = near_stage_ ? counted_.device.shared_latency * rows * iterations() : 0;
    if (flight_ > 0 && !row_waits_) rows /= group_.extent(group_.ahead.axis, Level::loop);
    return first_latency() * rows * (1 + further * latency_shown_per_iteration) + of_stages;
  }

  const CountedGroup& counted_;
  const kernel::GroupProgram& group_;
  const kernel::Sweep& sweep_;
  LoadTraffic& loads_;
  GroupFeatures& features_;
  double flight_ = 0;             ///< bytes that one thread has under way before their first use
  double body_ = 0;               ///< instructions of one thread in a tile
  bool near_ = false;             ///< whether anything comes from L1 or shared memory
  bool near_stage_ = false;       ///< whether anything comes from a stage of shared memory
  bool far_ = false;              ///< whether anything comes from device memory
  double ahead_ = 0;              ///< of flight_: asked for a turn ahead
  bool iteration_waits_ = false;  ///< whether some of these are made in the iteration
  bool row_waits_ = false;        ///< whether some are made in the turn of the outer loops
};

}  // namespace

void count_sweep(const CountedGroup& counted, int sweep, LoadTraffic& loads, GroupFeatures& features) {
  SweepCounter(counted, counted.group.sweeps[sweep], loads, features).count(sweep);
}

double cycles_of_instruction(int threads) {
  const int warps_of_a_scheduler = (kernel::warps_of(threads) + schedulers_per_sm - 1) / schedulers_per_sm;
  return std::max(cycles_alone, cycles_of_each_warp * warps_of_a_scheduler);
}

}  // namespace stitch::costmodel
