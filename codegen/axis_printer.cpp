#include "codegen/axis_printer.h"

#include <string_view>

namespace stitch::codegen {

using kernel::AxisSet;
using kernel::Level;

std::string offset_text(std::int64_t offset) { return offset == 0 ? "" : fmt::format(" + {}", offset); }

std::string both(const std::string& a, const std::string& b) { return a.empty() || b.empty() ? a + b : a + " && " + b; }

std::string AxisPrinter::name(int axis) const {
  constexpr std::string_view letters = "ijklmnpqrs";
  return axis < std::ssize(letters) ? std::string(1, letters[axis]) : fmt::format("x{}", axis);
}

std::string AxisPrinter::digit(int axis, Level level) const {
  if (group_.extent(axis, level) == 1) return "0";
  return fmt::format("{}_{}", name(axis), to_string(level));
}

std::string AxisPrinter::thread_digit(int axis) const {
  const std::int64_t lanes = group_.extent(axis, Level::lane), warps = group_.extent(axis, Level::warp);
  if (lanes == 1) return digit(axis, Level::warp);
  if (warps == 1) return digit(axis, Level::lane);
  return fmt::format("({} + {} * {})", digit(axis, Level::lane), lanes, digit(axis, Level::warp));
}

std::string AxisPrinter::is_first(int axis, Level level) const { return digit(axis, level) + " == 0"; }

std::string AxisPrinter::extent(int axis) const {
  return scope_.frame.runtime_extent ? "extent" : fmt::format("{}", group_.extents[axis]);
}

bool AxisPrinter::has_tail(int axis) const {
  if (scope_.frame.runtime_extent) return true;
  if (scope_.whole_axes.contains(axis)) return false;
  return group_.mapping.axes[axis].covered() > group_.extents[axis];
}

std::string AxisPrinter::value(int axis, bool element) const {
  if (element && axis == group_.mapping.vector_axis && vector_extent() > 1) return fmt::format("({} + v)", name(axis));
  return name(axis);
}

/// A shifted row's vectors reach beyond both its ends.
std::string AxisPrinter::in_range(int axis, bool element) const {
  if (element && group_.is_shifted(axis))
    return fmt::format("static_cast<u32>({}) < {}u", value(axis, true), extent(axis));
  return fmt::format("{} < {}", value(axis, element), extent(axis));
}

std::string AxisPrinter::range_guard(AxisSet axes, bool element) const {
  std::string guard;
  for (const int a : axes) {
    if (has_tail(a)) guard = both(guard, in_range(a, element));
  }
  return group_.threads < scope_.schedule.threads ? both(guard, "active") : guard;
}

std::string AxisPrinter::replica_guard(AxisSet axes) const {
  std::string guard;
  for (const int a : AxisSet::first(count()) - axes) {
    for (const Level level : {Level::lane, Level::warp, Level::cluster, Level::grid}) {
      if (group_.extent(a, level) > 1) guard = both(guard, is_first(a, level));
    }
    if (group_.outer_loops.contains(a) && group_.extent(a, Level::loop) > 1)
      guard = both(guard, fmt::format("{}_loop == 0", name(a)));
  }
  return guard;
}

std::int64_t AxisPrinter::vector_extent() const {
  return group_.mapping.vector_axis < 0 ? 1 : group_.extent(group_.mapping.vector_axis, Level::vector);
}

bool AxisPrinter::vector_tail_by_element() const {
  if (vector_extent() == 1) return false;
  const int axis = group_.mapping.vector_axis;
  if (scope_.whole_axes.contains(axis)) return false;
  return scope_.frame.runtime_extent || group_.shift || group_.extents[axis] % vector_extent() != 0;
}

std::string AxisPrinter::part_bounds(std::int64_t at) const {
  const int axis = group_.mapping.vector_axis;
  const std::string shift = at == 0 ? "" : fmt::format(" - {}", at);
  return fmt::format("-{0}{1}, {2} - {0}{1}", name(axis), shift, extent(axis));
}

std::string AxisPrinter::tail_count(std::int64_t at) const {
  const int axis = group_.mapping.vector_axis;
  return fmt::format("{} - {}{}", extent(axis), name(axis), at == 0 ? "" : fmt::format(" - {}", at));
}

std::string AxisPrinter::subscript(AxisSet axes, bool element) const {
  std::string text;
  for (const int a : axes) {
    if (group_.extent(a, Level::reg) > 1) text += fmt::format("[{}_r]", name(a));
  }
  return element && has_vector(axes) ? text + "[v]" : text;
}

std::string AxisPrinter::outer_dims(AxisSet axes) const {
  std::string text;
  for (const int a : axes) {
    if (group_.extent(a, Level::reg) > 1) text += fmt::format("[{}]", group_.extent(a, Level::reg));
  }
  return text;
}

std::string AxisPrinter::dims(AxisSet axes) const {
  return has_vector(axes) ? outer_dims(axes) + fmt::format("[{}]", vector_extent()) : outer_dims(axes);
}

}  // namespace stitch::codegen
