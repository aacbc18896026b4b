#include "kernel/structure/slab_separation.h"

#include <algorithm>
#include <map>

namespace stitch::kernel {
namespace {

/// Position of an axis in a group; -1: it is not along it.
int position_of(const GroupStructure& group, int axis) {
  const std::vector<int>& axes = group.program->axes().axes;
  const auto found = std::ranges::find(axes, axis);
  return found == axes.end() ? -1 : static_cast<int>(found - axes.begin());
}

}  // namespace

bool keeps_axis(const GroupStructure& group, int axis) {
  const int position = position_of(group, axis);
  if (position < 0) return false;
  return std::ranges::all_of(group.anchors, [&](const Anchor& anchor) {
    const bool plain = anchor.kind == Anchor::Kind::store || anchor.kind == Anchor::Kind::reduce ||
                       anchor.kind == Anchor::Kind::partial;
    return plain && anchor.axes.contains(position) && !anchor.reduced.contains(position);
  });
}

std::optional<std::int64_t> slab_step(const ScalarProgram& program, Index address, int position) {
  const IndexPool& pool = program.pool();
  const Index slab = program.axes().variables[position];
  std::int64_t step = 0;
  for (const IndexPool::Term& term : pool.terms(address)) {
    if (term.atom == slab) {
      step = term.coefficient;
    } else if (pool.depends_on(term.atom, slab)) {
      return std::nullopt;
    }
  }
  if (step < 1) return std::nullopt;
  const std::int64_t all = step * program.axes().extents[position];
  std::int64_t low = 0, high = 0;
  const auto add = [&](std::int64_t coefficient, std::int64_t least, std::int64_t most) {
    if (coefficient % all == 0) return;
    low += std::min(coefficient * least, coefficient * most);
    high += std::max(coefficient * least, coefficient * most);
  };
  if (pool.kind(address) == IndexPool::Kind::sum) add(pool.constant_part(address), 1, 1);
  for (const IndexPool::Term& term : pool.terms(address)) {
    if (term.atom != slab) add(term.coefficient, pool.low(term.atom), pool.high(term.atom));
  }
  return low >= 0 && high < step ? std::optional(step) : std::nullopt;
}

Status separate_slabs(KernelStructure& structure, int axis) {
  /// Where a buffer's elements of one slab are, from those of the one before.
  std::map<Buffer, std::optional<std::int64_t>> stored;
  for (PhaseStructure& phase : structure.phases) {
    for (GroupStructure& group : phase.groups) {
      if (!keeps_axis(group, axis))
        return make_error(ErrorKind::constraint, "a group does not keep axis {}, along which slabs are", axis);
      group.slab_axis = position_of(group, axis);
      const ScalarProgram& program = *group.program;
      for (const Item& item : program.items()) {
        if (item.kind != Item::Kind::load || !stored.contains(item.buffer)) continue;
        const std::optional<std::int64_t> step = slab_step(program, item.index, group.slab_axis);
        if (!step || step != stored.at(item.buffer))
          return make_error(ErrorKind::constraint, "a phase reads what an earlier one stored of another slab");
      }
    }
    for (const GroupStructure& group : phase.groups) {
      for (const Anchor& anchor : group.anchors) {
        for (const Buffer& buffer : anchor.buffers)
          stored[buffer] = slab_step(*group.program, anchor.addresses.back(), group.slab_axis);
      }
    }
  }
  return {};
}

}  // namespace stitch::kernel
