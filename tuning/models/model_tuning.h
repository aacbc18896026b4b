#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "import/import.h"
#include "tuning/models/model_fragments.h"
#include "tuning/models/model_report.h"
#include "tuning/plans/remembering_tuner.h"
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

/// What a model that is tuned under constraints is stored by: its bytes' SHA-256, where it has none.
Sha256 workload_key(std::string_view bytes, const graph::Constraints& constraints);

/// A model before its fragments are planned, with what its report and its record say of it.
struct CutModel {
  ModelFragments fragments;
  ModelReport report;     ///< without launches, bytes and times
  db::Workload workload;  ///< without its report
};

/// `bytes` and `asked`: what the model was read from, and under which constraints. Errors: those of cut_model.
Result<CutModel> cut_for_tuning(import::Imported imported, std::string_view bytes, std::string_view name,
                                const Tuner& tuner, const graph::Constraints& asked, const std::stop_token& stop = {});

struct ModelTuning {
  ModelReport report;
  db::Workload workload;
  std::vector<TunedFragment> fragments;  ///< empty after plan_model
  /// A document about every fragment of which kernels were wrong, by the fragment's key (tuning/plans/fault_report.h).
  std::vector<std::pair<std::string, std::string>> faults;
};

/// Import and explorers only. `asked`: constraints on all that the model computes, donations, extents.
Result<ModelTuning> plan_model(std::string_view bytes, std::string_view name, const Tuner& tuner,
                               const ProgressSink& progress, std::stop_token stop,
                               const import::ImportOptions& asked = {});

/// The whole job, fragment by fragment, most predicted gain × occurrences first. `memory` (may be null) keeps every
/// fragment as soon as it is tuned, and the model; what is settled there is not tuned again, and its kernels count as
/// verified. With `trials`, so many more candidates of the model's kernels are tried (tuning/models/model_search.h),
/// settled fragments' included, and the fragments whose kernels became faster are tuned again; where plans cannot be
/// measured, so that nothing would take the place of a first plan, the search comes first. Errors: cancelled;
/// invalid_argument (trials, and no timer); those of import, planning and the store.
Result<ModelTuning> tune_model(std::string_view bytes, std::string_view name, const Tuner& tuner,
                               const ProgressSink& progress, std::stop_token stop, RememberingTuner* memory,
                               std::int64_t trials = 0, const import::ImportOptions& asked = {});

}  // namespace stitch::tuning
