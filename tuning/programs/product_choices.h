#pragma once

#include <map>
#include <optional>
#include <set>
#include <stop_token>

#include "api/program_document.h"
#include "base/hash.h"
#include "base/result.h"
#include "tuning/plans/progress.h"
#include "tuning/plans/remembering_tuner.h"
#include "tuning/plans/tuner.h"
#include "tuning/programs/library_rival.h"

namespace stitch::tuning {

/// Who computes the products of a program: kernels of ours, or the library. Predictions decide (Tuner::choose_product)
/// until both were measured; from then on measurements do. A program that is made where there is a GPU is outlined,
/// planned and settled in turns, until nothing is left that was measured slower than the library:
///
///   ProductChoices choices(tuner, memory, products, true);
///   do {
///     … outline, asking choices.is_ours of every product; give every fragment a plan …
///     STITCH_ASSIGN(again, choices.settle(program));
///   } while (again);
///
/// Used by one thread at a time.
class ProductChoices {
 public:
  /// `memory`: where measured plans and calls are looked for and kept; null: nowhere. `measures`: plans are tuned and
  /// the library's calls are measured; then a product is ours, too, that is predicted to be about as fast, until
  /// settle decides. All must outlive it.
  ProductChoices(const Tuner& tuner, RememberingTuner* memory, std::optional<ProductsBy> by, bool measures,
                 std::stop_token stop = {});

  /// Asked while a program is outlined (graph::OwnCall).
  [[nodiscard]] bool is_ours(const graph::Graph& call, bool rest_apart);
  /// The library's from now on.
  void leave(const Hash128& product) { left_.insert(product); }
  [[nodiscard]] bool is_left(const Hash128& product) const { return left_.contains(product); }
  [[nodiscard]] std::size_t left() const { return left_.size(); }

  /// Leaves to the library the products for which no plan could be made. Where it measures, measures what the library
  /// takes in the place of each product with a measured plan, unless that is known, and leaves to it those that it is
  /// not measured slower for; likewise those that are no faster by prediction and could not be measured. Whether there
  /// were any: the program must be outlined again. Errors: cancelled, those of the memory's store.
  Result<bool> settle(const api::Program& program, const ProgressSink& progress = {});

 private:
  struct Asked {
    bool rest_apart = true;
    bool contends = false;  ///< ours only until it is settled
  };
  [[nodiscard]] bool is_decided_by_times(const graph::Graph& call) const;
  /// Whether both were measured, and which is faster.
  Result<std::optional<bool>> ours_is_measured_faster(const graph::Graph& product, double ours_us, bool rest_apart,
                                                      bool measures);
  Result<std::optional<CallTime>> time_of(const graph::Graph& call, bool measures);

  const Tuner& tuner_;
  RememberingTuner* const memory_;
  const ProductsBy by_;
  const bool measures_;
  const std::stop_token stop_;
  std::set<Hash128> left_;
  std::map<Hash128, Asked> asked_;                    ///< what is ours
  std::map<Hash128, std::optional<CallTime>> times_;  ///< of calls that were measured, or could not be, by this
};

}  // namespace stitch::tuning
