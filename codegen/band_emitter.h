#pragma once

#include <string>
#include <vector>

#include "codegen/load_emitter.h"
#include "codegen/reduction_emitter.h"
#include "codegen/store_emitter.h"

namespace stitch::codegen {

/// Items and anchors of a sweep that vary with the same axes of the thread, and so stand in the same loops.
struct Band {
  kernel::AxisSet axes;
  std::vector<kernel::ItemId> items = {};
  std::vector<int> anchors = {};
  kernel::AxisSet kept = {};  ///< axes of what it takes from shared memory
};

/// The axes that tell an item's band.
inline kernel::AxisSet band_axes(const GroupScope& scope, kernel::AxisSet axes) { return axes & scope.group.varying; }
/// Condition on which all that the band touches is in range; empty: always.
std::string band_guard(const GroupScope& scope, const Band& band);

/// Writes one band of a sweep: first its loads, so that all of them are in flight together, then its arithmetic and
/// what becomes of it, element by element along the vector axis.
class BandEmitter {
 public:
  BandEmitter(GroupScope& scope, ReductionEmitter& reductions)
      : scope_(scope),
        group_(scope.group),
        out_(scope.out),
        axes_(scope),
        items_(scope),
        loops_(scope),
        loads_(scope),
        shared_(scope),
        stores_(scope),
        reductions_(reductions) {}

  /// `once`: condition under which its anchors are due; empty: always. What other bands use is made in any case.
  void emit(const Band& band, int sweep, const std::string& once);

 private:
  /// What a band does in a sweep, sorted.
  struct Work {
    const Band& band;
    int sweep = 0;
    std::vector<kernel::ItemId> early;     ///< loads that need nothing that this band computes
    std::vector<kernel::ItemId> direct;    ///< of them, those that are made here and every time
    std::vector<kernel::ItemId> kept;      ///< values of earlier sweeps that lie in shared memory
    std::vector<kernel::ItemId> computed;  ///< items that are not loaded early
    std::string once = {};                 ///< condition of the anchors, where the band is not guarded whole
  };
  [[nodiscard]] Work work_of(const Band& band, int sweep) const;
  /// Whether it comes to lie in shared memory in this sweep.
  [[nodiscard]] bool is_kept_from(kernel::ItemId id, int sweep) const;
  /// Whether a band with more axes uses the item, so that it outlives this one's loops.
  [[nodiscard]] bool outlives(const Band& band, kernel::ItemId id, int sweep) const;
  void declare(const Work& work);
  /// Opens the register loops over the band, and its guard.
  void open_places(const Band& band);
  /// Leaves the loops open in which the band's elements are computed.
  void emit_loads(const Work& work);
  void emit_found_load(const Band& band, kernel::ItemId id);
  void leave_in_shared(const Work& work);
  void emit_elements(const Work& work);
  void emit_anchors(const Work& work, const std::vector<int>& run_stores, const std::vector<int>& run_sums,
                    bool vector);
  void emit_item(kernel::ItemId id, bool vector);
  /// Anchors that store the thread's whole run at once, from registers that this declares.
  [[nodiscard]] std::vector<int> declare_run_stores(const Band& band);

  GroupScope& scope_;
  const kernel::GroupProgram& group_;
  Writer& out_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
  LoopEmitter loops_;
  LoadEmitter loads_;
  SharedEmitter shared_;
  StoreEmitter stores_;
  ReductionEmitter& reductions_;
};

}  // namespace stitch::codegen
