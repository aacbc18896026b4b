#include "kernel/program/loads_ahead.h"

#include <algorithm>
#include <utility>

#include "kernel/pipeline/pipelining.h"

namespace stitch::kernel {
namespace {

/// The loop that opens last of those over `axes`; -1: there is none of several turns.
int innermost(const GroupProgram& group, AxisSet axes) {
  int last = -1;
  for (const int a : axes) last = a;
  return last >= 0 && group.extent(last, Level::loop) > 1 ? last : -1;
}

constexpr std::int64_t warp_size = 32;
constexpr std::int64_t bulk_alignment = 16;  ///< bytes, of both addresses and the number of bytes (PTX ISA)

/// How many sweeps load an item.
std::ptrdiff_t times_loaded(const GroupProgram& group, ItemId id) {
  std::ptrdiff_t times = 0;
  for (const Sweep& sweep : group.sweeps)
    times += std::ranges::count(sweep.body, id) + std::ranges::count(sweep.uniform, id);
  return times;
}

/// Bytes in shared memory of a thread's elements, all threads' together.
std::int64_t bytes_of_block(const Item& item, std::int64_t elements_of_thread, int threads) {
  constexpr std::int64_t alignment = 16;
  const std::int64_t bytes = elements_of_thread * graph::byte_size(item.dtype) * threads;
  return (bytes + alignment - 1) / alignment * alignment;
}

class AheadChoice {
 public:
  AheadChoice(const GroupStructure& structure, GroupProgram& group) : program_(*structure.program), group_(group) {}

  void choose_outer() {
    LoadsAhead& ahead = group_.ahead;
    ahead.axis = innermost(group_, group_.outer_loops);
    ahead.stages = group_.mapping.stages;
    ahead.bulk = group_.mapping.bulk_stages;
    if (!has_turns(ahead)) return;
    for (Sweep& sweep : group_.sweeps) {
      for (const ItemId id : sweep.uniform) consider_row(id);
      for (const ItemId id : sweep.early) {
        consider_row(id);
        // It waits where it was copied to, and is copied no second time.
        const bool there = std::ranges::count(sweep.copied, id) > 0;
        if (ahead.stages_of(id) != nullptr && is_held_in_shared(id) && !there) sweep.copied.push_back(id);
      }
    }
  }

  void choose_inner(const GroupStructure& structure, Sweep& sweep) {
    AxisSet axes;
    for (const ItemId id : sweep.body) {
      if (!is_inline(program_, id)) axes |= program_.at(id).axes;
    }
    for (const int a : sweep.anchors) axes |= structure.anchors[a].axes;
    for (const HeldItem& held : group_.held) {
      const int number = static_cast<int>(&sweep - group_.sweeps.data());
      if (held.place == Hold::shared && held.from < number && held.until >= number) axes |= program_.at(held.item).axes;
    }
    sweep.ahead.axis = innermost(group_, axes & group_.inner_loops);
    sweep.ahead.stages = group_.mapping.stages;
    if (!has_turns(sweep.ahead)) return;
    for (const ItemId id : sweep.early) {
      const bool copied = std::ranges::count(sweep.copied, id) > 0;
      if (copied || !is_known_ahead(id, sweep.ahead.axis)) continue;
      const Item& item = program_.at(id);
      // What is held in shared memory besides would go there twice.
      if (is_copyable(id) && !is_held_in_shared(id)) {
        sweep.ahead.staged.push_back({id, bytes_of_block(item, group_.register_elements(item.axes), group_.threads)});
      } else {
        sweep.ahead.loads.push_back(id);
      }
    }
  }

 private:
  /// Whether there is a loop, with a turn for every stage.
  [[nodiscard]] bool has_turns(const LoadsAhead& ahead) const {
    return ahead.axis >= 0 && group_.extent(ahead.axis, Level::loop) >= ahead.stages;
  }

  /// Whether an item can be loaded when only the turn of the loop over `axis` is known.
  [[nodiscard]] bool is_known_ahead(ItemId id, int axis) const {
    const Item& item = program_.at(id);
    const bool there = item.buffer.kind == Buffer::Kind::input || item.buffer.kind == Buffer::Kind::scratch;
    return item.kind == Item::Kind::load && there && item.guard < 0 && item.axes.contains(axis) &&
           program_.items_of(item.index).empty();
  }

  /// Whether it can go to shared memory by itself: whole accesses of sizes that cp.async has, of memory that no block
  /// of this launch writes.
  [[nodiscard]] bool is_copyable(ItemId id) const {
    const Item& item = program_.at(id);
    if (!group_.mapping.shared_stages || group_.shift || item.buffer.kind != Buffer::Kind::input) return false;
    if (!item.axes.meets(group_.varying)) return false;  // one for all of a thread's elements
    const int v = group_.mapping.vector_axis;
    const std::int64_t run = v >= 0 && item.axes.contains(v) ? group_.vector_extent() : 1;
    const std::int64_t width = group_.accesses[id].width, bytes = width * graph::byte_size(item.dtype);
    if (run % width != 0 || (run > 1 && group_.extents[v] % run != 0)) return false;
    if (group_.mapping.bulk_stages) return bytes == bulk_alignment && is_run_of_warp(item);
    return bytes == 4 || bytes == 8 || bytes == 16;
  }

  /// Whether the vectors of a warp's lanes are one run of memory, all of which is there.
  [[nodiscard]] bool is_run_of_warp(const Item& item) const {
    const int v = group_.mapping.vector_axis;
    if (v < 0 || !item.axes.contains(v) || group_.extent(v, Level::lane) != warp_size) return false;
    const bool whole = group_.mapping.axes[v].covered() == group_.extents[v] && group_.threads % warp_size == 0;
    return whole && program_.counts_along(item.index, v, warp_size * group_.vector_extent());
  }

  /// Elements of a warp that one bulk copy brings: of one vector of its lanes, or of all that lie behind one another.
  [[nodiscard]] std::int64_t run_of_warp(const Item& item) const {
    const int v = group_.mapping.vector_axis;
    const std::int64_t vectors = warp_size * group_.vector_extent(), row = vectors * group_.extent(v, Level::reg);
    int last = -1;
    for (const int a : item.axes) last = a;
    const bool joined = last == v && group_.mapping.axes[v].step(Level::reg) == vectors &&
                        group_.extent(v, Level::loop) == 1 && program_.counts_along(item.index, v, row);
    return joined ? row : vectors;
  }

  [[nodiscard]] bool is_held_in_shared(ItemId id) const {
    return std::ranges::any_of(group_.held,
                               [id](const HeldItem& held) { return held.item == id && held.place == Hold::shared; });
  }

  void consider_row(ItemId id) {
    // What several sweeps load anew has no registers to stay in.
    if (!is_known_ahead(id, group_.ahead.axis) || times_loaded(group_, id) != 1) return;
    const Item& item = program_.at(id);
    const bool loops = item.axes.meets(group_.inner_loops);
    if (is_copyable(id) && (!loops || is_held_in_shared(id))) {
      group_.ahead.staged.push_back({id, bytes_of_block(item, group_.elements_per_thread(item.axes), group_.threads)});
      if (group_.ahead.bulk) group_.ahead.staged.back().run = run_of_warp(item);
    } else if (!loops && group_.inner_loops.empty()) {
      group_.ahead.loads.push_back(id);
    }
  }

  const ScalarProgram& program_;
  GroupProgram& group_;
};

Status check_stages(const GroupMapping& mapping) {
  if (mapping.bulk_stages && !mapping.shared_stages)
    return make_error(ErrorKind::constraint, "bulk copies go to stages in shared memory");
  constexpr int most_in_registers = 2, most_in_shared = 4;
  const int most = mapping.shared_stages ? most_in_shared : most_in_registers;
  if (mapping.stages <= most) return {};
  return make_error(ErrorKind::constraint, "{} stages of loads in {}, at most {}", mapping.stages,
                    mapping.shared_stages ? "shared memory" : "registers", most);
}

}  // namespace

Status choose_ahead(const GroupStructure& structure, GroupProgram& group, const Schedule& schedule) {
  STITCH_TRY(check_stages(group.mapping));
  if (schedule.rows > 0) return make_error(ErrorKind::constraint, "a turn of a recurrent kernel has no next row");
  if (structure.anchors[0].has_own_loops())
    return make_error(ErrorKind::constraint, "scans, sorts and scatters have loops of their own");
  AheadChoice choice(structure, group);
  // Rows that loops walk within a sweep are a turn's where a stage has a whole one of them.
  if (group.inner_loops.empty() || group.mapping.shared_stages) choice.choose_outer();
  bool any = !group.ahead.empty();
  if (group.mapping.bulk_stages) {
    // A barrier's phases are counted by the turns of one loop, which begins with new barriers.
    const bool alone = any && group.turns(group.outer_loops) == group.extent(group.ahead.axis, Level::loop);
    // A warp that has no elements would wait for bytes that it does not ask for.
    if (group.threads < schedule.threads)
      return make_error(ErrorKind::constraint, "bulk copies are asked for by all warps of a block, or none");
    if (alone && !group.ahead.staged.empty()) return {};
    return make_error(ErrorKind::constraint,
                      "no loop over rows has loads whose run in a warp is whole, contiguous and of 16-byte accesses");
  }
  if (!any && !group.inner_loops.empty()) {
    for (Sweep& sweep : group.sweeps) {
      choice.choose_inner(structure, sweep);
      any = any || !sweep.ahead.empty();
    }
  }
  if (!any) return make_error(ErrorKind::constraint, "no loop has loads that can be made a turn ahead");
  if (!group.mapping.shared_stages) return {};
  const bool staged = !group.ahead.staged.empty() ||
                      std::ranges::any_of(group.sweeps, [](const Sweep& sweep) { return !sweep.ahead.staged.empty(); });
  return staged ? Status() : make_error(ErrorKind::constraint, "no loop has loads that are copied to shared memory");
}

void place_stages(GroupProgram& group) {
  // Each loop's apart: a thread reads what it asked for itself, so that no barrier is between one sweep and the next,
  // and a warp that is ahead would write where another one still reads.
  const auto place = [&](LoadsAhead& ahead) {
    for (StagedLoad& load : ahead.staged) {
      load.shared_offset = group.held_bytes;
      group.held_bytes += ahead.stages * load.stage_bytes;
    }
    if (!ahead.bulk) return;
    constexpr std::int64_t barrier_bytes = 8;
    ahead.barriers_offset = group.held_bytes;
    group.held_bytes += (ahead.stages * group.threads / warp_size * barrier_bytes + bulk_alignment - 1) /
                        bulk_alignment * bulk_alignment;
  };
  place(group.ahead);
  for (Sweep& sweep : group.sweeps) place(sweep.ahead);
}

Result<pipeline::TileNest> staged_loop(std::string loop, std::int64_t turns, int stages) {
  pipeline::TileNest nest;
  const int memory = nest.add_buffer("memory", pipeline::Scope::device);
  const int ring = nest.add_buffer("ring", pipeline::Scope::shared);
  const int number = nest.add_loop(std::move(loop), turns);
  const Index turn = nest.loops[number].variable, zero = nest.pool.constant(0);
  pipeline::TileStatement compute;
  compute.name = "turn";
  compute.reads = {{ring, turn, zero}};
  nest.body = {
      pipeline::tile_loop(number, {pipeline::tile_copy({ring, turn, zero}, {memory, turn, zero}), std::move(compute)})};
  return pipeline::pipelined(std::move(nest), {1, stages});
}

}  // namespace stitch::kernel
