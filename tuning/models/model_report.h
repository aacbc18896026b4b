#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tuning/plans/progress.h"

namespace stitch::tuning {

/// The table that `stitch plan` and `stitch tune` end in. Launches and bytes by the rules of bench/models/README.md.
struct ModelReport {
  std::string model;
  std::string constraints;  ///< that its plans are made under: "deterministic"; empty: none
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
  double uncertainty_us = 0;  ///< how far predicted_us may be off: the sum over the kernels
  double predicted_unfused_us = 0;
  StageSeconds seconds;
  /// Trials that were asked for beyond the first few of each kernel (ModelSearch).
  struct Search {
    std::int64_t trials = 0, failed = 0, kernels = 0, settled = 0, improved = 0;
    double saved_us = 0;
  } search;
  struct Boundary {
    std::string op;
    std::int64_t count = 0;
  };
  /// A parameter whose memory a result may take, and what became of that (graph::DonationOutcome).
  struct Donation {
    std::string parameter, result;
    bool in_place = false;
    std::string why;
  };
  std::vector<Donation> donations;
  std::vector<Boundary> boundaries;   ///< operators that no kernel of ours computes, and how often each stands there
  std::int64_t verified_kernels = 0;  ///< distinct
  std::int64_t wrong_kernels = 0;
  /// Candidates that were passed over for one behind them: what became of them (db::Outcome's name), count.
  std::map<std::string, std::int64_t> failed_candidates;
  /// Kernels of plans that spill registers in a loop, which none of their candidates that were built does without.
  std::vector<std::string> spilling_kernels;
  /// Of those that ran and were wrong, hung or faulted the first few: something is the matter with the generator.
  std::vector<std::string> wrong_candidates;
  std::vector<std::string> fault_fragments;  ///< keys of the fragments that they are of: what is to be sent in
  std::vector<std::string> failures;         ///< fragments without a plan, and why
};

std::string to_json(const ModelReport& report);
/// Reads what to_json wrote, here or on a server. Error: parse, naming the field.
Result<ModelReport> model_report_from_json(std::string_view text);
std::string to_table(const ModelReport& report);

}  // namespace stitch::tuning
