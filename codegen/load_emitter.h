#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "codegen/loop_emitter.h"
#include "codegen/shared_emitter.h"

namespace stitch::codegen {

/// A load that is made before the loops or turns that use it: an array of a thread, "[2][4]", or a scalar, "".
struct HoistedLoad {
  std::string type, name, dims;
  std::vector<kernel::Buffer> buffers;  ///< that it reads
  bool in_shared = false;               ///< the block's instead, in its shared memory, and `name` is a pointer
  std::int64_t offset = 0;              ///< there, bytes from the start of what turns and phases hand on
};

/// Writes loads into registers, and declares those: one value of a thread, or its whole run along the vector axis, in
/// as wide accesses as the group's program says.
class LoadEmitter {
 public:
  explicit LoadEmitter(GroupScope& scope)
      : scope_(scope),
        group_(scope.group),
        out_(scope.out),
        axes_(scope),
        items_(scope),
        loops_(scope),
        shared_(scope) {}

  /// A value of which a thread has one: "const f32 add_4 = …;".
  void emit_uniform(kernel::ItemId id);
  /// The same of all that are wanted, by item (kernel::needed_by).
  void emit_uniform(const std::vector<bool>& wanted);
  /// Loads the thread's run along the vector axis into name[…][0..vector); with a suffix into the array of that name.
  void emit_run(kernel::ItemId id, std::string_view suffix = "");
  /// The same in its register loops and where it is in range; of a value of which a thread has one, zero elsewhere.
  void emit_guarded(kernel::ItemId id, std::string_view suffix = "");
  /// Asks for the thread's run to be copied to its `place` in shared memory.
  void emit_copy(kernel::ItemId id, const std::string& place);
  /// Asks for the warp's run of `elements` elements, which begins with the thread's, by a bulk copy to a stage.
  void emit_bulk_copy(kernel::ItemId id, const std::string& place, std::int64_t elements);
  /// Declares what is kept between sweeps: an array of registers, or a thread's place in shared memory.
  void declare_held(const kernel::HeldItem& held);
  /// Declares an item's registers, which end with the sweep.
  void declare_for_sweep(kernel::ItemId id);
  /// Declares registers of an item under its name and a suffix.
  void declare_registers(kernel::ItemId id, std::string_view suffix = "");

  /// What is loaded before the wait for the launch before (GroupFrame::unwaited); from then on it is in registers.
  void emit_unwaited();
  /// Values that do not change along the tile's outer loops, in registers before them; the arrays are declared here.
  void emit_hoisted();
  /// The same into arrays that are there already, for a recurrent kernel's turns.
  void emit_hoisted_into_arrays();
  [[nodiscard]] std::vector<HoistedLoad> hoisted() const;

 private:
  void emit_hoisted(kernel::ItemId id);
  void emit_single(kernel::ItemId id, const std::string& target);
  void emit_element_wise(kernel::ItemId id, const std::string& target);
  void emit_accesses(kernel::ItemId id, const std::string& target);

  GroupScope& scope_;
  const kernel::GroupProgram& group_;
  Writer& out_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
  LoopEmitter loops_;
  SharedEmitter shared_;
};

}  // namespace stitch::codegen
