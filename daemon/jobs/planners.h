#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/device_spec.h"
#include "base/device_traits.h"
#include "base/result.h"
#include "db/store.h"
#include "tuning/plans/remembering_tuner.h"
#include "tuning/plans/tuner.h"

namespace stitch::daemon {

/// Who plans for one class of GPUs.
struct Planner {
  [[nodiscard]] const db::Target& target() const { return tuner.target(); }
  [[nodiscard]] db::PlanKey key_of(const Hash128& fragment) const { return {fragment, tuner.target()}; }

  const tuning::Tuner& tuner;
  std::unique_ptr<tuning::RememberingTuner> remembering;
  bool own = true;  ///< the server's, for its own target
};

/// Makes a tuner for a class that is not the server's own.
using MakeTuner = std::function<Result<std::unique_ptr<tuning::Tuner>>(const DeviceSpec&)>;

/// The planners of a server: its own, and one for each other class of GPUs that clients run on, made when the first of
/// them asks. Those verify on the emulated device and measure nowhere: the server has none of these GPUs. Safe to use
/// from any number of threads.
class Planners {
 public:
  /// A class more costs a compiler and caches of kernels; there are more classes than GPUs in any machine.
  static constexpr std::size_t most_others = 16;

  /// `store`, `tuner` (the server's own) and `clock` must outlive it. `make` may be empty: then there is only the own
  /// one. Errors: those of RememberingTuner::open.
  static Result<std::unique_ptr<Planners>> open(db::Store& store, const tuning::Tuner& tuner, const Clock& clock,
                                                MakeTuner make);

  [[nodiscard]] const Planner& own() const { return own_; }
  /// Of the GPU that reports so, or the own one. Errors: invalid_argument (it reports nothing), unsupported (the server
  /// plans for its own target only), resource_exhausted (for enough others already), those of the tuner's making (a
  /// toolkit that does not know the GPU).
  Result<const Planner*> of(const std::optional<DeviceTraits>& device);
  /// Of a class by name, as jobs keep it; empty: the own one. Errors likewise.
  Result<const Planner*> named(std::string_view device);
  /// What all of them have done since they were made.
  [[nodiscard]] tuning::WorkCounts work() const;

 private:
  struct Other {
    std::unique_ptr<tuning::Tuner> tuner;
    std::unique_ptr<Planner> planner;
  };

  Planners(db::Store& store, const Clock& clock, MakeTuner make, Planner own)
      : store_(store), clock_(clock), make_(std::move(make)), own_(std::move(own)) {}
  Result<const Planner*> other(const DeviceSpec& spec);

  db::Store& store_;
  const Clock& clock_;
  const MakeTuner make_;
  const Planner own_;
  mutable std::mutex mutex_;  ///< guards others_
  std::map<std::string, Other, std::less<>> others_;
};

}  // namespace stitch::daemon
