#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lab/spaces/recorded_space.h"
#include "search/trials/transfer_prior.h"
#include "search/trials/trial_search.h"

namespace stitch::lab {

struct SpaceSearchOptions {
  std::size_t budget = 0;  ///< trials, failures included; 0: a fortieth of the space, at least 20
  int seeds = 1;           ///< searches, seeded 0, 1, …; they run side by side
  bool stop = false;       ///< end a search as soon as it is settled
  search::TrialSearchOptions search;
};

/// One search of a recorded space.
struct SpaceSearchRun {
  int seed = 0;
  std::vector<double> curve;              ///< after each trial: fastest time of the space ÷ fastest found; 0: none yet
  std::size_t best = 0;                   ///< candidate
  std::size_t failed = 0;                 ///< trials
  std::optional<std::size_t> settled_at;  ///< trials after which the engine would have stopped for the first time
  double proposal_ms = 0;                 ///< processor time of the engine per proposal
  double most_proposal_ms = 0;            ///< of the costliest

  /// Best found, relative to the fastest of the space.
  [[nodiscard]] double found() const { return curve.empty() ? 0 : curve.back(); }
  /// Trials until so much of the fastest was reached.
  [[nodiscard]] std::optional<std::size_t> trials_to(double share) const;
};

struct SpaceSearchReport {
  std::string device, kernel;
  std::size_t configurations = 0, failures = 0, budget = 0;
  double fastest_us = 0;
  std::size_t transferred = 0;    ///< candidates whose times a neighbour gave
  std::vector<std::string> best;  ///< per run: the configuration it found
  std::vector<SpaceSearchRun> runs;

  [[nodiscard]] double mean() const;
  [[nodiscard]] double worst() const;
  /// Median over the runs; nothing where half of them did not get there.
  [[nodiscard]] std::optional<std::size_t> trials_to(double share) const;
  /// Mean of the runs' curves.
  [[nodiscard]] std::vector<double> mean_curve() const;
};

/// What the trials of the same kernel elsewhere say of a space. Errors: those of search::make_transfer_prior.
Result<search::TransferPrior> prior_of(const RecordedSpace& recorded, const RecordedSpace& neighbour);

/// Searches a recorded space, its trials answered from the file. `prior`: what is known beforehand; may be null. Errors
/// (invalid_argument): no configuration succeeded, no seed.
Result<SpaceSearchReport> search_space(const RecordedSpace& recorded, const search::TransferPrior* prior,
                                       const SpaceSearchOptions& options);

/// The first trial of a curve that reached this share.
std::optional<std::size_t> trials_to(const std::vector<double>& curve, double share);
/// "17"; "never"
std::string or_never(const std::optional<std::size_t>& trials);

nlohmann::ordered_json to_document(const SpaceSearchReport& report);
std::string to_json(const SpaceSearchReport& report);
std::string to_table(const SpaceSearchReport& report);

}  // namespace stitch::lab
