#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tuning/kernels/training_samples.h"
#include "tuning/plans/tuned_fragment.h"
#include "tuning/plans/tuning_context.h"

// What a tuner found, as the store keeps it.
namespace stitch::tuning {

/// The record of a fragment. `canonical` must be a canonical form's graph.
Result<db::FragmentRecord> fragment_record(const TuningContext& context, const graph::Graph& canonical,
                                           std::string_view name);

/// What became of one schedule of a kernel, whatever kind of schedule it is.
struct ScheduleTrial {
  Hash128 kernel, schedule;
  double predicted_us = 0;
  const BuiltKernel* built = nullptr;  ///< null when it did not get that far
  std::optional<Error> failure = {};
};

/// Its record. `verified`: one without failure was found to be right.
db::Candidate candidate_record(const TuningContext& context, const Hash128& fragment, const ScheduleTrial& trial,
                               bool verified);

/// The measurement of a candidate (named by its record's schedule_hash), with what cost models are trained on.
db::MeasurementRecord measurement_record(const TuningContext& context, const BuiltKernel& built,
                                         const Hash128& schedule, const std::optional<CandidateFacts>& facts);

/// Adds what became of a kernel's candidates. `verified`: those without failure were found to be right.
void record_trials(const TuningContext& context, const Hash128& fragment, const search::ExploredKernel& kernel,
                   std::span<const Trial> trials, bool verified, TrialRecords& records);

/// The kernels of a plan as they were built, and how they were chosen.
struct ChosenKernels {
  struct Origin {
    Hash128 key;         ///< of the kernel
    int candidates = 0;  ///< that it has
  };
  std::vector<Origin> kernels;                                   ///< by launch
  const std::vector<std::shared_ptr<const BuiltKernel>>& built;  ///< by launch
  bool verified = false;
  std::optional<Hash128> neighbour;  ///< the measured plan whose kernels chose the schedules
  std::string predicted_by = {};     ///< empty: the context's scorer
};

/// Fills in what follows from the kernels: `tuned`'s bundle and reports, and the label, origin and id of its plan.
void record_plan(const TuningContext& context, const ChosenKernels& chosen, TunedFragment& tuned);

}  // namespace stitch::tuning
