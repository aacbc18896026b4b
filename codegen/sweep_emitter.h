#pragma once

#include <string>
#include <vector>

#include "codegen/band_emitter.h"
#include "codegen/product_emitter.h"

namespace stitch::codegen {

/// Writes one sweep of a group: the values of which a thread has one, then the loops — bands of items that depend on
/// the same axes, those without an inner loop first, the others sharing the inner loops — and behind them the end of
/// the reductions that the sweep computes. Sums that tensor cores have taken are in no band.
class SweepEmitter {
 public:
  SweepEmitter(GroupScope& scope, ReductionEmitter& reductions, ProductEmitter& products)
      : scope_(scope),
        group_(scope.group),
        out_(scope.out),
        axes_(scope),
        items_(scope),
        loops_(scope),
        loads_(scope),
        shared_(scope),
        reductions_(reductions),
        products_(products),
        bands_(scope, reductions) {}

  void emit(int sweep);

 private:
  void emit_title(int sweep);
  /// Those with fewer axes first: an item needs only items on a subset of its axes.
  [[nodiscard]] std::vector<Band> bands_of(int sweep) const;
  void emit_bands(int sweep);
  /// Bands that share the inner loops. Where only the last iteration is partly out of range, the others test nothing.
  void emit_looped(const std::vector<Band>& bands, int sweep);
  /// All iterations, or some of one loop.
  void emit_iterations(const std::vector<Band>& bands, int sweep,
                       const std::optional<LoopEmitter::Iterations>& iterations);
  void open_iterations(kernel::AxisSet all, int sweep, const std::optional<LoopEmitter::Iterations>& iterations);
  [[nodiscard]] std::string first_of(kernel::AxisSet loops) const;
  /// Asks for all that the loops will find in shared memory, and waits for it.
  void emit_copies(const std::vector<Band>& bands, int sweep);
  void emit_copy(const Band& band, kernel::ItemId id);

  GroupScope& scope_;
  const kernel::GroupProgram& group_;
  Writer& out_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
  LoopEmitter loops_;
  LoadEmitter loads_;
  SharedEmitter shared_;
  ReductionEmitter& reductions_;
  ProductEmitter& products_;
  BandEmitter bands_;
};

}  // namespace stitch::codegen
