#include "kernel/program/retention.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "kernel/program/legality.h"
#include "kernel/structure/items.h"

namespace stitch::kernel {
namespace {

/// Whether two expressions of the same axes are the same, by how they are made; what is loaded is never the same.
bool is_same(const ScalarProgram& a, Index of_a, const ScalarProgram& b, Index of_b) {
  const IndexPool &in_a = a.pool(), &in_b = b.pool();
  if (in_a.kind(of_a) != in_b.kind(of_b)) return false;
  switch (in_a.kind(of_a)) {
    case IndexPool::Kind::constant: return in_a.constant_part(of_a) == in_b.constant_part(of_b);
    case IndexPool::Kind::variable: {
      const auto position = [](const ScalarProgram& program, Index variable) {
        return std::ranges::find(program.axes().variables, variable) - program.axes().variables.begin();
      };
      return position(a, of_a) == position(b, of_b) && a.dynamic_item(of_a) < 0 && b.dynamic_item(of_b) < 0;
    }
    case IndexPool::Kind::sum: {
      const auto terms_a = in_a.terms(of_a), terms_b = in_b.terms(of_b);
      if (in_a.constant_part(of_a) != in_b.constant_part(of_b)) return false;
      return std::ranges::equal(terms_a, terms_b, [&](const IndexPool::Term& x, const IndexPool::Term& y) {
        return x.coefficient == y.coefficient && is_same(a, x.atom, b, y.atom);
      });
    }
    case IndexPool::Kind::quotient:
    case IndexPool::Kind::remainder:
      return in_a.divisor(of_a) == in_b.divisor(of_b) && is_same(a, in_a.dividend(of_a), b, in_b.dividend(of_b));
  }
  return false;
}

bool has_same_axes(const ScalarProgram& a, const ScalarProgram& b) {
  return a.axes().axes == b.axes().axes && a.axes().extents == b.axes().extents;
}

/// Whether two loads of groups with the same axes load the same elements, for the same indices.
bool is_same_load(const ScalarProgram& a, const Item& x, const ScalarProgram& b, const Item& y) {
  return x.kind == Item::Kind::load && y.kind == Item::Kind::load && x.buffer == y.buffer && x.dtype == y.dtype &&
         x.axes == y.axes && is_same(a, x.index, b, y.index);
}

/// Whether the group's threads load in the loops and registers of its mapping.
bool takes_any_mapping(const GroupStructure& group) {
  return std::ranges::none_of(group.anchors, &Anchor::has_own_loops);
}

/// Whether an input's element is loaded wherever the axes are in range.
bool is_plain(const Item& item) {
  return item.kind == Item::Kind::load && item.buffer.kind == Buffer::Kind::input && item.guard < 0;
}

/// The axes along which a mapping has more than one element.
AxisSet spread(const GroupProgram& group) {
  AxisSet axes;
  for (int a = 0; a < std::ssize(group.mapping.axes); ++a) {
    if (group.mapping.axes[a].covered() > 1) axes.insert(a);
  }
  return axes;
}

/// Of the axes of an item, those along which it differs within a slab.
AxisSet in_slab(const GroupProgram& group, const Item& item) {
  const int axis = group.structure.slab_axis;
  return axis < 0 ? item.axes : item.axes - AxisSet::of(axis);
}

/// Whether a group loads an item once in each round, into registers or shared memory.
bool is_loaded_once(const GroupProgram& group, ItemId id) {
  int sweeps = 0, early = 0;
  for (const Sweep& sweep : group.sweeps) {
    sweeps += std::ranges::count(sweep.body, id) + std::ranges::count(sweep.uniform, id);
    early += std::ranges::count(sweep.early, id);
  }
  return sweeps == 1 && early == 1 && std::ranges::count(group.hoisted, id) == 0;
}

/// Whether an item is loaded before its round begins, so that the load is made wherever the round finds it.
bool is_loaded_ahead(const GroupProgram& group, ItemId id) {
  return group.ahead.contains(id) ||
         std::ranges::any_of(group.sweeps, [&](const Sweep& sweep) { return sweep.ahead.contains(id); });
}

bool is_held_in_shared(const GroupProgram& group, ItemId id) {
  const auto held = std::ranges::find(group.held, id, &HeldItem::item);
  return held != group.held.end() && held->place == Hold::shared;
}

/// Whether a thread of `later` finds its elements where it left them in `first`, round for round.
bool finds_its_own(const GroupProgram& first, const GroupProgram& later, ItemId item) {
  if (first.mapping.axes != later.mapping.axes || first.mapping.vector_axis != later.mapping.vector_axis) return false;
  if (first.shift || later.shift || !later.outer_loops.contains_all(first.outer_loops)) return false;
  return first.inner_loops == later.inner_loops || !is_held_in_shared(later, item);
}

class Retainer {
 public:
  explicit Retainer(KernelProgram& kernel) : kernel_(kernel) {}

  void retain(std::int64_t bytes) {
    std::vector<Shared> all = shared_loads();
    std::ranges::stable_sort(all, std::ranges::greater(), [](const Shared& load) { return load.uses.size(); });
    std::int64_t offset = 0;
    for (const Shared& load : all) {
      const Use& first = load.uses.front();
      const GroupProgram& group = *first.group;
      const std::int64_t tile_rounds =
          (kernel_.phases[first.phase].tiles + kernel_.clusters() - 1) / kernel_.clusters();
      const std::int64_t round = round_bytes(group, first.item);
      const std::int64_t rounds = std::min((bytes - offset) / round, tile_rounds * group.turns(group.outer_loops));
      if (rounds < 1) continue;
      const double share = share_of(kernel_.phases[first.phase].tiles, group.turns(group.outer_loops), rounds);
      for (const Use& use : load.uses) {
        use.group->retained.push_back(
            {use.item, use.group == &group, group.outer_loops, group.inner_loops, rounds, round, offset, share});
      }
      offset += rounds * round;
    }
    if (offset > 0) kernel_.shared_bytes = resident_offset(kernel_) + offset;
  }

 private:
  struct Use {
    std::size_t phase = 0;
    GroupProgram* group = nullptr;
    ItemId item = -1;
  };
  /// A load that several phases make alike.
  struct Shared {
    std::vector<Use> uses;
  };

  [[nodiscard]] std::vector<Shared> shared_loads() {
    std::vector<Shared> all;
    for (std::size_t p = 0; p < kernel_.phases.size(); ++p) {
      if (kernel_.phases[p].groups.size() != 1 || kernel_.runs_alone(p)) continue;
      GroupProgram& group = kernel_.phases[p].groups[0];
      if (!takes_any_mapping(group.structure)) continue;
      const ScalarProgram& program = *group.structure.program;
      for (const ItemId id : program.item_ids()) {
        const Use use{p, &group, id};
        const Item& item = program.at(use.item);
        if (!is_plain(item) || program.loaded_bytes(item) < least_reread || in_slab(group, item) != spread(group) ||
            !is_loaded_once(group, use.item))
          continue;
        const auto same = std::ranges::find_if(all, [&](const Shared& load) {
          const Use& first = load.uses.front();
          const ScalarProgram& other = *first.group->structure.program;
          return first.phase != p && !is_loaded_ahead(group, use.item) &&
                 finds_its_own(*first.group, group, use.item) && has_same_axes(other, program) &&
                 is_same_load(other, other.at(first.item), program, item);
        });
        if (same != all.end())
          same->uses.push_back(use);
        else
          all.push_back({{use}});
      }
    }
    std::erase_if(all, [](const Shared& load) { return load.uses.size() < 2; });
    return all;
  }

  /// Of what all blocks load of so many tiles, each of so many turns, the share in their first `rounds`.
  [[nodiscard]] double share_of(std::int64_t tiles, std::int64_t turns, std::int64_t rounds) const {
    const std::int64_t takers = kernel_.clusters(), whole = std::min(tiles, rounds / turns * takers);
    const std::int64_t begun = std::min(tiles - whole, takers);
    const double rest = static_cast<double>(rounds % turns) / turns;
    return (whole + begun * rest) / tiles;
  }

  [[nodiscard]] static std::int64_t round_bytes(const GroupProgram& group, ItemId id) {
    return (group.round_elements() * held_bytes(group.structure.program->at(id)) + 15) / 16 * 16;
  }

  KernelProgram& kernel_;
};

}  // namespace

std::vector<std::size_t> followers(const KernelStructure& structure, std::size_t leader) {
  std::vector<std::size_t> phases;
  const auto can = [&](std::size_t p) {
    return structure.phases[p].groups.size() == 1 && takes_any_mapping(structure.phases[p].groups[0]);
  };
  if (!can(leader)) return phases;
  const ScalarProgram& led = *structure.phases[leader].groups[0].program;
  for (std::size_t p = leader + 1; p < structure.phases.size(); ++p) {
    if (!can(p)) continue;
    const ScalarProgram& program = *structure.phases[p].groups[0].program;
    if (!has_same_axes(led, program)) continue;
    const bool alike = std::ranges::any_of(program.items(), [&](const Item& item) {
      return is_plain(item) && program.loaded_bytes(item) >= least_reread &&
             std::ranges::any_of(led.items(), [&](const Item& other) {
               return other.guard < 0 && is_same_load(led, other, program, item);
             });
    });
    if (alike) phases.push_back(p);
  }
  return phases;
}

std::int64_t room_to_retain(const KernelProgram& kernel, const DeviceSpec& device) {
  const std::int64_t per_sm = (kernel.blocks + device.sm_count - 1) / device.sm_count;
  const std::int64_t most =
      std::min(device.shared_per_block, device.shared_per_sm / per_sm - device.shared_reserved_per_block);
  // What the kernel has besides, and units of 128 bytes.
  constexpr std::int64_t slack = 256;
  return most - resident_offset(kernel) - slack;
}

void retain(KernelProgram& kernel, std::int64_t bytes) {
  for (PhaseProgram& phase : kernel.phases) {
    for (GroupProgram& group : phase.groups) group.retained.clear();
  }
  kernel.schedule.retained = bytes;
  kernel.shared_bytes = kernel.held_bytes() + 2 * kernel.exchange_bytes();
  Retainer(kernel).retain(bytes);
}

}  // namespace stitch::kernel
