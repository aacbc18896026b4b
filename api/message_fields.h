#pragma once

#include "api/protocol.h"
#include "graph/codec/device_traits_fields.h"
#include "graph/codec/fields.h"

// The fields of the messages, in the words of graph/codec/fields.h. Rules beside a field are what a reader of untrusted
// bytes checks at once; finish_reading checks what must hold between fields (api/plan_document.cpp, api/messages.cpp).
namespace stitch::graph::fields {
class Reader;
}

namespace stitch::api {

using graph::fields::Between;
using graph::fields::not_empty;
using graph::fields::not_negative;
using graph::fields::Of;
using graph::fields::Reader;

// ---- plans

void visit_fields(auto& archive, Of<LaunchArgument> auto& argument) {
  archive("kind", argument.kind)("value", argument.value);
}
void finish_reading(Reader& reader, const LaunchArgument& argument);

void visit_fields(auto& archive, Of<KernelLaunch> auto& launch) {
  archive("cubin", launch.cubin)("ptx", launch.ptx)("name", launch.name, not_empty);
  archive("description", launch.description)("blocks", launch.blocks, Between<std::int64_t>(1, 0x7fffffff));
  archive("threads", launch.threads, Between(1, 1024))("cluster", launch.cluster);
  archive("shared_bytes", launch.shared_bytes, not_negative)("cooperative", launch.cooperative);
  archive("arguments", launch.arguments)("bytes", launch.bytes)("predicted_us", launch.predicted_us);
  archive.defaulted("uncertainty_us", launch.uncertainty_us).defaulted("dependent", launch.dependent);
}
void finish_reading(Reader& reader, const KernelLaunch& launch);

void visit_fields(auto& archive, Of<ResultCopy> auto& copy) {
  archive("from", copy.from)("to", copy.to)("bytes", copy.bytes, not_negative)("before", copy.before);
}

void visit_fields(auto& archive, Of<ZeroedRange> auto& range) { archive("offset", range.offset)("bytes", range.bytes); }

void visit_fields(auto& archive, Of<InPlace> auto& pair) {
  archive("parameter", pair.parameter, not_negative)("result", pair.result, not_negative);
}

void visit_fields(auto& archive, Of<PlanTarget> auto& target) {
  archive("device", target.device)("architecture", target.architecture);
  archive("toolkit", target.toolkit)("version", target.version);
}

/// The part of a plan that never changes: all but identity, key, label and times.
void visit_fixed_part(auto& archive, Of<Plan> auto& plan) {
  archive("parameters", plan.parameters)("results", plan.results)("launches", plan.launches)("copies", plan.copies);
  archive("workspace_bytes", plan.workspace_bytes, not_negative)("zeroed", plan.zeroed);
  archive.optional("in_place", plan.in_place);
}

void visit_fields(auto& archive, Of<Plan> auto& plan) {
  archive("id", plan.id)("fragment", plan.fragment)("target", plan.target)("label", plan.label);
  archive("sequence", plan.sequence)("bytes", plan.bytes)("predicted_us", plan.predicted_us);
  archive.defaulted("uncertainty_us", plan.uncertainty_us);
  archive.optional("measured_us", plan.measured_us)("verified_share", plan.verified_share)("judged", plan.judged);
  visit_fixed_part(archive, plan);
}
void finish_reading(Reader& reader, const Plan& plan);

// ---- look-ups

void visit_fields(auto& archive, Of<LookupRequest> auto& request) {
  archive("fragment", request.fragment).defaulted("name", request.name);
  archive.defaulted("deadline_ms", request.deadline_ms, Between<std::int64_t>(0, 600'000));
  archive.defaulted("improve", request.improve).optional("device", request.device);
  archive.optional("predict", request.predict).optional("explain", request.explain).nothing_else();
}

void visit_fields(auto& archive, Of<LookupAnswer> auto& answer) {
  archive("source", answer.source)("fragment", answer.fragment)("family", answer.family)("target", answer.target);
  archive("parameter_order", answer.parameter_order)("result_order", answer.result_order);
  archive.optional("plan", answer.plan)("matched", answer.matched)("differed", answer.differed);
  archive.optional("closest_plan", answer.closest_plan).optional("job", answer.job);
  archive.optional("made_by", answer.made_by);
}
void finish_reading(Reader& reader, const LookupAnswer& answer);

// ---- jobs

void visit_fields(auto& archive, Of<Submitted> auto& submitted) {
  archive("job", submitted.job)("joined", submitted.joined)("subject", submitted.subject);
}

void visit_fields(auto& archive, Of<JobStatus> auto& job) {
  archive("id", job.id)("kind", job.kind)("state", job.state)("progress", job.progress)("message", job.message);
  archive.optional("result", job.result).optional("error", job.error);
  archive("attempts", job.attempts)("cancel_requested", job.cancel_requested);
  archive("created_us", job.created_us)("started_us", job.started_us)("finished_us", job.finished_us);
}

void visit_fields(auto& archive, Of<JobEvent> auto& event) {
  archive("sequence", event.sequence)("job", event.job)("wall_us", event.wall_us)("kind", event.kind);
  archive("progress", event.progress)("detail", event.detail);
}

// ---- promotions, the server

void visit_fields(auto& archive, Of<PromotionNotice> auto& notice) {
  archive("sequence", notice.sequence)("fragment", notice.fragment)("target", notice.target);
  archive("plan", notice.plan)("previous", notice.previous)("reason", notice.reason);
}

void visit_fields(auto& archive, Of<PromotionFeed> auto& feed) {
  archive("promotions", feed.promotions)("last", feed.last);
}

void visit_fields(auto& archive, Of<ServerVersion> auto& version) {
  archive("version", version.version)("protocol", version.protocol);
  archive("target", version.target)("device", version.device);
}

}  // namespace stitch::api
