#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "search/trials/candidate_space.h"

// Parameter spaces of other tuners' kernels, measured on a real device: what a search over parameters is judged on.
// (Recordings of our own kernels: profiler/measure/recording.h.)
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

/// Reads a Kernel Tuner cache file or T4 results; the contents tell which. Errors: parse, naming the byte of malformed
/// or cut-off JSON, or the entry and field that is missing or of a wrong type; invalid_argument for what is neither.
Result<RecordedSpace> parse_recorded_space(std::string_view text);

/// The same from a file's bytes, gzipped or not. Errors also: corrupt (a damaged gzip stream), resource_exhausted (more
/// than 1 GiB of text).
Result<RecordedSpace> decode_recorded_space(std::string_view bytes);

/// The same from a file; every message begins with its name. Errors also: not_found, io.
Result<RecordedSpace> read_recorded_space(const FileSystem& files, const std::filesystem::path& path);

}  // namespace stitch::lab
