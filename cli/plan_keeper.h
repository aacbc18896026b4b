#pragma once

#include <filesystem>
#include <memory>

#include "base/clock.h"
#include "daemon/model_tuning.h"
#include "db/store.h"
#include "profiler/device.h"

namespace stitch::cli {

/// Keeps what an offline run tunes in a database, by the rules of stitchd.
class PlanKeeper {
 public:
  /// Opens or makes the database and records the device. All arguments must outlive the keeper. Errors: those of the
  /// store.
  static Result<std::unique_ptr<PlanKeeper>> open(const std::filesystem::path& database, const daemon::Tuner& tuner,
                                                  const profiler::Device& device, const Clock& clock);

  Status keep(const daemon::TunedFragment& tuned);
  /// Whether a verified plan for the fragment is there already.
  [[nodiscard]] bool is_settled(const Hash128& fragment) const;
  /// The model with its report; fragments without a plan are left out.
  Status finish(db::Workload workload);

 private:
  PlanKeeper(std::unique_ptr<db::Store> store, const daemon::Tuner& tuner, const profiler::Device& device,
             const Clock& clock)
      : store_(std::move(store)), tuner_(tuner), device_(device), clock_(clock) {}
  [[nodiscard]] db::Provenance provenance(std::string_view judged) const;

  std::unique_ptr<db::Store> store_;
  const daemon::Tuner& tuner_;
  const profiler::Device& device_;
  const Clock& clock_;
};

}  // namespace stitch::cli
