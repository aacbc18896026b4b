#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/cut.h"
#include "import/import.h"
#include "tuning/models/model_outline.h"
#include "tuning/models/model_report.h"
#include "tuning/plans/remembering_tuner.h"
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

/// A model cut into fragments: equal ones share an entry.
struct ModelFragments {
  struct Entry {
    Hash128 key, family;
    graph::Graph graph;            ///< canonical
    std::int64_t occurrences = 0;  ///< how often it runs in one run of the model
    std::string name;              ///< where it first stands: "body of while.3, level 2"
  };
  std::vector<Entry> entries;      ///< in order of appearance
  std::int64_t operators = 0;      ///< before simplification, regions once
  std::int64_t library_calls = 0;  ///< weighted by occurrences
  std::vector<import::Boundary> boundaries;
  std::vector<graph::DonationOutcome> donations;  ///< of the model's own graph
  ModelOutline outline;                           ///< how fragments and boundaries hang together
};

/// Simplifies the graph and cuts every region of it; loops for which `whole_loop` (graph::CutOptions) holds stay whole.
/// Errors: those of simplification and canonical forms.
Result<ModelFragments> cut_model(import::Imported model,
                                 const std::function<bool(const graph::Graph&)>& whole_loop = {});
/// Whole are the loops of which the tuner's explorers expect more in one kernel than turn by turn.
Result<ModelFragments> cut_model(import::Imported model, const Tuner& tuner);

/// What a model that is tuned under constraints is stored by: its bytes' SHA-256, where it has none.
Sha256 workload_key(std::string_view bytes, const graph::Constraints& constraints);

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
