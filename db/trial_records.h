#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "db/records.h"

// What the store keeps about trials: candidates with their outcomes, measurements with every sample, and the
// cost models trained from it all.
namespace stitch::db {

/// What became of a candidate. The five failures stay apart all the way from the device to here.
enum class Outcome : std::uint8_t { untested, correct, constraint, compile, timeout, runtime, correctness };

/// One schedule that was looked at. Identity: key and schedule hash; recording it again replaces the outcome, except
/// that `untested` never replaces a tested one.
struct Candidate {
  enum class Scope : std::uint8_t { kernel, plan };
  PlanKey key;
  Scope scope = Scope::kernel;
  std::string schedule = "{}";  ///< JSON
  Hash128 schedule_hash;        ///< hash_bytes(schedule)
  Outcome outcome = Outcome::untested;
  std::string detail;      ///< of a failure: the compiler's or checker's words; else JSON: what compiling told
  std::uint64_t seed = 0;  ///< of the inputs it was verified with
  std::optional<double> predicted_us;
  std::optional<Hash128> kernel;  ///< what it compiled to, when that was stored
  double verified_share = 0;      ///< 0 … 1
  Provenance provenance;

  bool operator==(const Candidate&) const = default;
};

/// Statistics of samples; all zero for none. `rsd` is the standard deviation (n − 1) over the mean.
struct SampleSummary {
  double mean = 0;
  double median = 0;
  double minimum = 0;
  double rsd = 0;

  bool operator==(const SampleSummary&) const = default;
};
SampleSummary summarise(std::span<const double> samples);

/// Samples of one subject on one device. `id` is measurement_id(), checked on read.
struct MeasurementRecord {
  enum class Subject : std::uint8_t { plan, kernel, schedule };
  /// What samples are: µs of device time, or an emulator's event counts, which are never reported as time.
  enum class Kind : std::uint8_t { device_time, event_count };

  Hash128 id;
  Subject subject_kind = Subject::plan;
  Hash128 subject;  ///< plan id, kernel hash or schedule hash
  Kind kind = Kind::device_time;
  std::string device;           ///< Device::key; the device is stored
  std::vector<double> samples;  ///< every one, in the order taken; finite, ≥ 0; at least one
  SampleSummary summary;        ///< of the samples; the store fills it in
  std::int64_t dropped = 0;     ///< samples discarded because the device throttled
  bool cold_l2 = true;
  std::optional<double> sm_clock_mhz, memory_clock_mhz, temperature_c;  ///< means while measuring
  std::string driver;
  std::string method;             ///< "CUPTI activity", "emulator counters"
  std::string stopped;            ///< why sampling ended: "noise 0.5 %", "time limit", …
  std::string conditions = "{}";  ///< JSON: whatever else is known (counters, CUDA graph or not)
  Provenance provenance;

  bool operator==(const MeasurementRecord&) const = default;
};

/// A plan with everything it refers to, to be stored at once. Kernels and artifacts that the store already has may be
/// left out. A plan labelled `measured` brings, or already has, a measurement of device time.
struct PlanBundle {
  PlanRecord plan;
  std::vector<Kernel> kernels;
  std::vector<Artifact> artifacts;
  std::vector<MeasurementRecord> measurements;

  bool operator==(const PlanBundle&) const = default;
};

/// A trained cost model. Identity: name, device, version; versions count up from 1, given by the store.
struct CostModelRecord {
  std::string name;    ///< "xgboost-residual"
  std::string device;  ///< target it was trained for; empty: all
  int version = 0;
  Hash128 training_set;         ///< hash of what it was trained on
  std::string bytes;            ///< opaque; stored compressed, checked on read
  std::string accuracy = "{}";  ///< JSON: rank correlation, recall, regret
  std::uint64_t seed = 0;
  Provenance provenance;

  bool operator==(const CostModelRecord&) const = default;
};

std::string_view to_string(Outcome outcome);
std::string_view to_string(Candidate::Scope scope);
std::string_view to_string(MeasurementRecord::Subject subject);
std::string_view to_string(MeasurementRecord::Kind kind);
std::optional<Outcome> outcome_of(std::string_view text);
std::optional<Candidate::Scope> candidate_scope_of(std::string_view text);
std::optional<MeasurementRecord::Subject> measurement_subject_of(std::string_view text);
std::optional<MeasurementRecord::Kind> measurement_kind_of(std::string_view text);
/// The outcome that a failure of this kind is; Outcome::runtime for kinds that are no candidate outcome.
Outcome outcome_of(ErrorKind kind);

/// Identity by content: all fields but the summary.
Hash128 measurement_id(const MeasurementRecord& measurement);

/// What the store checks before it writes a record; invalid_argument names record and field.
Status validate(const Candidate& candidate);
Status validate(const MeasurementRecord& measurement);
Status validate(const CostModelRecord& model);

}  // namespace stitch::db
