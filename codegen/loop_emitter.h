#pragma once

#include <cstdint>
#include <optional>

#include "codegen/item_printer.h"

namespace stitch::codegen {

/// Writes the loops over a group's axes, and where each thread stands on them:
///
///     const int i_lane = static_cast<int>(threadIdx.x) % 32;      digits of thread and tile
///     const int j0 = j_lane * 4 + j_grid * 1024;                  where the thread's part begins
///     for (int j_loop = 0; j_loop < 8; ++j_loop) {                loops, which add to it
///       const int j = j0 + j_loop * 128;
///
/// What opens a scope leaves it open; who asked closes the writer to the depth that it had.
class LoopEmitter {
 public:
  explicit LoopEmitter(GroupScope& scope)
      : scope_(scope), group_(scope.group), out_(scope.out), axes_(scope), items_(scope) {}

  /// Iterations [first, last) of an axis' loop.
  struct Iterations {
    int axis = 0;
    std::int64_t first = 0, last = 0;
    bool wrapped = false;  ///< [first, all of them) and then [0, last)
  };

  /// The turns of a loop in the order in which it takes them, as expressions.
  struct Turns {
    std::string first, next, has_next;
  };
  [[nodiscard]] Turns turns_of(const Iterations& iterations) const;
  /// The number of the turn in which the loop stands, from 0 in the order in which it takes them; and the loop's
  /// variable in the turn of a number.
  [[nodiscard]] std::string number_of_turn(const Iterations& iterations) const;
  [[nodiscard]] std::string turn_of_number(const Iterations& iterations, const std::string& number) const;
  /// The axis' value in a turn of its loop, unless registers add to it.
  void emit_value(int axis);

  /// Splits the thread index and the tile number into one digit per axis and level.
  void emit_digits();
  /// Those of the block in its cluster alone.
  void emit_cluster_digits();
  /// Those of the loops that wrap all sweeps; inside them the axis has its value, unless registers add to it.
  void open_outer_loops(kernel::AxisSet axes);
  /// Inside all of them: where a thread's part of a shifted row starts, if they decide in which row it is.
  void emit_start_in_row();
  /// All iterations of every inner loop over these axes, or `some` of one.
  void open_inner_loops(kernel::AxisSet axes, const std::optional<Iterations>& some = std::nullopt);
  /// Unrolled, over what a thread has in registers.
  void open_register_loops(kernel::AxisSet axes);
  /// The loop of which only the last iteration meets the end of its axis, and that end; of shifted rows the first one
  /// meets the beginning.
  [[nodiscard]] std::optional<Iterations> whole_iterations(kernel::AxisSet axes) const;

 private:
  void emit_description();
  void emit_thread_digits();
  /// Whether tensor cores contract the axis, so that it is on no level.
  [[nodiscard]] bool is_contracted(int axis) const;
  void emit_tile_digits();
  void emit_start(int axis);
  void open_loop(const Iterations& iterations);
  /// Whether the tile's outer loops decide in which row a thread is.
  [[nodiscard]] bool row_is_looped() const;
  void emit_shifted_start();
  [[nodiscard]] bool is_backwards(int axis) const;

  GroupScope& scope_;
  const kernel::GroupProgram& group_;
  Writer& out_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
};

}  // namespace stitch::codegen
