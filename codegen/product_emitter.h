#pragma once

#include <string>
#include <vector>

#include "codegen/load_emitter.h"

namespace stitch::codegen {

/// Writes the sums of a group that tensor cores take in every turn of a recurrent kernel
/// (kernel/program/state_products.h), by codegen/device/state_product.cuh:
///
///     using Product0 = StateProduct<MmaF16, f16, 32, 128, 256, …>;                  emit_types
///     Product0::load(weights0, [&](int column) -> WeightColumn<f16> { … });         emit_loads, before all turns
///     f32* const sums0 = reinterpret_cast<f32*>(shared + 0);
///     Product0::multiply(weights0, in0, sums0);                                     emit_multiply, before all sweeps
///     __syncthreads();
///     Product0::sum<4>(sum1[j_r], sums0 + …);                                       emit_sum, for each reduction
class ProductEmitter {
 public:
  explicit ProductEmitter(GroupScope& scope)
      : scope_(scope), group_(scope.group), out_(scope.out), axes_(scope), items_(scope), loops_(scope) {}

  void emit_types();
  void emit_loads();
  void emit_multiply();
  /// The thread's own sums, where its accumulators have been declared.
  void emit_sum(int anchor);
  /// What holds the weights from before the first turn on, named as the code here names it.
  [[nodiscard]] std::vector<HoistedLoad> weights() const;

 private:
  [[nodiscard]] const kernel::StateProducts& product(std::size_t number) const { return group_.products[number]; }
  [[nodiscard]] std::string type_of(const kernel::StateProducts& product) const;
  /// Of an axis, a block's first element.
  [[nodiscard]] std::string first_of(int axis) const;
  void emit_load(std::size_t number);

  GroupScope& scope_;
  const kernel::GroupProgram& group_;
  Writer& out_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
  LoopEmitter loops_;
};

}  // namespace stitch::codegen
