#include "kernel/program/group_deriver.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "kernel/program/early_loads.h"
#include "kernel/program/held_places.h"
#include "kernel/program/hoisting.h"
#include "kernel/program/loads_ahead.h"
#include "kernel/program/reduction_plan.h"
#include "kernel/program/sort_plan.h"
#include "kernel/program/update_list.h"
#include "kernel/structure/items.h"

namespace stitch::kernel {
namespace {

template <class... Args>
Error constraint(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorKind::constraint, format, std::forward<Args>(args)...);
}

/// Registers that hold values across a boundary between sweeps, where they are most.
std::int64_t most_across(const ScalarProgram& program, const GroupProgram& group, int sweep_count) {
  std::vector<std::int64_t> change(sweep_count + 1, 0);
  for (const HeldItem& held : group.held) {
    if (held.place != Hold::registers) continue;
    const Item& item = program.at(held.item);
    const std::int64_t words = (group.elements_per_thread(item.axes) * held_bytes(item) + 3) / 4;
    change[held.from] += words;
    change[held.until] -= words;
  }
  std::int64_t most = 0, across = 0;
  for (const std::int64_t words : change) {
    across += words;
    most = std::max(most, across);
  }
  return most;
}

/// Registers of what is loaded of an item in a turn of all loops.
std::int64_t load_registers(const ScalarProgram& program, const GroupProgram& group, ItemId id) {
  const Item& item = program.at(id);
  return (group.register_elements(item.axes) * held_bytes(item) + 3) / 4;
}

/// Registers for what is asked for a turn ahead: the next turn's values, and an address for each access.
std::int64_t next_registers(const ScalarProgram& program, const GroupProgram& group, ItemId id) {
  constexpr std::int64_t of_address = 2;
  const std::int64_t elements = group.register_elements(program.at(id).axes);
  const std::int64_t width = std::min<std::int64_t>(group.accesses[id].width, elements);
  return load_registers(program, group, id) + of_address * (elements / width);
}

/// Registers for addresses while copies to stages are asked for: of one load after the other.
std::int64_t stage_registers(const LoadsAhead& ahead) {
  constexpr std::int64_t of_addresses = 6;  // in device and shared memory, and the stage's number (guess)
  return ahead.staged.empty() ? 0 : of_addresses;
}

/// Registers for the next turn of the outer loops, and for what of this one's is not counted where it is loaded and
/// used. Of narrow values that several sweeps widen the compiler keeps the wide ones besides.
std::int64_t registers_ahead(const ScalarProgram& program, const GroupProgram& group,
                             const std::vector<bool>& is_held) {
  constexpr std::int64_t wide = 4;  // bytes
  std::int64_t registers = stage_registers(group.ahead);
  for (const ItemId id : group.ahead.loads) {
    registers += next_registers(program, group, id);
    const auto held = std::ranges::find(group.held, id, &HeldItem::item);
    const bool in_registers = held != group.held.end() && held->place == Hold::registers;
    const bool early = std::ranges::count(group.sweeps[0].early, id) > 0;
    if (!in_registers && (is_held[id] || !early)) registers += load_registers(program, group, id);
    if (in_registers && held_bytes(program.at(id)) < wide)
      registers += group.register_elements(program.at(id).axes) - load_registers(program, group, id);
  }
  return registers;
}

/// Registers that a sweep takes beside what is held and accumulated.
std::int64_t registers_of(const ScalarProgram& program, const GroupProgram& group, const Sweep& sweep,
                          const std::vector<bool>& is_held) {
  std::int64_t loads = 0;
  bool heavy = false;
  for (const ItemId id : sweep.early) {
    if (!is_held[id]) loads += load_registers(program, group, id);
  }
  for (const ItemId id : sweep.ahead.loads) loads += next_registers(program, group, id);
  loads += stage_registers(sweep.ahead);
  for (const ItemId id : sweep.body) {
    const Item& item = program.at(id);
    heavy = heavy || (item.kind == Item::Kind::compute && graph::info(item.op).cost == graph::OpCost::expensive);
  }
  const std::int64_t uniform = std::min<std::int64_t>(std::ssize(sweep.uniform), 8);
  return loads + (heavy ? 14 : 8) + uniform;
}

/// Registers a thread needs, in 32-bit words. A rough sum of what must be alive at once; the compiler's report replaces
/// it once there is one.
void estimate_registers(const GroupStructure& structure, const std::vector<bool>& is_held, GroupProgram& group) {
  constexpr std::int64_t always = 14, most = 1 << 16;
  const ScalarProgram& program = *structure.program;
  for (const ItemId id : group.hoisted) {
    const Item& item = program.at(id);
    group.hoisted_registers += (group.elements_per_thread(item.axes) * held_bytes(item) + 3) / 4;
  }
  std::int64_t multiplying = 0;  // what tensor cores' sums take until they are in shared memory
  for (const StateProducts& product : group.products) {
    group.hoisted_registers += product.fragment_registers();
    multiplying = std::max(multiplying, product.working_registers());
  }
  const std::int64_t held = most_across(program, group, structure.sweep_count) + group.hoisted_registers;
  std::int64_t accumulators = 0, body = 0;
  for (const ReductionPlan& plan : group.reductions) accumulators += plan.kept_per_thread;
  for (const Sweep& sweep : group.sweeps) body = std::max(body, registers_of(program, group, sweep, is_held));
  const std::int64_t ahead = registers_ahead(program, group, is_held);
  const std::int64_t with_threads = always + held + accumulators + body + ahead;
  group.registers = std::min(std::max(with_threads, always + group.hoisted_registers + multiplying), most);
}

}  // namespace

/// Builds one GroupProgram; each step below fills the fields that its name says, from those before it.
class GroupDerivation {
 public:
  GroupDerivation(GroupDeriver& context, const GroupMapping& mapping, const Schedule& schedule, std::int64_t partials)
      : context_(context), structure_(context.structure_), schedule_(schedule) {
    group_.mapping = mapping;
    group_.extents = structure_.program->axes().extents;
    if (structure_.partial_axis >= 0) group_.extents[structure_.partial_axis] = partials;
    if (structure_.slab_axis >= 0) group_.extents[structure_.slab_axis] = 1;
  }

  Result<GroupProgram> derive() {
    if (group_.mapping.tensor_cores) STITCH_TRY(plan_products());
    STITCH_TRY(check_coverage());
    classify_axes();
    STITCH_TRY(shift_rows());
    STITCH_TRY(check_anchors());
    look_up_accesses();
    group_.hoisted = choose_hoisted(structure_, group_, schedule_);
    const std::vector<bool>& is_held = divide();
    if (!group_.products.empty()) leave_out_products();
    if (group_.mapping.stages > 1) STITCH_TRY(choose_ahead(structure_, group_, schedule_));
    STITCH_ASSIGN(group_.reductions, plan_reductions(structure_, group_));
    group_.exchange_bytes = exchange_bytes(structure_, group_.reductions);
    STITCH_TRY(place_held(structure_, group_));
    place_stages(group_);
    place_sums();
    estimate_registers(structure_, is_held, group_);
    if (structure_.anchors[0].kind == Anchor::Kind::sort) add_lines();
    group_.held_bytes += update_list(structure_, group_.mapping, schedule_.threads).shared_bytes();
    group_.structure = std::move(context_.structure_);
    return std::move(group_);
  }

 private:
  [[nodiscard]] int axis_count() const { return group_.extents.size(); }
  [[nodiscard]] const AxisMapping& axis(int a) const { return group_.mapping.axes[a]; }

  Status plan_products() {
    if (schedule_.rows == 0 || group_.mapping.axes.size() != group_.extents.size())
      return constraint("tensor cores take a group's sums in recurrent kernels only");
    STITCH_ASSIGN(group_.products, plan_state_products(structure_, group_.mapping, schedule_));
    for (const StateProducts& product : group_.products) contracted_.insert(product.depth_axis);
    return {};
  }

  /// What only products need is in no sweep.
  void leave_out_products() {
    const std::vector<bool> needed = needed_beside(group_.products, structure_);
    const auto is_left_out = [&](ItemId id) { return !needed[id]; };
    for (Sweep& sweep : group_.sweeps) {
      for (std::vector<ItemId>* items : {&sweep.uniform, &sweep.body, &sweep.early, &sweep.copied})
        std::erase_if(*items, is_left_out);
    }
    std::erase_if(group_.hoisted, is_left_out);
    std::erase_if(group_.held, [&](const HeldItem& held) { return is_left_out(held.item); });
  }

  /// Sums of tensor cores lie behind what is held.
  void place_sums() {
    for (StateProducts& product : group_.products) {
      product.shared_offset = group_.held_bytes;
      group_.held_bytes += product.sum_bytes();
    }
  }

  Status check_coverage() {
    const GroupMapping& mapping = group_.mapping;
    if (std::ssize(mapping.axes) != axis_count())
      return constraint("the mapping has {} axes, the group has {}", mapping.axes.size(), axis_count());
    std::int64_t clusters = 1, threads = 1;
    for (int a = 0; a < axis_count(); ++a) {
      if (contracted_.contains(a)) continue;
      const std::int64_t covered = axis(a).covered();
      const std::int64_t before = mapping.shifted && a == mapping.vector_axis ? group_.vector_extent() - 1 : 0;
      if (covered < before + group_.extents[a])
        return constraint("axis {} of extent {} is covered to {}", a, group_.extents[a] + before, covered);
      if (a == structure_.slab_axis && covered > 1)
        return constraint("axis {} is of slabs, of which a tile has one", a);
      clusters *= axis(a).at(Level::cluster);
      threads *= axis(a).threads();
      group_.tiles *= axis(a).at(Level::grid);
      if (axis(a).at(Level::vector) > 1 && a != mapping.vector_axis)
        return constraint("axis {} has vectors but is not the vector axis", a);
    }
    // Blocks left over would do the same tile, and race, unless each stores what it makes in its own shared memory.
    if (clusters != schedule_.cluster && (schedule_.rows == 0 || clusters != 1))
      return constraint("{} blocks per cluster, the launch has {}", clusters, schedule_.cluster);
    if (threads > schedule_.threads)
      return constraint("{} threads mapped, the block has {}", threads, schedule_.threads);
    group_.threads = threads;
    return {};
  }

  void classify_axes() {
    AxisSet reduced_here;
    for (const Anchor& anchor : structure_.anchors) {
      if (anchor.kind == Anchor::Kind::reduce) reduced_here |= anchor.reduced;
    }
    for (int a = 0; a < axis_count(); ++a) {
      if (axis(a).per_thread() > 1) group_.in_thread.insert(a);
      if (axis(a).at(Level::loop) > 1) (reduced_here.contains(a) ? group_.inner_loops : group_.outer_loops).insert(a);
    }
    group_.varying = group_.in_thread;
    for (const int a : group_.outer_loops) {
      if (axis(a).at(Level::vector) * axis(a).at(Level::reg) == 1) group_.varying.erase(a);
    }
    // The vector axis is the fastest digit of the thread index, then the axes from the innermost outwards.
    const int vector = group_.mapping.vector_axis;
    if (vector >= 0) group_.thread_order.push_back(vector);
    for (int a = axis_count(); a-- > 0;) {
      if (a != vector) group_.thread_order.push_back(a);
    }
  }

  /// Where a row begins is worked out once for each row that a thread takes, one after the other.
  Status shift_rows() {
    if (!group_.mapping.shifted) return {};
    const std::uint64_t vector = group_.vector_extent();
    if (schedule_.rows > 0 || vector < 2 || !std::has_single_bit(vector))
      return constraint("rows are shifted by parts of a vector of {}", vector);
    const int v = group_.mapping.vector_axis;
    const auto [entry, fresh] = context_.shifts_.try_emplace({v, vector});
    if (fresh) entry->second = row_shift(structure_, v, vector);
    group_.shift = entry->second;
    if (!group_.shift) return constraint("rows along axis {} cannot be shifted", v);
    for (const int a : axes_of(*structure_.program, *group_.shift)) {
      if (axis(a).at(Level::vector) * axis(a).at(Level::reg) > 1 || group_.inner_loops.contains(a))
        return constraint("a thread takes several rows of axis {} at once, which begin differently", a);
      if (group_.outer_loops.contains(a) && group_.outer_loops.contains(v))
        return constraint("rows of axis {} are walked within the loop along them", a);
    }
    return {};
  }

  Status check_anchors() {
    for (const Anchor& anchor : structure_.anchors) {
      if (anchor.kind != Anchor::Kind::reduce && anchor.kind != Anchor::Kind::partial) continue;
      for (int a = 0; a < axis_count(); ++a) {
        const bool reduced = anchor.reduced.contains(a);
        if (anchor.kind == Anchor::Kind::reduce && reduced && axis(a).at(Level::grid) > 1)
          return constraint("a reduction that must end in its tile spans {} tiles", axis(a).at(Level::grid));
        if (!anchor.axes.contains(a) || reduced) continue;
        // Accumulators live across these loops: one set per iteration would be needed.
        if (group_.inner_loops.contains(a))
          return constraint("a reduction keeps axis {}, which its sweep loops over", a);
        if (anchor.kind == Anchor::Kind::partial && group_.outer_loops.contains(a))
          return constraint("partial results keep axis {}, which the tile loops over", a);
      }
    }
    return {};
  }

  void look_up_accesses() {
    const int vector = group_.mapping.vector_axis;
    const auto [entry, fresh] =
        context_.accesses_.try_emplace({vector, group_.vector_extent(), group_.mapping.shifted});
    if (fresh) entry->second = find_accesses(structure_, vector, group_.vector_extent(), group_.shift);
    group_.accesses = entry->second.loads;
    group_.stores = entry->second.stores;
  }

  /// Fills `held` and `sweeps`; whether each item is held.
  const std::vector<bool>& divide() {
    const auto [entry, fresh] = context_.divisions_.try_emplace({group_.mapping.hold, group_.varying, group_.hoisted});
    SweepDivision& division = entry->second;
    if (fresh)
      division = divide_into_sweeps(context_.flow_, structure_, group_.mapping.hold, group_.varying, group_.hoisted);
    group_.held = division.held;
    group_.sweeps = division.sweeps;
    for (int number = 0; number < std::ssize(group_.sweeps); ++number)
      choose_early(context_.flow_, structure_, group_, schedule_, division.is_held, number, group_.sweeps[number]);
    return division.is_held;
  }

  /// What a sort's threads have of their lines in registers, and the lines in shared memory.
  void add_lines() {
    constexpr std::int64_t besides = 8;  // addresses, places and a comparison under way (guess)
    const SortPlan plan = sort_plan(structure_, group_.mapping, schedule_.threads);
    group_.held_bytes = (plan.shared_bytes() + 15) / 16 * 16;
    group_.registers += static_cast<int>(plan.elements * plan.word_bytes() / 4 + besides);
  }

  GroupDeriver& context_;
  const GroupStructure& structure_;
  const Schedule& schedule_;
  AxisSet contracted_;  ///< by tensor cores
  GroupProgram group_;
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
