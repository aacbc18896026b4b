#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/result.h"
#include "profiler/device/device.h"
#include "profiler/measure/measurement.h"

// Recorded candidate spaces: for each of some kernels its candidates, with what became of every one on a device. As
// values, and as files (docs/recording-format.md).
namespace stitch::profiler {

/// One candidate of a kernel and what became of it.
struct RecordedCandidate {
  Hash128 schedule;         ///< search::schedule_hash
  double predicted_us = 0;  ///< by the scorer that the recording names
  /// Absent of a right kernel. Kinds: constraint, compile, timeout, runtime, correctness.
  std::optional<Error> failure;
  int registers = 0;  ///< per thread; 0 of what did not compile
  std::int64_t shared_bytes = 0, spill_bytes = 0;
  double median = 0, noise = 0;  ///< of all samples that were taken, in the recording's unit
  std::vector<double> samples;   ///< at most most_samples of them, ascending, in single precision; empty of failures
  std::vector<double> features;  ///< one per Recording::feature_names, or empty

  bool operator==(const RecordedCandidate&) const = default;
};

/// A kernel's candidates, in the order in which they were enumerated: first those that tuning looks at, best
/// prediction first.
struct RecordedKernel {
  Hash128 key;                   ///< of the canonical graph
  std::string name;              ///< where it was found: "layer_norm.hlo.txt, kernel 0"
  std::int64_t occurrences = 1;  ///< how often one run of the model launches it
  std::string graph;             ///< canonical, as CBOR (graph/codec/codec.h)
  std::int64_t legal = 0;        ///< legal candidates that were found; those here may be a part of them
  bool whole = false;            ///< `legal` counts every combination of mappings
  std::int64_t wanted = 0;       ///< candidates that are to be here; fewer: recording goes on from there
  std::vector<RecordedCandidate> candidates;

  [[nodiscard]] bool complete() const { return std::ssize(candidates) >= wanted; }
  bool operator==(const RecordedKernel&) const = default;
};

struct Recording {
  static constexpr std::size_t most_samples = 16;

  std::string tool;          ///< version that recorded it
  std::string generator;     ///< codegen hash: what schedules mean depends on it
  std::string target;        ///< entry of the device table that candidates were enumerated for: "h100"
  std::string architecture;  ///< compiled for: "sm_90a"
  std::string toolkit;       ///< "13.0"
  std::string scorer;        ///< what predicted: "analytical v1"
  std::string verification;  ///< how candidates were verified, for people
  DeviceIdentity device;     ///< where they were measured
  Measurement::Kind kind = Measurement::Kind::device_time;  ///< event_count: counts, which are no times
  std::string unit = "us";
  std::string method;  ///< "CUPTI activity"
  bool cold_l2 = true;
  std::int64_t when_us = 0;  ///< of the last change, since 1970
  std::vector<std::string> feature_names;
  std::vector<RecordedKernel> kernels;
};

/// Fills in median, noise and samples of a candidate: of more than most_samples as many quantiles, which have the same
/// median and spread.
void keep_samples(const Measurement& measurement, RecordedCandidate& candidate);

/// What measuring the candidate gave, with the samples that were kept.
Measurement replayed(const Recording& recording, const RecordedCandidate& candidate);

/// Finds candidates by kernel and schedule. Refers to the recording, which must outlive it and not change.
class RecordingIndex {
 public:
  explicit RecordingIndex(const Recording& recording);
  /// Null: not recorded.
  [[nodiscard]] const RecordedKernel* kernel(const Hash128& key) const;
  [[nodiscard]] const RecordedCandidate* candidate(const Hash128& key, const Hash128& schedule) const;

 private:
  std::unordered_map<Hash128, const RecordedKernel*> kernels_;
  std::unordered_map<Hash128, std::unordered_map<Hash128, const RecordedCandidate*>> candidates_;
};

inline constexpr std::uint32_t recording_format_version = 1;

/// What a reader accepts.
struct RecordingLimits {
  std::uint64_t file_bytes = std::uint64_t{1} << 30;
  std::uint64_t raw_bytes = std::uint64_t{1} << 30;  ///< decompressed
};

/// Whether a file's bytes begin as a recording's do; the rest may be damaged.
bool is_recording(std::string_view bytes);

/// The bytes of a file. Errors: internal (zstd).
Result<std::string> encode_recording(const Recording& recording);

/// Errors: corrupt (no recording, truncated, damaged), version_mismatch, parse (naming the place:
/// "kernels[2].candidates[17]: …"), resource_exhausted.
Result<Recording> decode_recording(std::string_view bytes, const RecordingLimits& limits = {});

/// The same of a file; errors name its path. Also io, not_found.
Result<Recording> read_recording(const FileSystem& files, const std::filesystem::path& path);
/// Replaces the file atomically.
Status write_recording(FileSystem& files, const std::filesystem::path& path, const Recording& recording);

}  // namespace stitch::profiler
