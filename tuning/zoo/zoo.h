#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "import/import.h"
#include "tuning/plans/progress.h"
#include "tuning/plans/remembering_tuner.h"
#include "tuning/plans/tuner.h"
#include "tuning/zoo/zoo_report.h"

namespace stitch::tuning {

/// How much is done for each fragment; the words are those of Helion's autotuner.
enum class Effort : unsigned char {
  none,   ///< the best predicted plan, compiled and not verified
  quick,  ///< verified, and the first few candidates of each kernel measured where kernels can be
  full,   ///< where kernels are measured, also a search of them; otherwise as `quick`
};
std::string_view to_string(Effort effort);
Result<Effort> effort_from(std::string_view name);

/// Trials that Effort::full adds per distinct kernel, shared over all kernels by what they may gain × occurrences.
inline constexpr std::int64_t full_trials_per_kernel = 100;

/// A model file of a zoo.
struct ZooModel {
  std::string name;  ///< for people, and what decides about the format where contents are ambiguous
  std::filesystem::path path;
};

struct ZooOptions {
  Effort effort = Effort::quick;
  std::optional<double> budget_seconds;  ///< from the call on; no fragment is begun afterwards
  import::ImportOptions asked = {};
  ProgressSink progress = {};
  /// Told of each fragment as soon as its plan is stored: its number among `of` distinct ones, those that were settled
  /// before counting as the first.
  std::function<void(const TunedFragment& tuned, std::string_view name, std::int64_t number, std::int64_t of)> tuned =
      {};
  std::stop_token stop = {};
};

struct Zoo {
  ZooReport report;
  /// As of ModelTuning::faults.
  std::vector<std::pair<std::string, std::string>> faults;
};

/// Tunes many models as if they were one: every fragment once, however many models have it, most predicted gain ×
/// occurrences over all models first, and stores it at once. What `memory` has settled is neither planned nor tuned
/// again, so that a call goes on where the one before ended, however it did. A model that cannot be read is a row with
/// its error. When the time is over the rest stays as it is, and the report is made. Errors: cancelled (by `stop`);
/// those of the store.
Result<Zoo> tune_zoo(std::span<const ZooModel> models, const Tuner& tuner, RememberingTuner& memory,
                     const FileSystem& files, const ZooOptions& options);

}  // namespace stitch::tuning
