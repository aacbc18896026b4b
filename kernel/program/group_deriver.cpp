#include "kernel/program/group_deriver.h"

#include <algorithm>
#include <bit>
#include <set>
#include <utility>

#include "kernel/program/holding.h"
#include "kernel/structure/items.h"

namespace stitch::kernel {
namespace {

template <class... Args>
Error constraint(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorKind::constraint, format, std::forward<Args>(args)...);
}

bool has(std::uint64_t mask, std::size_t axis) { return ((mask >> axis) & 1) != 0; }

}  // namespace

/// Builds one GroupProgram; each step below fills the fields that its name says.
class GroupDerivation {
 public:
  GroupDerivation(GroupDeriver& context, const GroupMapping& mapping, const Schedule& schedule, std::int64_t partials)
      : context_(context),
        structure_(context.structure_),
        flow_(context.flow_),
        schedule_(schedule),
        program_(*structure_.program) {
    group_.mapping = mapping;
    group_.extents = program_.axes().extents;
    if (structure_.partial_axis >= 0) group_.extents[structure_.partial_axis] = partials;
    if (structure_.slab_axis >= 0) group_.extents[structure_.slab_axis] = 1;
  }

  Result<GroupProgram> derive() {
    STITCH_TRY(check_coverage());
    classify_axes();
    STITCH_TRY(shift_rows());
    STITCH_TRY(check_anchors());
    find_accesses();
    choose_hoisted();
    divide();
    STITCH_TRY(plan_reductions());
    STITCH_TRY(place_held());
    estimate_registers();
    group_.structure = std::move(context_.structure_);
    return std::move(group_);
  }

 private:
  [[nodiscard]] std::size_t axis_count() const { return group_.extents.size(); }
  [[nodiscard]] const AxisMapping& axis(std::size_t a) const { return group_.mapping.axes[a]; }

  Status check_coverage() {
    if (group_.mapping.axes.size() != axis_count()) {
      return constraint("the mapping has {} axes, the group has {}", group_.mapping.axes.size(), axis_count());
    }
    std::int64_t clusters = 1, threads = 1;
    for (std::size_t a = 0; a < axis_count(); ++a) {
      const std::int64_t covered = axis(a).covered();
      const bool shifted = group_.mapping.shifted && static_cast<int>(a) == group_.mapping.vector_axis;
      const std::int64_t before = shifted ? vector_extent() - 1 : 0;
      if (covered < before + group_.extents[a])
        return constraint("axis {} of extent {} is covered to {}", a, group_.extents[a] + before, covered);
      if (static_cast<int>(a) == structure_.slab_axis && covered > 1)
        return constraint("axis {} is of slabs, of which a tile has one", a);
      clusters *= axis(a).at(Level::cluster);
      threads *= axis(a).threads();
      group_.tiles *= axis(a).at(Level::grid);
      if (axis(a).at(Level::vector) > 1 && static_cast<int>(a) != group_.mapping.vector_axis) {
        return constraint("axis {} has vectors but is not the vector axis", a);
      }
    }
    // Blocks left over would do the same tile, and race, unless each stores what it makes in its own shared memory.
    if (clusters != schedule_.cluster && (schedule_.rows == 0 || clusters != 1))
      return constraint("{} blocks per cluster, the launch has {}", clusters, schedule_.cluster);
    if (threads > schedule_.threads)
      return constraint("{} threads mapped, the block has {}", threads, schedule_.threads);
    group_.threads = static_cast<int>(threads);
    return {};
  }

  void classify_axes() {
    std::uint64_t reduced_here = 0;
    for (const Anchor& anchor : structure_.anchors) {
      if (anchor.kind == Anchor::Kind::reduce) reduced_here |= anchor.reduced;
    }
    for (std::size_t a = 0; a < axis_count(); ++a) {
      const std::uint64_t bit = std::uint64_t{1} << a;
      if (axis(a).per_thread() > 1) group_.in_thread |= bit;
      if (axis(a).at(Level::loop) > 1) (has(reduced_here, a) ? group_.inner_loops : group_.outer_loops) |= bit;
    }
    group_.varying = group_.in_thread;
    for (std::size_t a = 0; a < axis_count(); ++a) {
      if (has(group_.outer_loops, a) && axis(a).at(Level::vector) * axis(a).at(Level::reg) == 1)
        group_.varying &= ~(std::uint64_t{1} << a);
    }
    // The vector axis is the fastest digit of the thread index, then the axes from the innermost outwards.
    if (group_.mapping.vector_axis >= 0) group_.thread_order.push_back(group_.mapping.vector_axis);
    for (std::size_t a = axis_count(); a-- > 0;) {
      if (static_cast<int>(a) != group_.mapping.vector_axis) group_.thread_order.push_back(static_cast<int>(a));
    }
  }

  /// Where a row begins is worked out once for each row that a thread takes, one after the other.
  Status shift_rows() {
    if (!group_.mapping.shifted) return {};
    if (schedule_.rows > 0 || vector_extent() < 2 || !std::has_single_bit(static_cast<std::uint64_t>(vector_extent())))
      return constraint("rows are shifted by parts of a vector of {}", vector_extent());
    const std::size_t v = group_.mapping.vector_axis;
    const auto [entry, fresh] = context_.shifts_.try_emplace({v, vector_extent()});
    if (fresh) entry->second = row_shift(structure_, v, vector_extent());
    group_.shift = entry->second;
    if (!group_.shift) return constraint("rows along axis {} cannot be shifted", v);
    const std::uint64_t rows = axes_of(program_, *group_.shift);
    for (std::size_t a = 0; a < axis_count(); ++a) {
      if (!has(rows, a)) continue;
      if (axis(a).at(Level::vector) * axis(a).at(Level::reg) > 1 || has(group_.inner_loops, a))
        return constraint("a thread takes several rows of axis {} at once, which begin differently", a);
      if (has(group_.outer_loops, a) && has(group_.outer_loops, v))
        return constraint("rows of axis {} are walked within the loop along them", a);
    }
    return {};
  }

  Status check_anchors() {
    for (const Anchor& anchor : structure_.anchors) {
      if (anchor.kind != Anchor::Kind::reduce && anchor.kind != Anchor::Kind::partial) continue;
      for (std::size_t a = 0; a < axis_count(); ++a) {
        const bool reduced = has(anchor.reduced, a);
        if (anchor.kind == Anchor::Kind::reduce && reduced && axis(a).at(Level::grid) > 1) {
          return constraint("a reduction that must end in its tile spans {} tiles", axis(a).at(Level::grid));
        }
        if (!has(anchor.axes, a) || reduced) continue;
        // Accumulators live across these loops: one set per iteration would be needed.
        if (has(group_.inner_loops, a)) return constraint("a reduction keeps axis {}, which its sweep loops over", a);
        if (anchor.kind == Anchor::Kind::partial && has(group_.outer_loops, a)) {
          return constraint("partial results keep axis {}, which the tile loops over", a);
        }
      }
    }
    return {};
  }

  // ---- memory access ----------------------------------------------------------------------------------------

  [[nodiscard]] std::int64_t vector_extent() const {
    return group_.mapping.vector_axis < 0
               ? 1
               : axis(static_cast<std::size_t>(group_.mapping.vector_axis)).at(Level::vector);
  }

  /// Each item is looked at once: a guard on a comparison of what dozens of others were selected from has more ways
  /// through its operands than could be walked.
  [[nodiscard]] bool guard_is_uniform(ItemId guard, std::int64_t width) const {
    const std::size_t vector = group_.mapping.vector_axis;
    std::vector<ItemId> open;
    std::set<ItemId> seen;
    const auto visit = [&](ItemId id) {
      if (has(program_.at(id).axes, vector) && seen.insert(id).second) open.push_back(id);
    };
    if (guard >= 0) visit(guard);
    while (!open.empty()) {
      const Item& item = program_.at(open.back());
      open.pop_back();
      if (item.kind == Item::Kind::in_range) {
        const IndexPool::Run run = program_.pool().run(item.index, program_.axes().variables[vector], width);
        if (run.regular && run.step == 0) continue;
        if (run.regular && run.step == 1 && run.aligned && item.low % width == 0 && item.high % width == 0) continue;
        return false;
      }
      for (const ItemId operand : item.operands) visit(operand);
    }
    return true;
  }

  [[nodiscard]] Access access(Index address, graph::DType dtype, ItemId guard) const {
    const int vector = group_.mapping.vector_axis;
    if (vector < 0) return {};
    const std::size_t v = vector;
    const bool uniform = !has(program_.axes_of(address), v) && (guard < 0 || !has(program_.at(guard).axes, v));
    if (uniform) return {1, true};
    if (group_.shift) return access_of_shifted(address, dtype, guard);
    // All of a vector's elements lie side by side and are there together, or each is looked up by itself.
    const IndexPool::Run whole = program_.pool().run(address, program_.axes().variables[v], vector_extent());
    if (!whole.regular || whole.step != 1 || !guard_is_uniform(guard, vector_extent())) return {1, false};
    // At most 16 bytes at a time; longer runs take several accesses.
    std::int64_t width = std::min<std::int64_t>(vector_extent(), 16 / graph::byte_size(dtype));
    // Dynamic indices that vary along the vector make it a gather.
    for (; width > 1; width /= 2) {
      bool dynamic = false;
      program_.pool().for_each_variable(address, [&](Index variable) {
        const ItemId item = program_.dynamic_item(variable);
        dynamic = dynamic || (item >= 0 && has(program_.at(item).axes, v));
      });
      if (dynamic) return {1, false};
      const IndexPool::Run run = program_.pool().run(address, program_.axes().variables[v], width);
      if (run.regular && run.step == 1 && run.aligned) return {static_cast<int>(width), false};
    }
    return {1, false};
  }

  /// Aligned where rows of this tensor begin as those do that the shift is of.
  [[nodiscard]] Access access_of_shifted(Index address, graph::DType dtype, ItemId guard) const {
    const std::size_t v = group_.mapping.vector_axis;
    if (guard >= 0 && has(program_.at(guard).axes, v)) return {1, false};
    for (std::int64_t width = std::min<std::int64_t>(vector_extent(), 16 / graph::byte_size(dtype)); width > 1;
         width /= 2) {
      const std::optional<Misalignment> own = misalignment(program_, address, v, width);
      if (own && *own == modulo(*group_.shift, width)) return {static_cast<int>(width), false};
    }
    return {1, false};
  }

  /// They depend on the vector axis and its extent only.
  void find_accesses() {
    const auto [entry, fresh] =
        context_.accesses_.try_emplace({group_.mapping.vector_axis, vector_extent(), group_.mapping.shifted});
    if (fresh) {
      find_loads_and_stores();
      entry->second = {group_.accesses, group_.stores};
    } else {
      group_.accesses = entry->second.loads, group_.stores = entry->second.stores;
    }
  }

  void find_loads_and_stores() {
    group_.accesses.resize(program_.items().size());
    for (std::size_t i = 0; i < program_.items().size(); ++i) {
      const Item& item = program_.items()[i];
      if (item.kind == Item::Kind::load) group_.accesses[i] = access(item.index, item.dtype, item.guard);
    }
    for (const Anchor& anchor : structure_.anchors) {
      group_.stores.emplace_back();
      if (anchor.kind != Anchor::Kind::store) continue;
      group_.stores.back().push_back(access(anchor.addresses[0], anchor.dtype, anchor.guard));
    }
  }

  // ---- sweeps -----------------------------------------------------------------------------------------------

  [[nodiscard]] bool is_uniform(ItemId id) const { return (program_.at(id).axes & group_.varying) == 0; }

  /// Loads that do not change along the outer loops are made once, where a thread's share is small.
  void choose_hoisted() {
    if (schedule_.rows > 0) return choose_lasting();
    if (group_.outer_loops == 0 || group_.inner_loops != 0) return;
    int budget = 48;
    for (std::size_t i = 0; i < program_.items().size(); ++i) {
      const Item& item = program_.items()[i];
      if (item.kind != Item::Kind::load || item.guard >= 0 || (item.axes & group_.outer_loops) != 0) continue;
      if (!program_.items_of(item.index).empty()) continue;
      // An element's thread changes from row to row.
      if (group_.shift && has(item.axes, static_cast<std::size_t>(group_.mapping.vector_axis))) continue;
      const int cost = static_cast<int>(elements_per_thread(item.axes)) * held_bytes(item) / 4;
      if (cost > budget || elements_per_thread(item.axes) > 64) continue;
      budget -= cost;
      group_.hoisted.push_back(static_cast<ItemId>(i));
    }
  }

  /// Loads that every turn of a recurrent kernel would make anew, of its weights: made before the first one, where a
  /// thread has registers for all that it needs of a tensor.
  void choose_lasting() {
    const Anchor::Kind kind = structure_.anchors[0].kind;
    if (kind == Anchor::Kind::scan || kind == Anchor::Kind::scatter) return;
    constexpr std::int64_t most = 255, for_the_rest = 80, of_an_sm = 65536;
    std::int64_t budget = std::min(most, of_an_sm / schedule_.threads) - for_the_rest;
    for (std::size_t i = 0; i < program_.items().size(); ++i) {
      const Item& item = program_.items()[i];
      if (item.kind != Item::Kind::load || item.guard >= 0 || item.buffer.kind != Buffer::Kind::input) continue;
      if (!structure_.lasting_inputs.contains(item.buffer.number) || !program_.items_of(item.index).empty()) continue;
      bool loops = false;
      for (std::size_t a = 0; a < axis_count(); ++a)
        loops = loops || (has(item.axes, a) && axis(a).at(Level::loop) > 1);
      const std::int64_t cost = (elements_per_thread(item.axes) * held_bytes(item) + 3) / 4;
      if (loops || cost > budget) continue;
      budget -= cost;
      group_.hoisted.push_back(static_cast<ItemId>(i));
    }
  }

  [[nodiscard]] std::int64_t elements_per_thread(std::uint64_t axes) const {
    std::int64_t count = 1;
    for (std::size_t a = 0; a < axis_count(); ++a) {
      if (!has(axes, a)) continue;
      count *= axis(a).at(Level::vector) * axis(a).at(Level::reg) *
               (has(group_.inner_loops, a) ? axis(a).at(Level::loop) : 1);
    }
    return count;
  }

  /// What is held and what each sweep computes depend on little of the mapping.
  void divide() {
    const auto [entry, fresh] = context_.divisions_.try_emplace({group_.mapping.hold, group_.varying, group_.hoisted});
    division_ = &entry->second;
    if (fresh) make_division(entry->second);
    group_.held = division_->held;
    group_.sweeps = division_->sweeps;
    for (Sweep& sweep : group_.sweeps) choose_early(sweep);
  }

  void make_division(GroupDeriver::Division& division) const {
    const std::size_t count = program_.items().size();
    division.held = choose_held(flow_, structure_, group_.mapping.hold, group_.varying, group_.hoisted);
    division.is_held.assign(count, false);
    for (const HeldItem& held : division.held) division.is_held[held.item] = true;
    std::vector<bool> at_hand(count, false);  // uniform items computed by an earlier sweep, hoisted and reduced ones
    for (std::size_t i = 0; i < count; ++i) at_hand[i] = program_.items()[i].kind == Item::Kind::reduced;
    for (const ItemId id : group_.hoisted) at_hand[id] = true;
    std::vector<std::vector<int>> anchors(static_cast<std::size_t>(structure_.sweep_count));
    for (std::size_t a = 0; a < structure_.anchors.size(); ++a)
      anchors[structure_.anchors[a].sweep].push_back(static_cast<int>(a));
    std::vector<int> held_until(count, -1), seen_in(count, -1);
    std::size_t begun = 0;
    for (int number = 0; number < structure_.sweep_count; ++number) {
      // Held by an earlier sweep: intervals of one item follow one another.
      for (; begun < division.held.size() && division.held[begun].from < number; ++begun)
        held_until[division.held[begun].item] = division.held[begun].until;
      Sweep sweep;
      sweep.anchors = anchors[number];
      std::vector<ItemId> open, here;
      for (const int a : sweep.anchors) open.insert(open.end(), flow_.roots(a).begin(), flow_.roots(a).end());
      for (std::size_t h = begun; h < division.held.size() && division.held[h].from == number; ++h)
        open.push_back(division.held[h].item);
      while (!open.empty()) {
        const ItemId id = open.back();
        open.pop_back();
        const std::size_t i = id;
        if (seen_in[i] == number || held_until[i] >= number || at_hand[i]) continue;
        seen_in[i] = number;
        here.push_back(id);
        open.insert(open.end(), flow_.needs(id).begin(), flow_.needs(id).end());
      }
      std::sort(here.begin(), here.end());
      for (const ItemId id : here) {
        if (is_uniform(id)) at_hand[id] = true;
        (is_uniform(id) ? sweep.uniform : sweep.body).push_back(id);
      }
      division.sweeps.push_back(std::move(sweep));
    }
  }

  [[nodiscard]] bool is_held(ItemId id) const { return division_->is_held[id]; }

  void choose_early(Sweep& sweep) const {
    constexpr std::int64_t budget = 96;  // registers
    std::int64_t used = 0;
    for (const ItemId id : sweep.body) {
      const Item& item = program_.at(id);
      if (item.kind != Item::Kind::load) continue;
      const auto needed = flow_.needs(id);
      const bool ready = std::none_of(needed.begin(), needed.end(), [&](ItemId n) {
        const bool same_band = (program_.at(n).axes & group_.varying) == (item.axes & group_.varying);
        return same_band && !is_inline(program_, n) && std::binary_search(sweep.body.begin(), sweep.body.end(), n);
      });
      if (!ready) continue;
      const bool held = is_held(id);
      const std::int64_t registers = (register_elements(item.axes) * held_bytes(item) + 3) / 4;
      if (!held && item.guard >= 0 && used + registers > budget) continue;
      if (!held) used += registers;
      sweep.early.push_back(id);
      if (held && is_copied(id, sweep)) sweep.copied.push_back(id);
    }
  }

  /// Whether a load that is held can go to shared memory by itself: in whole words from device memory, and in a loop,
  /// of which each iteration would wait for its own loads otherwise.
  [[nodiscard]] bool is_copied(ItemId id, const Sweep& sweep) const {
    const Item& item = program_.at(id);
    const int number = &sweep - group_.sweeps.data();
    const auto held = std::ranges::find(group_.held, id, &HeldItem::item);
    if (held == group_.held.end() || held->from != number || held->place != Hold::shared) return false;
    if (std::ranges::count(group_.held, id, &HeldItem::item) != 1) return false;
    if (schedule_.rows > 0 || item.guard >= 0 || item.buffer.kind != Buffer::Kind::input) return false;
    bool loops = false;
    for (std::size_t a = 0; a < axis_count(); ++a)
      loops = loops || (has(item.axes & group_.inner_loops, a) && axis(a).at(Level::loop) > 1);
    if (!loops) return false;
    const int v = group_.mapping.vector_axis;
    const bool along = v >= 0 && has(item.axes, static_cast<std::size_t>(v));
    const std::int64_t run = along ? axis(static_cast<std::size_t>(v)).at(Level::vector) : 1;
    const int width = group_.accesses[id].width, bytes = width * held_bytes(item);
    if (run > 1 && !group_.shift && group_.extents[v] % run != 0) return false;
    return (bytes == 16 || (width == run && (bytes == 4 || bytes == 8))) && run % width == 0;
  }

  // ---- reductions -------------------------------------------------------------------------------------------

  Status plan_reductions() {
    for (std::size_t i = 0; i < structure_.anchors.size(); ++i) {
      const Anchor& anchor = structure_.anchors[i];
      if (anchor.kind != Anchor::Kind::reduce && anchor.kind != Anchor::Kind::partial) continue;
      STITCH_ASSIGN(ReductionPlan plan, plan_reduction(anchor));
      plan.anchor = static_cast<int>(i);
      group_.reductions.push_back(std::move(plan));
    }
    // The reductions of one sweep share one exchange (one barrier); consecutive sweeps alternate between two buffers.
    // What is left for the next phase is exchanged when all sweeps are done, whatever sweep it comes from, and has both
    // buffers for that.
    const std::size_t behind = structure_.sweep_count;
    std::vector<std::int64_t> together(behind + 1, 0);
    for (const ReductionPlan& plan : group_.reductions) {
      const Anchor& anchor = structure_.anchors[plan.anchor];
      const bool last = anchor.kind == Anchor::Kind::partial;
      std::int64_t& bytes = together[last ? behind : static_cast<std::size_t>(anchor.sweep)];
      bytes = (bytes + 15) / 16 * 16 + plan.shared_bytes;
    }
    together[behind] = (together[behind] + 1) / 2;
    for (const std::int64_t bytes : together)
      group_.exchange_bytes = std::max(group_.exchange_bytes, (bytes + 15) / 16 * 16);
    return {};
  }

  Result<ReductionPlan> plan_reduction(const Anchor& anchor) {
    ReductionPlan plan;
    // Lanes can be combined by shuffles when the lane digits of all axes are powers of two within one warp.
    std::int64_t lanes = 1;
    bool powers = true;
    for (const int a : group_.thread_order) {
      const std::int64_t extent = axis(static_cast<std::size_t>(a)).at(Level::lane);
      powers = powers && std::has_single_bit(static_cast<std::uint64_t>(extent));
      lanes *= extent;
    }
    const bool shuffles = powers && lanes <= 32;
    std::int64_t distance = 1;
    for (const int position : group_.thread_order) {
      const std::size_t a = position;
      const std::int64_t extent = axis(a).at(Level::lane);
      if (has(anchor.reduced, a)) {
        if (shuffles) {
          for (std::int64_t d = distance; d < distance * extent; d *= 2) plan.shuffles.push_back(static_cast<int>(d));
        } else {
          plan.exchange *= static_cast<int>(extent);
        }
      }
      distance *= extent;
    }
    for (std::size_t a = 0; a < axis_count(); ++a) {
      const AxisMapping& m = axis(a);
      if (has(anchor.reduced, a)) {
        plan.exchange *= static_cast<int>(m.at(Level::warp));
        plan.cluster *= static_cast<int>(m.at(Level::cluster));
        plan.partials *= m.at(Level::grid);
      } else if (has(anchor.axes, a)) {
        plan.kept_per_thread *= m.at(Level::vector) * m.at(Level::reg);
        plan.kept_per_block *= m.at(Level::vector) * m.at(Level::reg) * m.threads();
      }
    }
    if (plan.kept_per_thread > 256) return constraint("{} accumulators in a thread", plan.kept_per_thread);
    // An arg-reduction carries a value and a 64-bit position (struct Indexed in codegen/device/reduce.cuh).
    const std::int64_t bytes =
        is_arg_reduce(anchor) ? 16 : graph::byte_size(graph::info(program_.at(anchor.items[0]).dtype).accumulator);
    const std::int64_t slots = (plan.exchange > 1 ? plan.exchange : 0) + (plan.cluster > 1 ? 1 : 0);
    plan.shared_bytes = slots * plan.kept_per_block * bytes;
    return plan;
  }

  [[nodiscard]] bool is_arg_reduce(const Anchor& anchor) const {
    return anchor.items.size() > 1 || anchor.addresses.size() > (anchor.kind == Anchor::Kind::partial ? 1U : 0U);
  }

  // ---- places -----------------------------------------------------------------------------------------------

  Status place_held() {
    std::vector<Placed> alive;
    for (HeldItem& held : group_.held) {
      const Item& item = program_.at(held.item);
      if (held.place == Hold::registers) {
        if ((item.axes & group_.inner_loops) != 0) return constraint("a value held in registers is swept by a loop");
        continue;
      }
      const std::int64_t bytes = (elements_per_thread(item.axes) * held_bytes(item) * group_.threads + 15) / 16 * 16;
      std::erase_if(alive, [&](const Placed& other) { return other.held->until < held.from; });
      held.shared_offset = shared_place(held, bytes, alive);
      alive.push_back({&held, bytes});
      group_.held_bytes = std::max(group_.held_bytes, held.shared_offset + bytes);
    }
    return {};
  }

  struct Placed {
    const HeldItem* held;
    std::int64_t bytes;
  };

  /// Liveness planning: the lowest offset that no value alive in the same sweep occupies. Every thread reads only what
  /// it wrote itself, so reuse needs no barrier.
  [[nodiscard]] std::int64_t shared_place(const HeldItem& held, std::int64_t bytes,
                                          const std::vector<Placed>& alive) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> taken;
    for (const Placed& other : alive) {
      if (held.until < other.held->from) continue;
      const Item& item = program_.at(other.held->item);
      // Element for element in place: the old value is read before the new one is written, by the same thread.
      const Item& own = program_.at(held.item);
      const bool in_place =
          other.held->until == held.from && item.axes == own.axes && held_bytes(item) == held_bytes(own);
      if (!in_place) taken.emplace_back(other.held->shared_offset, other.held->shared_offset + other.bytes);
    }
    std::sort(taken.begin(), taken.end());
    std::int64_t at = 0;
    for (const auto& [from, to] : taken) {
      if (at + bytes <= from) break;
      at = std::max(at, to);
    }
    return at;
  }

  /// Registers a thread needs, in 32-bit words. A rough sum of what must be alive at once; the compiler's report
  /// replaces it once there is one.
  void estimate_registers() {
    std::int64_t held = most_across(), accumulators = 0, body = 0;
    for (const ItemId id : group_.hoisted)
      group_.hoisted_registers += (elements_per_thread(program_.at(id).axes) * held_bytes(program_.at(id)) + 3) / 4;
    held += group_.hoisted_registers;
    for (const ReductionPlan& plan : group_.reductions) accumulators += plan.kept_per_thread;
    for (const Sweep& sweep : group_.sweeps) {
      std::int64_t loads = 0;
      bool heavy = false;
      for (const ItemId id : sweep.early) {
        const Item& item = program_.at(id);
        if (!is_held(id)) loads += (register_elements(item.axes) * held_bytes(item) + 3) / 4;
      }
      for (const ItemId id : sweep.body) {
        const Item& item = program_.at(id);
        heavy = heavy || (item.kind == Item::Kind::compute && graph::info(item.op).cost == graph::OpCost::expensive);
      }
      const std::int64_t uniform = std::min<std::size_t>(sweep.uniform.size(), 8);
      body = std::max(body, loads + (heavy ? 14 : 8) + uniform);
    }
    group_.registers = static_cast<int>(std::min<std::int64_t>(14 + held + accumulators + body, 1 << 16));
  }

  /// Registers that hold values across a boundary between sweeps, where they are most.
  [[nodiscard]] std::int64_t most_across() const {
    std::vector<std::int64_t> change(static_cast<std::size_t>(structure_.sweep_count) + 1, 0);
    for (const HeldItem& h : group_.held) {
      if (h.place != Hold::registers) continue;
      const Item& item = program_.at(h.item);
      const std::int64_t words = (elements_per_thread(item.axes) * held_bytes(item) + 3) / 4;
      change[h.from] += words;
      change[h.until] -= words;
    }
    std::int64_t most = 0, across = 0;
    for (const std::int64_t words : change) most = std::max(most, across += words);
    return most;
  }

  [[nodiscard]] std::int64_t register_elements(std::uint64_t axes) const {
    std::int64_t count = 1;
    for (std::size_t a = 0; a < axis_count(); ++a) {
      if (has(axes, a)) count *= axis(a).at(Level::vector) * axis(a).at(Level::reg);
    }
    return count;
  }

  GroupDeriver& context_;
  const GroupStructure& structure_;
  const ItemFlow& flow_;
  const Schedule& schedule_;
  const ScalarProgram& program_;
  GroupProgram group_;
  const GroupDeriver::Division* division_ = nullptr;
};

GroupDeriver::GroupDeriver(GroupStructure structure) : structure_(std::move(structure)), flow_(structure_) {}

Result<GroupProgram> GroupDeriver::derive(const GroupMapping& mapping, const Schedule& schedule,
                                          std::int64_t partials) {
  return GroupDerivation(*this, mapping, schedule, partials).derive();
}

Result<GroupProgram> derive_group(const GroupStructure& structure, const GroupMapping& mapping,
                                  const Schedule& schedule, std::int64_t partials) {
  return GroupDeriver(structure).derive(mapping, schedule, partials);
}

}  // namespace stitch::kernel
