#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "codegen/compile/compiler.h"
#include "costmodel/constants/constant_fit.h"
#include "costmodel/kernel_features.h"
#include "costmodel/training.h"
#include "db/store.h"
#include "profiler/measure/recording.h"
#include "search/schedule/kernel_cache.h"
#include "search/schedule/scorer.h"
#include "tuning/kernels/kernel_space.h"

// Where the cost models' training samples come from: candidates with measurements in a store, and recordings.
namespace stitch::tuning {

/// What the compiler reports, as the features take it; without machine code.
costmodel::CompiledFacts compiled_facts(const codegen::ResourceUsage& used, std::int64_t dynamic_shared_bytes);

/// What the cost models see of a candidate.
struct CandidateRow {
  double analytical_us = 0;  ///< by the analytical model with its default constants
  std::vector<float> features;
};

/// `compiled`: null before compilation.
CandidateRow candidate_row(const graph::Graph& kernel, const search::StitchCandidate& candidate,
                           const DeviceSpec& device, const costmodel::CompiledFacts* compiled);

/// What a stored measurement of a candidate says of the candidate, so that models can be trained without making it
/// again: member "candidate" of the measurement's conditions.
struct CandidateFacts {
  std::string target;      ///< entry of the device table that it was scheduled for
  Hash128 kernel, family;  ///< of the kernel's canonical graph
  Hash128 feature_set;     ///< that the row is of
  CandidateRow row;
};

/// `conditions` (a JSON object) with the facts.
std::string with_facts(std::string_view conditions, const CandidateFacts& facts);
/// Nothing where there are none. Errors: corrupt (facts that make no sense).
Result<std::optional<CandidateFacts>> facts_in(std::string_view conditions);

/// A row as recordings keep it (docs/recording-format.md).
std::vector<double> features_for_record(const std::vector<float>& row);

/// The candidates of one entry of the device table that were measured, and whose rows are of this program's features.
/// Device times only: what was counted is never taken for a time. Of several measurements of a candidate on a device
/// the newest counts. Candidates that failed have no measurement, and so no row. Errors: those of the store; corrupt.
Result<costmodel::TrainingSet> samples_of_store(const db::Store& store, std::string_view device,
                                                std::size_t most = 100'000);
/// The same of every entry of the device table that anything was measured for, by its name; `most` of all together.
Result<std::map<std::string, costmodel::TrainingSet>> samples_by_device(const db::Store& store,
                                                                        std::size_t most = 100'000);

/// A recorded kernel's candidates, enumerated anew.
struct RereadKernel {
  KernelSpace space;
  std::unordered_map<Hash128, int> by_schedule;  ///< places among its candidates, by kernel::schedule_hash

  [[nodiscard]] const search::StitchCandidate& candidate(int place) const { return space.kernel->candidates[place]; }
};
/// Schedules that an explorer of another version found may be missing. `graph`: the kernel's, decoded. Errors: those of
/// kernel_space.
Result<RereadKernel> reread_kernel(const profiler::RecordedKernel& kernel, const graph::Graph& graph,
                                   const search::Scorer& scorer);

/// All candidates of a recording, those that failed included; the unit is the recording's. Rows are the recorded ones,
/// or, where those are of other features, counted anew from the kernels' graphs. Errors: not_found (its target is not
/// in the device table); parse (a graph that cannot be read), those of enumeration.
Result<costmodel::TrainingSet> samples_of_recording(const profiler::Recording& recording);

/// What constants are fitted to: the right candidates of a recording of device times, enumerated anew from the kernels'
/// graphs. Errors: invalid_argument (a recording of counts), those above.
Result<std::vector<costmodel::FitSample>> fit_samples_of(const profiler::Recording& recording);

}  // namespace stitch::tuning
