#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "tuning/contractions/product_kernels.h"
#include "tuning/kernels/built_kernel.h"

namespace stitch::tuning {

struct TuningContext;

/// What became of one of the ranked schedules of a product or an attention.
struct ProductTrial {
  int place = 0;                             ///< in ProductKernels::best
  std::shared_ptr<const BuiltKernel> built;  ///< null when it did not get that far
  std::optional<Error> failure;

  /// Whether the compiler kept more than `idle` bytes of a thread in memory.
  [[nodiscard]] bool spills(int idle) const { return built && built->compiled.resources.spill_store_bytes > idle; }
};

/// Takes the schedules of a product through the steps, each by itself: build, then verify, then measure. Only a trial
/// without failure goes on. A failure that is no outcome of a schedule (is_outcome) says that the device, or we, can do
/// nothing.
class ProductTrials {
 public:
  /// `key`: of the fragment. The context and the kernels must outlive it.
  ProductTrials(const TuningContext& context, const ProductKernels& kernels, const Hash128& key, std::stop_token stop);

  [[nodiscard]] const search::SharedKernel& kernel() const { return kernel_; }
  [[nodiscard]] const ProductKernels::Ranked& ranked(int place) const { return kernels_.best[place]; }

  [[nodiscard]] ProductTrial build(int place) const;
  /// Several side by side, in the order of `places`.
  [[nodiscard]] std::vector<ProductTrial> build_all(std::span<const int> places) const;
  void verify(ProductTrial& trial) const;
  /// On the context's timer, which there must be. Without measurement and failure: it could not be timed.
  void measure(ProductTrial& trial) const;

 private:
  const TuningContext& context_;
  const ProductKernels& kernels_;
  search::SharedKernel kernel_;  ///< without candidates of the memory-intensive kind
  std::stop_token stop_;
};

}  // namespace stitch::tuning
