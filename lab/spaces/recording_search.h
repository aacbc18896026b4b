#pragma once

#include <string>
#include <vector>

#include "lab/spaces/space_search.h"
#include "profiler/measure/recording.h"
#include "search/trials/transfer_prior.h"

// Searching the schedules of recorded kernels, by the engine that searches other tuners' parameters.
namespace stitch::lab {

/// A recorded kernel as a space: a candidate is described by what the cost models see of it before compilation, and
/// its predicted time stands where a neighbour's measured one would.
struct RecordedCandidates {
  RecordedSpace recorded;  ///< times in the recording's unit
  search::TransferPrior predicted;
};

/// Errors (invalid_argument): fewer than two candidates, one without features, without a prediction or without a time,
/// no candidate that is right.
Result<RecordedCandidates> recorded_candidates(const profiler::Recording& recording,
                                               const profiler::RecordedKernel& kernel);

/// What the engine knows of the candidates beforehand.
struct BeforeSearch {
  bool predictions = true;  ///< their predicted times
  /// How far predictions were off elsewhere, for the same kernel on another device and for kernels of its family; may
  /// be null, and may be the recording itself.
  const profiler::Recording* neighbour = nullptr;
};

/// What searching one recorded kernel found.
struct KernelReplay {
  std::string name;
  Hash128 key;
  std::size_t transferred = 0;        ///< trials of neighbours that took part
  std::string skipped;                ///< why it was not searched; empty: it was
  SpaceSearchReport search;           ///< by the engine
  std::vector<double> by_prediction;  ///< the curve of trials in the order of the predictions
};

struct RecordingSearchReport {
  std::string device, unit, scorer;
  std::vector<KernelReplay> kernels;

  /// Kernels that were searched.
  [[nodiscard]] std::size_t searched() const;
};

/// Searches every kernel of a recording by itself. A kernel without neighbours in the other recording is searched with
/// the predictions alone. Errors: invalid_argument (no kernel could be searched, and why the first could not; a
/// neighbour with other features, or without predictions).
Result<RecordingSearchReport> search_recording(const profiler::Recording& recording, const BeforeSearch& before,
                                               const SpaceSearchOptions& options);

std::string to_json(const RecordingSearchReport& report);
std::string to_table(const RecordingSearchReport& report);

}  // namespace stitch::lab
