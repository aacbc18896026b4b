#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "daemon/tuner.h"
#include "daemon/tuning_store.h"
#include "graph/cut.h"
#include "import/import.h"

namespace stitch::daemon {

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
};

/// Simplifies the graph and cuts every region of it. Errors: those of simplification and canonical forms.
Result<ModelFragments> cut_model(import::Imported model);

/// The table that `stitch plan` and `stitch tune` end in. Launches and bytes by the rules of bench/models/README.md.
struct ModelReport {
  std::string model;
  std::int64_t operators = 0;
  std::int64_t fragments = 0;  ///< weighted by occurrences
  std::int64_t distinct_fragments = 0;
  std::int64_t kernels = 0;  ///< distinct
  std::int64_t launches = 0;
  std::int64_t library_calls = 0;
  std::int64_t bytes = 0;
  std::int64_t launches_unfused = 0;
  std::int64_t bytes_unfused = 0;
  double predicted_us = 0;
  double predicted_unfused_us = 0;
  StageSeconds seconds;
  std::vector<std::pair<std::string, std::int64_t>> boundaries;  ///< operator, count
  std::int64_t verified_kernels = 0;                             ///< distinct
  std::int64_t wrong_kernels = 0;
  std::vector<std::string> failures;  ///< fragments without a plan, and why
};
std::string to_json(const ModelReport& report);
std::string to_table(const ModelReport& report);

struct ModelTuning {
  ModelReport report;
  db::Workload workload;
  std::vector<TunedFragment> fragments;  ///< empty after plan_model
};

/// Import and explorers only.
Result<ModelTuning> plan_model(std::string_view bytes, std::string_view name, const Tuner& tuner,
                               const ProgressSink& progress, std::stop_token stop);

/// The whole job, fragment by fragment, most predicted gain × occurrences first. `store` (may be null) keeps every
/// fragment as soon as it is tuned, and the model; what is settled there is not tuned again, and its kernels count as
/// verified. An error of the store ends the run.
Result<ModelTuning> tune_model(std::string_view bytes, std::string_view name, const Tuner& tuner,
                               const ProgressSink& progress, std::stop_token stop, TuningStore* store);

}  // namespace stitch::daemon
