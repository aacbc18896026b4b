#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "search/trials/candidate_space.h"

// Parameter spaces of other tuners' kernels, measured on a real device: what a search over parameters is judged on.
// lab/spaces/space_file.h reads them. (Recordings of our own kernels: profiler/measure/recording.h.)
namespace stitch::lab {

/// What became of one configuration.
struct RecordedTrial {
  std::optional<ErrorKind> failure;  ///< constraint, compile, timeout, runtime or correctness
  double time_us = 0;                ///< mean, as recorded; of a right one
  std::vector<double> samples_us;    ///< as far as the file keeps them

  bool operator==(const RecordedTrial&) const = default;
};

struct RecordedSpace {
  std::string device;  ///< "NVIDIA A100-PCIE-40GB"; empty where the file does not say
  std::string kernel;  ///< "convolution_kernel"; likewise
  search::CandidateSpace space;
  std::vector<RecordedTrial> trials;  ///< per candidate of `space`

  /// The fastest candidate; nothing when none is right.
  [[nodiscard]] std::optional<std::size_t> fastest() const;
  [[nodiscard]] std::size_t failures() const;
};

}  // namespace stitch::lab
