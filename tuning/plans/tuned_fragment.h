#pragma once

#include <functional>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "api/protocol.h"
#include "base/sha256.h"
#include "codegen/compile/compiler.h"
#include "db/records.h"
#include "db/trial_records.h"
#include "graph/graph.h"
#include "profiler/measure/sample_comparison.h"
#include "profiler/verify/verify.h"
#include "search/partition/fusion_plan.h"
#include "tuning/kernels/kernel_history.h"
#include "tuning/kernels/kernel_search.h"
#include "tuning/kernels/kernel_timer.h"
#include "tuning/plans/progress.h"

// What a tuner is asked for, and what it gives back.
namespace stitch::tuning {

/// What became of candidates, ready for the store.
struct TrialRecords {
  std::vector<db::Candidate> candidates;
  std::vector<db::MeasurementRecord> measurements;  ///< of candidates, by schedule; of plans that were compared with
};

/// A plan that somebody wants.
struct PlanRequest {
  const graph::Graph& fragment;  ///< canonical
  std::string_view name = {};    ///< for people
  /// What Tuner::explore gave for the fragment; explored anew when null.
  const search::FusionPlan* plan = nullptr;
  /// The plan that is served for the fragment now, to be measured beside the new one; null: none is.
  const RunnablePlan* incumbent = nullptr;
  /// What was measured of fragments like it; chooses schedules where kernels are not measured. Null: nothing is known.
  const FragmentHistory* history = nullptr;
  /// The machine code and PTX of a plan that is to be made again: of every kernel the candidate that has it, and no
  /// other. Of Tuner::predict; null: whichever are best.
  const std::set<Sha256>* code = nullptr;
  ProgressSink progress = {};
  std::stop_token stop = {};
  /// Told what was found out where kernels failed and no plan is left to be made without them.
  std::function<void(const db::FragmentRecord& fragment, const TrialRecords& trials)> failed = {};
};

/// A search among the candidates of one kernel that somebody wants.
struct SearchRequest {
  const search::SharedKernel& kernel;
  Hash128 fragment;         ///< key of a fragment that the kernel is part of
  std::int64_t trials = 0;  ///< at most, beyond the first few candidates
  KernelHistory history = {};
  ProgressSink progress = {};
  std::stop_token stop = {};
};

struct SearchedKernel {
  SearchOutcome found;
  TrialRecords records;  ///< of its trials
};

/// One kernel of a plan with everything that was found out about it.
struct KernelReport {
  Hash128 key;  ///< of its canonical graph
  std::string name;
  std::string source;
  codegen::ResourceUsage resources;
  double predicted_us = 0;
  double estimated_us = 0;      ///< the same after compilation (BuiltKernel)
  int candidate = 0;            ///< which of the kernel's candidates, by prediction
  int candidates = 0;           ///< how many candidates the kernel has, those made of them included
  int overtaken = 0;            ///< candidates with better predictions that it was put ahead of after compilation
  double equal_within_us = 0;   ///< where it was taken for being simpler: what counts as equal
  bool spills_in_loop = false;  ///< as tuning/kernels/built_kernel.h has it: no candidate that was built does without
  std::optional<profiler::Verification> verification;
  std::optional<profiler::Measurement> measurement;
};

/// A fragment that was worked on, ready for the store and for a client.
struct TunedFragment {
  db::FragmentRecord fragment;
  api::Plan plan;
  db::PlanBundle bundle;  ///< what put_plan takes: plan, kernels, artifacts
  TrialRecords trials;
  std::optional<profiler::SampleComparison> comparison;  ///< with the incumbent, measured side by side
  std::vector<KernelReport> kernels;                     ///< by launch
  StageSeconds seconds;
};

}  // namespace stitch::tuning
