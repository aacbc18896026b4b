#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tuning/models/model_report.h"

namespace stitch::tuning {

/// What one run of a part of a model's memory-intensive operators takes.
struct ZooFigures {
  std::int64_t launches = 0, bytes = 0;
  double predicted_us = 0;

  bool operator==(const ZooFigures&) const = default;
};

/// One model of a zoo. What says how far tuning is follows from the store alone: nothing in it tells how often the
/// command was started, or when.
struct ZooRow {
  std::string model;
  std::string error;  ///< why the model cannot be tuned at all; nothing below says anything then
  /// Memory-intensive operators after simplification, as often as they run: those in fragments, and opaque ones. Of
  /// them `ours` are in fragments that have a plan.
  std::int64_t operators = 0, ours = 0;
  std::int64_t library_calls = 0;     ///< dots and convolutions, as often as they run
  std::int64_t fragments = 0;         ///< distinct
  std::int64_t tuned = 0;             ///< of them, with a plan
  std::int64_t uncompared = 0;        ///< of those tuned, that the reference says nothing of: no result was compared
  std::int64_t left = 0;              ///< of them, that the time did not suffice for
  ZooFigures before;                  ///< operator by operator
  ZooFigures after;                   ///< by our plans; what has none runs operator by operator
  std::optional<double> measured_us;  ///< the plans' medians, where all are measured
  /// Most bytes in use at once, results included, inputs and weights not: of an eager run, and of the program.
  std::int64_t peak_before = 0, peak_after = 0;
  std::string no_program;                     ///< why peaks are not known
  std::vector<ModelReport::Boundary> opaque;  ///< what neither a kernel nor a library's call computes
  std::vector<std::string> failures;          ///< fragments without a plan, and why

  [[nodiscard]] double share() const { return operators > 0 ? 1.0 * ours / operators : 1; }
  [[nodiscard]] bool sound() const { return error.empty() && failures.empty(); }
};

struct ZooReport {
  std::string target;             ///< "h100 sm_90a"
  std::string effort;             ///< "quick"
  std::vector<ZooRow> models;     ///< in the order that they were named
  std::int64_t fragments = 0;     ///< distinct over all models
  std::int64_t tuned_before = 0;  ///< of them, that the store had settled when this call began
  std::int64_t tuned_now = 0;
  std::int64_t failed = 0;
  std::int64_t left = 0;
  ModelReport::Search search;                 ///< of Effort::full
  std::vector<std::string> wrong_candidates;  ///< as of ModelReport

  [[nodiscard]] bool sound() const;
};

/// The table that `stitch zoo` ends in, and one JSON object with all of it.
std::string to_table(const ZooReport& report);
std::string to_json(const ZooReport& report);

}  // namespace stitch::tuning
