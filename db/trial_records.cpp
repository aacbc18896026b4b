#include "db/trial_records.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "db/words.h"

namespace stitch::db {
namespace {

constexpr Words<Outcome, 7> outcome_words{
    {"untested", "correct", "constraint", "compile", "timeout", "runtime", "correctness"}};
constexpr Words<Candidate::Scope, 2> scope_words{{"kernel", "plan"}};
constexpr Words<MeasurementRecord::Subject, 3> subject_words{{"plan", "kernel", "schedule"}};
constexpr Words<MeasurementRecord::Kind, 2> measurement_words{{"device time", "event count"}};

constexpr std::uint64_t measurement_version = 1;

void add_real(Hasher& hasher, double value) { hasher.integer(std::bit_cast<std::uint64_t>(value)); }

void add_optional(Hasher& hasher, const std::optional<double>& value) {
  hasher.integer(value ? 1 : 0);
  if (value) add_real(hasher, *value);
}

}  // namespace

std::string_view to_string(Outcome outcome) { return outcome_words.of(outcome); }
std::string_view to_string(Candidate::Scope scope) { return scope_words.of(scope); }
std::string_view to_string(MeasurementRecord::Subject subject) { return subject_words.of(subject); }
std::string_view to_string(MeasurementRecord::Kind kind) { return measurement_words.of(kind); }
std::optional<Outcome> outcome_of(std::string_view text) { return outcome_words.find(text); }
std::optional<Candidate::Scope> candidate_scope_of(std::string_view text) { return scope_words.find(text); }
std::optional<MeasurementRecord::Subject> measurement_subject_of(std::string_view text) {
  return subject_words.find(text);
}
std::optional<MeasurementRecord::Kind> measurement_kind_of(std::string_view text) {
  return measurement_words.find(text);
}

Outcome outcome_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::constraint: return Outcome::constraint;
    case ErrorKind::compile: return Outcome::compile;
    case ErrorKind::timeout: return Outcome::timeout;
    case ErrorKind::correctness: return Outcome::correctness;
    default: return Outcome::runtime;
  }
}

SampleSummary summarise(std::span<const double> samples) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const std::size_t count = sorted.size();
  const double size = count;

  SampleSummary summary;
  summary.minimum = sorted.front();
  summary.median = count % 2 ? sorted[count / 2] : std::midpoint(sorted[count / 2 - 1], sorted[count / 2]);
  for (const double sample : sorted) summary.mean += sample / size;
  double squares = 0;
  for (const double sample : sorted) squares += (sample - summary.mean) * (sample - summary.mean);
  if (count > 1 && summary.mean > 0) summary.rsd = std::sqrt(squares / (size - 1)) / summary.mean;
  return summary;
}

Hash128 measurement_id(const MeasurementRecord& measurement) {
  Hasher hasher;
  hasher.text("measurement").integer(measurement_version);
  hasher.text(to_string(measurement.subject_kind)).hash(measurement.subject).text(to_string(measurement.kind));
  hasher.text(measurement.device).integer(measurement.samples.size());
  for (const double sample : measurement.samples) add_real(hasher, sample);
  hasher.integer(measurement.dropped).integer(measurement.cold_l2 ? 1 : 0);
  add_optional(hasher, measurement.sm_clock_mhz);
  add_optional(hasher, measurement.memory_clock_mhz);
  add_optional(hasher, measurement.temperature_c);
  hasher.text(measurement.driver).text(measurement.method).text(measurement.stopped).text(measurement.conditions);
  const Provenance& provenance = measurement.provenance;
  hasher.text(provenance.tool).text(provenance.toolkit).text(provenance.device);
  hasher.integer(provenance.wall_us).text(provenance.judged);
  return hasher.finish();
}

}  // namespace stitch::db
