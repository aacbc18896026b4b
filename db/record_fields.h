#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <vector>

#include "db/store_types.h"
#include "graph/codec/fields.h"

// The fields of the records, in the words of graph/codec/fields.h: columns of tables (db/record_columns.h), members of
// the portable file's documents (db/bundle_codec.h), and what is checked before a record is written (db/validation.h).
// A new field is a member of the struct, a line here, and a step in db/migrations.cpp that adds the column.
namespace stitch::db {

using graph::fields::called;
using graph::fields::Fault;
using graph::fields::not_empty;
using graph::fields::not_negative;
using graph::fields::Of;
using graph::fields::Rule;

// ---- notes for tables

/// The column's name, where it is not the field's.
struct Column {
  std::string_view name;
};
/// SQLite gives the number: not among the values of an INSERT.
struct Counted {};
/// No column of this name: the table keeps it in another form.
struct Apart {};

// ---- rules

struct IsJson : Rule {
  [[nodiscard]] static Fault fault(std::string_view text);
};
struct IsTime : Rule {
  [[nodiscard]] static Fault fault(double value);
  [[nodiscard]] static Fault fault(const std::vector<double>& values);
};
struct IsShare : Rule {
  [[nodiscard]] static Fault fault(double value);
};
struct IsFinite : Rule {
  [[nodiscard]] static Fault fault(double value) { return std::isfinite(value) ? Fault() : Fault("not finite"); }
};
struct IsPositive : Rule {
  [[nodiscard]] static Fault fault(int value) { return value >= 1 ? Fault() : Fault("less than 1"); }
};
struct IsDeviceKind : Rule {
  [[nodiscard]] static Fault fault(std::string_view word);
};
inline constexpr IsJson is_json;
inline constexpr IsTime is_time;
inline constexpr IsShare is_share;

// ---- parts of records

void visit_fields(auto& archive, Of<Provenance> auto& provenance) {
  archive("tool", provenance.tool, not_empty)("toolkit", provenance.toolkit);
  archive("device", provenance.device, Column{"judged_on"});
  archive("wall_us", provenance.wall_us, not_negative)("judged", provenance.judged);
}

void visit_fields(auto& archive, Of<Target> auto& target) {
  archive("device", target.device, not_empty)("architecture", target.architecture, not_empty);
  archive("toolkit", target.toolkit, not_empty)("version", target.version, not_empty);
}

// ---- fragments and plans

void visit_fields(auto& archive, Of<Device> auto& device) {
  archive("key", device.key, not_empty)("kind", device.kind, IsDeviceKind{})("target", device.target);
  archive("name", device.name)("architecture", device.architecture)("driver", device.driver);
  archive("sm_count", device.sm_count, called("a count", not_negative));
  archive("memory_bytes", device.memory_bytes, called("a count", not_negative));
  archive("constants", device.constants, is_json);
  archive("calibrated_us", device.calibrated_us, called("a count", not_negative));
  archive("provenance", device.provenance);
}

void visit_summary(auto& archive, auto& fragment) {
  archive("key", fragment.key)("family", fragment.family)("name", fragment.name);
  archive("operator_count", fragment.operator_count, called("a count", not_negative));
  archive("parameter_bytes", fragment.parameter_bytes, called("a count", not_negative));
  archive("provenance", fragment.provenance);
}

void visit_fields(auto& archive, Of<FragmentSummary> auto& fragment) { visit_summary(archive, fragment); }

void visit_fields(auto& archive, Of<FragmentRecord> auto& fragment) {
  archive.bytes("graph", fragment.graph, not_empty, Apart{});
  visit_summary(archive, fragment);
}

void visit_fields(auto& archive, Of<Workload::Part> auto& part) {
  archive("fragment", part.fragment)("occurrences", part.occurrences);
}

void visit_fields(auto& archive, Of<Workload> auto& workload) {
  archive("key", workload.key)("name", workload.name)("format", workload.format, not_empty);
  archive("report", workload.report, is_json)("parts", workload.parts)("provenance", workload.provenance);
}

void visit_fields(auto& archive, Of<ProgramRecord> auto& program) {
  archive("model", program.model)("id", program.id)("device", program.device, not_empty)("name", program.name);
  archive.bytes("document", program.document, Apart{})("provenance", program.provenance);
}

void visit_fields(auto& archive, Of<Artifact> auto& artifact) {
  archive("hash", artifact.hash)("kind", artifact.kind).bytes("bytes", artifact.bytes, Apart{});
  archive("provenance", artifact.provenance);
}

void visit_fields(auto& archive, Of<Upload> auto& upload) {
  archive("hash", upload.hash).bytes("bytes", upload.bytes, Apart{})("provenance", upload.provenance);
}

void visit_fields(auto& archive, Of<Kernel::Resources> auto& resources) {
  constexpr auto rule = called("a resource", not_negative);
  archive("registers", resources.registers, rule)("shared_bytes", resources.shared_bytes, rule);
  archive("stack_bytes", resources.stack_bytes, rule)("spill_store_bytes", resources.spill_store_bytes, rule);
  archive("spill_load_bytes", resources.spill_load_bytes, rule);
}

void visit_fields(auto& archive, Of<Kernel> auto& kernel) {
  archive("hash", kernel.hash)("name", kernel.name, not_empty)("architecture", kernel.architecture, not_empty);
  archive("options", kernel.options)("source", kernel.source)("ptx", kernel.ptx)("cubin", kernel.cubin);
  archive("launch", kernel.launch, is_json);
  visit_fields(archive, kernel.resources);
  archive("provenance", kernel.provenance);
}

void visit_fields(auto& archive, Of<PlanStep> auto& step) {
  archive("kernel", step.kernel)("arguments", step.arguments, called("arguments of a step", is_json));
}

void visit_fields(auto& archive, Of<PlanRecord> auto& plan) {
  archive("id", plan.id)("fragment", plan.key.fragment)("target", plan.key.target);
  archive("document", plan.document, is_json)("steps", plan.steps)("bytes", plan.bytes, not_negative);
  archive("label", plan.label)("status", plan.status)("predicted_us", plan.predicted_us, is_time);
  archive.stored("measured_us", plan.measured_us).stored("sequence", plan.sequence);
  archive("verified_share", plan.verified_share, is_share)("neighbour", plan.neighbour);
  archive("provenance", plan.provenance);
}

void visit_fields(auto& archive, Of<PlanJudgement> auto& judgement) {
  archive("label", judgement.label)("neighbour", judgement.neighbour)("predicted_us", judgement.predicted_us);
  archive("verified_share", judgement.verified_share)("provenance", judgement.provenance);
}

void visit_fields(auto& archive, Of<Promotion> auto& promotion) {
  archive("sequence", promotion.sequence, Counted{})("fragment", promotion.key.fragment);
  archive("target", promotion.key.target)("plan", promotion.plan)("previous", promotion.previous);
  archive("reason", promotion.reason)("provenance", promotion.provenance);
}

// ---- trials

void visit_fields(auto& archive, Of<Candidate> auto& candidate) {
  archive("fragment", candidate.key.fragment)("target", candidate.key.target)("scope", candidate.scope);
  archive("schedule", candidate.schedule, is_json)("schedule_hash", candidate.schedule_hash);
  archive("outcome", candidate.outcome)("detail", candidate.detail)("seed", candidate.seed);
  archive("predicted_us", candidate.predicted_us, is_time)("kernel", candidate.kernel);
  archive("verified_share", candidate.verified_share, is_share)("provenance", candidate.provenance);
}

void visit_fields(auto& archive, Of<SampleSummary> auto& summary) {
  archive("mean", summary.mean)("median", summary.median)("minimum", summary.minimum)("rsd", summary.rsd);
}

void visit_fields(auto& archive, Of<MeasurementRecord> auto& measurement) {
  constexpr auto reading = called("a clock or the temperature", IsFinite{});
  archive("id", measurement.id)("subject_kind", measurement.subject_kind)("subject", measurement.subject);
  archive("kind", measurement.kind)("device", measurement.device, not_empty);
  archive("samples", measurement.samples, called("a sample", is_time)).stored("summary", measurement.summary);
  archive("dropped", measurement.dropped, not_negative)("cold_l2", measurement.cold_l2);
  archive("sm_clock_mhz", measurement.sm_clock_mhz, reading);
  archive("memory_clock_mhz", measurement.memory_clock_mhz, reading);
  archive("temperature_c", measurement.temperature_c, reading);
  archive("driver", measurement.driver)("method", measurement.method)("stopped", measurement.stopped);
  archive("conditions", measurement.conditions, is_json)("provenance", measurement.provenance);
}

void visit_fields(auto& archive, Of<CostModelRecord> auto& model) {
  archive("name", model.name, not_empty)("device", model.device)("version", model.version);
  archive("training_set", model.training_set).bytes("bytes", model.bytes, not_empty, Apart{});
  archive("accuracy", model.accuracy, is_json)("seed", model.seed)("provenance", model.provenance);
}

/// A fragment with all that belongs to it, as it moves between stores.
void visit_fields(auto& archive, Of<FragmentBundle> auto& bundle) {
  archive("fragment", bundle.fragment)("devices", bundle.devices)("artifacts", bundle.artifacts);
  archive("kernels", bundle.kernels)("plans", bundle.plans)("candidates", bundle.candidates);
  archive("measurements", bundle.measurements);
}

// ---- jobs

void visit_fields(auto& archive, Of<Job> auto& job) {
  archive("id", job.id, Counted{})("kind", job.kind, not_empty)("dedupe_key", job.dedupe_key);
  archive("priority", job.priority).bytes("payload", job.payload);
  archive("state", job.state)("progress", job.progress)("message", job.message).bytes("result", job.result);
  archive("error", job.error)("attempts", job.attempts)("stalled", job.stalled);
  archive("max_stalled", job.max_stalled, IsPositive{})("owner", job.owner)("fence", job.fence);
  archive("lease_until_us", job.lease_until_us)("cancel_requested", job.cancel_requested);
  archive("created_us", job.created_us)("started_us", job.started_us)("finished_us", job.finished_us);
  archive("provenance", job.provenance);
}

void visit_fields(auto& archive, Of<JobEvent> auto& event) {
  archive("sequence", event.sequence, Counted{})("job", event.job)("wall_us", event.wall_us);
  archive("kind", event.kind)("progress", event.progress)("detail", event.detail);
}

}  // namespace stitch::db
