#include <nlohmann/json.hpp>

#include "db/bundle_codec.h"

namespace stitch::db {
namespace {

using Json = nlohmann::json;

Json binary(std::string_view bytes) { return Json::binary({bytes.begin(), bytes.end()}); }

Json binary(const Hash128& hash) {
  Json::binary_t bytes;
  for (const std::uint64_t word : {hash.high, hash.low}) {
    for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  }
  return bytes;
}

Json optional(const std::optional<Hash128>& hash) { return hash ? binary(*hash) : Json(); }
Json optional(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json to_json(const Provenance& p) {
  return {{"tool", p.tool}, {"toolkit", p.toolkit}, {"device", p.device}, {"wall_us", p.wall_us}, {"judged", p.judged}};
}

Json to_json(const Target& t) {
  return {{"device", t.device}, {"architecture", t.architecture}, {"toolkit", t.toolkit}, {"version", t.version}};
}

Json to_json(const Fragment& f) {
  return {{"key", binary(f.key)},
          {"family", binary(f.family)},
          {"name", f.name},
          {"graph", binary(f.graph)},
          {"operator_count", f.operator_count},
          {"parameter_bytes", f.parameter_bytes},
          {"provenance", to_json(f.provenance)}};
}

Json to_json(const Device& d) {
  return {{"key", d.key},
          {"kind", d.kind},
          {"target", d.target},
          {"name", d.name},
          {"architecture", d.architecture},
          {"driver", d.driver},
          {"sm_count", d.sm_count},
          {"memory_bytes", d.memory_bytes},
          {"constants", d.constants},
          {"calibrated_us", d.calibrated_us},
          {"provenance", to_json(d.provenance)}};
}

Json to_json(const Artifact& a) {
  return {{"hash", binary(a.hash)},
          {"kind", to_string(a.kind)},
          {"bytes", binary(a.bytes)},
          {"provenance", to_json(a.provenance)}};
}

Json to_json(const Kernel& k) {
  return {{"hash", binary(k.hash)},
          {"name", k.name},
          {"architecture", k.architecture},
          {"options", k.options},
          {"source", binary(k.source)},
          {"ptx", binary(k.ptx)},
          {"cubin", binary(k.cubin)},
          {"launch", k.launch},
          {"registers", k.resources.registers},
          {"shared_bytes", k.resources.shared_bytes},
          {"stack_bytes", k.resources.stack_bytes},
          {"spill_store_bytes", k.resources.spill_store_bytes},
          {"spill_load_bytes", k.resources.spill_load_bytes},
          {"provenance", to_json(k.provenance)}};
}

Json to_json(const Plan& p) {
  Json steps = Json::array();
  for (const PlanStep& step : p.steps)
    steps.push_back({{"kernel", binary(step.kernel)}, {"arguments", step.arguments}});
  return {{"id", binary(p.id)},
          {"fragment", binary(p.key.fragment)},
          {"target", to_json(p.key.target)},
          {"steps", std::move(steps)},
          {"document", p.document},
          {"bytes", p.bytes},
          {"label", to_string(p.label)},
          {"status", to_string(p.status)},
          {"predicted_us", p.predicted_us},
          {"verified_share", p.verified_share},
          {"neighbour", optional(p.neighbour)},
          {"provenance", to_json(p.provenance)}};
}

Json to_json(const Candidate& c) {
  return {{"fragment", binary(c.key.fragment)},
          {"target", to_json(c.key.target)},
          {"scope", to_string(c.scope)},
          {"schedule", c.schedule},
          {"schedule_hash", binary(c.schedule_hash)},
          {"outcome", to_string(c.outcome)},
          {"detail", c.detail},
          {"seed", c.seed},
          {"predicted_us", optional(c.predicted_us)},
          {"kernel", optional(c.kernel)},
          {"verified_share", c.verified_share},
          {"provenance", to_json(c.provenance)}};
}

Json to_json(const Measurement& m) {
  return {{"id", binary(m.id)},
          {"subject_kind", to_string(m.subject_kind)},
          {"subject", binary(m.subject)},
          {"kind", to_string(m.kind)},
          {"device", m.device},
          {"samples", m.samples},
          {"dropped", m.dropped},
          {"cold_l2", m.cold_l2},
          {"sm_clock_mhz", optional(m.sm_clock_mhz)},
          {"memory_clock_mhz", optional(m.memory_clock_mhz)},
          {"temperature_c", optional(m.temperature_c)},
          {"driver", m.driver},
          {"method", m.method},
          {"stopped", m.stopped},
          {"conditions", m.conditions},
          {"provenance", to_json(m.provenance)}};
}

template <class T>
Json list(const std::vector<T>& records) {
  Json array = Json::array();
  for (const T& record : records) array.push_back(to_json(record));
  return array;
}

}  // namespace

std::string encode_bundle(const FragmentBundle& bundle) {
  const Json document = {{"fragment", to_json(bundle.fragment)},
                         {"devices", list(bundle.devices)},
                         {"artifacts", list(bundle.artifacts)},
                         {"kernels", list(bundle.kernels)},
                         {"plans", list(bundle.plans)},
                         {"candidates", list(bundle.candidates)},
                         {"measurements", list(bundle.measurements)}};
  std::string bytes;
  Json::to_cbor(document, bytes);
  return bytes;
}

}  // namespace stitch::db
