#include "db/validation.h"

#include <nlohmann/json.hpp>
#include <set>

#include "db/job_records.h"

namespace stitch::db {

// ---- rules

Fault IsJson::fault(std::string_view text) { return nlohmann::json::accept(text) ? Fault() : Fault("not JSON"); }

Fault IsTime::fault(double value) {
  if (std::isfinite(value) && value >= 0) return std::nullopt;
  return fmt::format("{}, not a time", value);
}

Fault IsTime::fault(const std::vector<double>& values) {
  for (const double value : values) {
    if (Fault wrong = fault(value)) return wrong;
  }
  return std::nullopt;
}

Fault IsShare::fault(double value) {
  if (value >= 0 && value <= 1) return std::nullopt;
  return fmt::format("{}, not between 0 and 1", value);
}

Fault IsDeviceKind::fault(std::string_view word) {
  const bool known = word == "gpu" || word == "emulated" || word == "recorded";
  return known ? Fault() : Fault("none of gpu, emulated, recorded");
}

// ---- the archive

Validation& Validation::require(bool holds, std::string_view what) {
  if (!holds && status_) status_ = make_error(ErrorKind::invalid_argument, "{}: {}", name_, what);
  return *this;
}

void Validation::refuse(std::string_view name, const Rule& rule, std::string_view what) {
  require(false, fmt::format("{} is {}", rule.subject.empty() ? name : rule.subject, what));
}

// ---- records

Status validate(const Provenance& provenance) { return Validation("provenance", provenance).done(); }
Status validate(const Target& target) { return Validation("target", target).done(); }
Status validate(const Device& device) { return Validation("device", device).done(); }
Status validate(const FragmentRecord& fragment) { return Validation("fragment", fragment).done(); }
Status validate(const ProgramRecord& program) { return Validation("program", program).done(); }
Status validate(const Kernel& kernel) { return Validation("kernel", kernel).done(); }
Status validate(const CostModelRecord& model) { return Validation("model", model).done(); }
Status validate(const Job& job) { return Validation("job", job).done(); }

Status validate(const Workload& workload) {
  Validation check("workload", workload);
  std::set<Hash128> seen;
  for (const Workload::Part& part : workload.parts) {
    check.require(part.occurrences > 0, "occurrences of a part are not positive");
    check.require(seen.insert(part.fragment).second, "two parts are the same fragment");
  }
  return check.done();
}

Status validate(const Artifact& artifact) {
  return Validation("artifact", artifact)
      .require(artifact.hash == sha256(artifact.bytes), "hash is not that of its bytes")
      .done();
}

Status validate(const Upload& upload) {
  return Validation("upload", upload)
      .require(upload.hash == sha256(upload.bytes), "hash is not that of its bytes")
      .done();
}

Status validate(const PlanRecord& plan) {
  return Validation("plan", plan)
      .require((plan.label == Label::near) == plan.neighbour.has_value(), "neighbour goes with the label near only")
      .done();
}

Status validate(const Candidate& candidate) {
  return Validation("candidate", candidate)
      .require(candidate.schedule_hash == hash_bytes(candidate.schedule), "schedule_hash is not that of its schedule")
      .done();
}

Status validate(const MeasurementRecord& measurement) {
  return Validation("measurement", measurement).require(!measurement.samples.empty(), "there are no samples").done();
}

}  // namespace stitch::db
