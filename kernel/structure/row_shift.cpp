#include "kernel/structure/row_shift.h"

#include <algorithm>

namespace stitch::kernel {
namespace {

/// Whether columns stay in their row.
bool rows_are_apart(const Anchor& anchor, int axis) {
  switch (anchor.kind) {
    case Anchor::Kind::store:
    case Anchor::Kind::atomic: return true;
    case Anchor::Kind::reduce:
    case Anchor::Kind::partial: return !anchor.axes.contains(axis) || anchor.reduced.contains(axis);
    case Anchor::Kind::scan:
    case Anchor::Kind::sort:
    case Anchor::Kind::scatter: break;
  }
  return false;
}

}  // namespace

Misalignment modulo(const Misalignment& rest, std::int64_t modulus) {
  Misalignment smaller{rest.constant % modulus, {}};
  for (const IndexPool::Term& term : rest.terms) {
    if (term.coefficient % modulus != 0) smaller.terms.push_back({term.coefficient % modulus, term.atom});
  }
  return smaller;
}

std::optional<Misalignment> misalignment(const ScalarProgram& program, Index address, int axis, std::int64_t modulus) {
  const IndexPool& pool = program.pool();
  if (pool.is_constant(address)) return std::nullopt;
  const Index along = program.axes().variables[axis];
  const auto within = [&](std::int64_t n) { return ((n % modulus) + modulus) % modulus; };
  Misalignment rest;
  if (pool.kind(address) == IndexPool::Kind::sum) rest.constant = within(pool.constant_part(address));
  bool walks = false;
  for (const IndexPool::Term& term : pool.terms(address)) {
    if (term.atom == along) {
      if (term.coefficient != 1) return std::nullopt;
      walks = true;
    } else if (program.axes_of(term.atom).contains(axis)) {
      return std::nullopt;
    } else if (const std::int64_t coefficient = within(term.coefficient); coefficient != 0) {
      rest.terms.push_back({coefficient, term.atom});
    }
  }
  if (!walks) return std::nullopt;
  return rest;
}

AxisSet axes_of(const ScalarProgram& program, const Misalignment& rest) {
  AxisSet axes;
  for (const IndexPool::Term& term : rest.terms) axes |= program.axes_of(term.atom);
  return axes;
}

std::optional<Misalignment> row_shift(const GroupStructure& group, int axis, std::int64_t vector) {
  const ScalarProgram& program = *group.program;
  if (program.axes().extents[axis] >= (std::int64_t{1} << 31) - vector) return std::nullopt;
  if (!std::ranges::all_of(group.anchors, [&](const Anchor& anchor) { return rows_are_apart(anchor, axis); }))
    return std::nullopt;
  double most = 0;
  std::optional<Misalignment> shift;
  const auto consider = [&](Index address, graph::DType dtype, AxisSet axes) {
    double bytes = graph::byte_size(dtype);
    for (const int a : axes) bytes *= program.axes().extents[a];
    if (bytes <= most) return;
    const std::optional<Misalignment> rest = misalignment(program, address, axis, vector);
    if (!rest) return;
    // Where a row begins must be known before anything is loaded.
    for (const IndexPool::Term& term : rest->terms) {
      if (!program.items_of(term.atom).empty()) return;
    }
    most = bytes;
    shift = rest;
  };
  for (const Item& item : program.items()) {
    if (item.kind == Item::Kind::load && item.guard < 0) consider(item.index, item.dtype, item.axes);
  }
  for (const Anchor& anchor : group.anchors) {
    if (anchor.kind == Anchor::Kind::store && anchor.guard < 0)
      consider(anchor.addresses[0], anchor.dtype, anchor.axes);
  }
  if (shift && shift->terms.empty()) return std::nullopt;
  return shift;
}

}  // namespace stitch::kernel
