#pragma once

#include <cstdint>
#include <string>

#include "codegen/group_scope.h"

namespace stitch::codegen {

/// Prints what code says about the axes of a group. Axis number 1, called "j", is split into digits by its mapping:
/// thread and tile have theirs ("j_lane", "j_warp", "j_grid"), loops count others ("j_loop", "j_r"), and of a vector
/// the loop variable is "v". `element` asks for the text within that loop, where the vector axis is "(j + v)".
class AxisPrinter {
 public:
  explicit AxisPrinter(const GroupScope& scope) : scope_(scope), group_(scope.group) {}

  [[nodiscard]] int count() const { return std::ssize(group_.extents); }
  [[nodiscard]] std::string name(int axis) const;
  [[nodiscard]] std::string value(int axis, bool element) const;
  [[nodiscard]] std::string digit(int axis, kernel::Level level) const;
  /// Lane and warp together.
  [[nodiscard]] std::string thread_digit(int axis) const;
  /// "j_lane == 0".
  [[nodiscard]] std::string is_first(int axis, kernel::Level level) const;

  [[nodiscard]] std::string extent(int axis) const;
  /// Whether a thread may be beyond the axis' end.
  [[nodiscard]] bool has_tail(int axis) const;
  [[nodiscard]] std::string in_range(int axis, bool element) const;
  /// Conditions that hold where every axis of `axes` is in range, joined by &&; empty when they always do.
  [[nodiscard]] std::string range_guard(kernel::AxisSet axes, bool element) const;
  /// What one of the threads that would store the same element says: those that differ only on axes which the element
  /// does not have.
  [[nodiscard]] std::string replica_guard(kernel::AxisSet axes) const;

  [[nodiscard]] std::int64_t vector_extent() const;
  /// Whether the vector axis is among these, however long the vectors are.
  [[nodiscard]] bool runs_along(kernel::AxisSet axes) const {
    return group_.mapping.vector_axis >= 0 && axes.contains(group_.mapping.vector_axis);
  }
  /// Whether a thread has a vector of what has these axes.
  [[nodiscard]] bool has_vector(kernel::AxisSet axes) const { return runs_along(axes) && vector_extent() > 1; }
  /// Whether each element of a vector has to be asked for.
  [[nodiscard]] bool vector_tail_by_element() const;
  /// Bounds of the row, as elements from the vector's element `at`: load_part's and store_part's first and count.
  [[nodiscard]] std::string part_bounds(std::int64_t at) const;
  /// Elements from the vector's element `at` to the end of the axis: load_tail's and store_tail's count.
  [[nodiscard]] std::string tail_count(std::int64_t at) const;

  /// Indices into an array of registers over these axes: "[i_r]", within the vector loop "[i_r][v]".
  [[nodiscard]] std::string subscript(kernel::AxisSet axes, bool element) const;
  /// Its extents: "[2][4]".
  [[nodiscard]] std::string dims(kernel::AxisSet axes) const;
  /// Those without the vector's: "[2]".
  [[nodiscard]] std::string outer_dims(kernel::AxisSet axes) const;

 private:
  const GroupScope& scope_;
  const kernel::GroupProgram& group_;
};

/// " + 4" behind a pointer; nothing where the offset is 0.
std::string offset_text(std::int64_t offset);
/// Conditions joined by &&, of which empty ones are none.
std::string both(const std::string& a, const std::string& b);

}  // namespace stitch::codegen
