#include <nlohmann/json.hpp>

#include "db/blob.h"
#include "db/bundle_codec.h"
#include "graph/codec/codec.h"

namespace stitch::db {
namespace {

using Json = nlohmann::json;

/// Reads the members of one object. The first thing that is not as it should be is kept in `error`, with its place;
/// until then the readers return zeros.
class Reader {
 public:
  Reader(const Json& object, std::string place, std::optional<Error>& error)
      : object_(object), place_(std::move(place)), error_(error) {}

  std::string text(const char* name) {
    const Json* value = member(name, &Json::is_string, "text");
    return value ? value->get_ref<const std::string&>() : std::string();
  }
  std::string bytes(const char* name) {
    const Json* value = member(name, &Json::is_binary, "bytes");
    return value ? std::string(value->get_binary().begin(), value->get_binary().end()) : std::string();
  }
  std::int64_t integer(const char* name) {
    const Json* value = member(name, &Json::is_number_integer, "an integer");
    return value ? value->get<std::int64_t>() : 0;
  }
  int small(const char* name) {
    const std::int64_t value = integer(name);
    if (value != static_cast<int>(value)) fail(name, "is out of range");
    return static_cast<int>(value);
  }
  std::uint64_t word(const char* name) {
    const Json* value = member(name, &Json::is_number_integer, "an integer");
    return value ? value->get<std::uint64_t>() : 0;
  }
  double real(const char* name) {
    const Json* value = member(name, &Json::is_number, "a number");
    return value ? value->get<double>() : 0;
  }
  bool flag(const char* name) {
    const Json* value = member(name, &Json::is_boolean, "true or false");
    return value && value->get<bool>();
  }
  Hash128 hash(const char* name) {
    const std::string raw = bytes(name);
    Hash128 hash;
    if (raw.size() != 16) {
      fail(name, "is not a hash");
      return hash;
    }
    for (std::size_t i = 0; i < 8; ++i) {
      hash.high = hash.high << 8 | static_cast<unsigned char>(raw[i]);
      hash.low = hash.low << 8 | static_cast<unsigned char>(raw[8 + i]);
    }
    return hash;
  }
  std::optional<Hash128> optional_hash(const char* name) {
    if (is_null(name)) return std::nullopt;
    return hash(name);
  }
  std::optional<double> optional_real(const char* name) {
    if (is_null(name)) return std::nullopt;
    return real(name);
  }
  template <class Enum>
  Enum word(const char* name, std::optional<Enum> (*parse)(std::string_view)) {
    const std::string value = text(name);
    const std::optional<Enum> parsed = parse(value);
    if (!parsed) fail(name, fmt::format("is the unknown word \"{}\"", value));
    return parsed.value_or(Enum{});
  }
  std::vector<double> reals(const char* name) {
    std::vector<double> values;
    const Json* array = member(name, &Json::is_array, "a list");
    if (!array) return values;
    for (const Json& value : *array) {
      if (!value.is_number()) fail(name, "holds what is no number");
      values.push_back(value.is_number() ? value.get<double>() : 0);
    }
    return values;
  }
  Reader object(const char* name) {
    const Json* value = member(name, &Json::is_object, "an object");
    return {value ? *value : nothing(), place_of(name), error_};
  }
  /// A list of records, each read and validated.
  template <class T, class Read>
  std::vector<T> list(const char* name, const Read& read) {
    std::vector<T> records;
    const Json* array = member(name, &Json::is_array, "a list");
    for (std::size_t i = 0; array && i < array->size() && !error_; ++i) {
      Reader item((*array)[i], fmt::format("{}[{}]", place_of(name), i), error_);
      if (!item.object_.is_object()) item.fail("", "is not an object");
      records.push_back(read(item));
    }
    return records;
  }

  /// Takes what validation says.
  void check(const Status& status) {
    if (!status && !error_) error_ = make_error(ErrorKind::corrupt, "{}: {}", place_, status.error().message);
  }
  void fail(const char* name, std::string_view what) {
    if (!error_) error_ = make_error(ErrorKind::corrupt, "{} {}", place_of(name), what);
  }

 private:
  static const Json& nothing() {
    static const Json empty = Json::object();
    return empty;
  }
  std::string place_of(std::string_view name) const {
    return place_.empty() || name.empty() ? place_ + std::string(name) : fmt::format("{}.{}", place_, name);
  }
  bool is_null(const char* name) const {
    if (!object_.is_object()) return true;
    const auto found = object_.find(name);
    return found == object_.end() || found->is_null();
  }
  const Json* member(const char* name, bool (Json::*is)() const noexcept, std::string_view what) {
    const bool there = object_.is_object() && object_.contains(name);
    if (there && (object_[name].*is)()) return &object_[name];
    fail(name, there ? fmt::format("is not {}", what) : "is missing");
    return nullptr;
  }

  const Json& object_;
  std::string place_;
  std::optional<Error>& error_;
};

Provenance read_provenance(Reader from) {
  return {from.text("tool"), from.text("toolkit"), from.text("device"), from.integer("wall_us"), from.text("judged")};
}

Target read_target(Reader from) {
  return {from.text("device"), from.text("architecture"), from.text("toolkit"), from.text("version")};
}

Fragment read_fragment(Reader from) {
  Fragment fragment;
  fragment.key = from.hash("key");
  fragment.family = from.hash("family");
  fragment.name = from.text("name");
  fragment.graph = from.bytes("graph");
  fragment.operator_count = from.integer("operator_count");
  fragment.parameter_bytes = from.integer("parameter_bytes");
  fragment.provenance = read_provenance(from.object("provenance"));
  from.check(validate(fragment));
  return fragment;
}

Device read_device(Reader& from) {
  Device device;
  device.key = from.text("key");
  device.kind = from.text("kind");
  device.target = from.text("target");
  device.name = from.text("name");
  device.architecture = from.text("architecture");
  device.driver = from.text("driver");
  device.sm_count = from.small("sm_count");
  device.memory_bytes = from.integer("memory_bytes");
  device.constants = from.text("constants");
  device.calibrated_us = from.integer("calibrated_us");
  device.provenance = read_provenance(from.object("provenance"));
  from.check(validate(device));
  return device;
}

Artifact read_artifact(Reader& from) {
  Artifact artifact;
  artifact.hash = from.hash("hash");
  artifact.kind = from.word("kind", artifact_kind_of);
  artifact.bytes = from.bytes("bytes");
  artifact.provenance = read_provenance(from.object("provenance"));
  from.check(validate(artifact));
  return artifact;
}

Kernel read_kernel(Reader& from) {
  Kernel kernel;
  kernel.hash = from.hash("hash");
  kernel.name = from.text("name");
  kernel.architecture = from.text("architecture");
  kernel.options = from.text("options");
  kernel.source = from.hash("source");
  kernel.ptx = from.hash("ptx");
  kernel.cubin = from.hash("cubin");
  kernel.launch = from.text("launch");
  kernel.resources.registers = from.small("registers");
  kernel.resources.shared_bytes = from.integer("shared_bytes");
  kernel.resources.stack_bytes = from.integer("stack_bytes");
  kernel.resources.spill_store_bytes = from.integer("spill_store_bytes");
  kernel.resources.spill_load_bytes = from.integer("spill_load_bytes");
  kernel.provenance = read_provenance(from.object("provenance"));
  from.check(validate(kernel));
  if (kernel_hash(kernel) != kernel.hash) from.fail("hash", "is not that of the record");
  return kernel;
}

Plan read_plan(Reader& from) {
  Plan plan;
  plan.id = from.hash("id");
  plan.key.fragment = from.hash("fragment");
  plan.key.target = read_target(from.object("target"));
  plan.steps = from.list<PlanStep>("steps", [](Reader& step) {
    return PlanStep{step.hash("kernel"), step.text("arguments")};
  });
  plan.document = from.text("document");
  plan.bytes = from.integer("bytes");
  plan.label = from.word("label", label_of);
  plan.status = from.word("status", plan_status_of);
  plan.predicted_us = from.real("predicted_us");
  plan.verified_share = from.real("verified_share");
  plan.neighbour = from.optional_hash("neighbour");
  plan.provenance = read_provenance(from.object("provenance"));
  from.check(validate(plan));
  if (plan_id(plan) != plan.id) from.fail("id", "is not that of the record");
  return plan;
}

Candidate read_candidate(Reader& from) {
  Candidate candidate;
  candidate.key.fragment = from.hash("fragment");
  candidate.key.target = read_target(from.object("target"));
  candidate.scope = from.word("scope", candidate_scope_of);
  candidate.schedule = from.text("schedule");
  candidate.schedule_hash = from.hash("schedule_hash");
  candidate.outcome = from.word<Outcome>("outcome", outcome_of);
  candidate.detail = from.text("detail");
  candidate.seed = from.word("seed");
  candidate.predicted_us = from.optional_real("predicted_us");
  candidate.kernel = from.optional_hash("kernel");
  candidate.verified_share = from.real("verified_share");
  candidate.provenance = read_provenance(from.object("provenance"));
  from.check(validate(candidate));
  return candidate;
}

Measurement read_measurement(Reader& from) {
  Measurement measurement;
  measurement.id = from.hash("id");
  measurement.subject_kind = from.word("subject_kind", measurement_subject_of);
  measurement.subject = from.hash("subject");
  measurement.kind = from.word("kind", measurement_kind_of);
  measurement.device = from.text("device");
  measurement.samples = from.reals("samples");
  measurement.summary = summarise(measurement.samples);
  measurement.dropped = from.integer("dropped");
  measurement.cold_l2 = from.flag("cold_l2");
  measurement.sm_clock_mhz = from.optional_real("sm_clock_mhz");
  measurement.memory_clock_mhz = from.optional_real("memory_clock_mhz");
  measurement.temperature_c = from.optional_real("temperature_c");
  measurement.driver = from.text("driver");
  measurement.method = from.text("method");
  measurement.stopped = from.text("stopped");
  measurement.conditions = from.text("conditions");
  measurement.provenance = read_provenance(from.object("provenance"));
  from.check(validate(measurement));
  if (measurement_id(measurement) != measurement.id) from.fail("id", "is not that of the record");
  return measurement;
}

}  // namespace

Result<FragmentBundle> decode_bundle(std::string_view bytes) {
  const auto document = graph::parse_document(bytes, graph::Encoding::cbor, most_blob_bytes);
  if (!document)
    return Error{
        document.error().kind == ErrorKind::resource_exhausted ? ErrorKind::resource_exhausted : ErrorKind::corrupt,
        document.error().message};
  std::optional<Error> error;
  Reader from(*document, "", error);
  FragmentBundle bundle;
  bundle.fragment = read_fragment(from.object("fragment"));
  bundle.devices = from.list<Device>("devices", read_device);
  bundle.artifacts = from.list<Artifact>("artifacts", read_artifact);
  bundle.kernels = from.list<Kernel>("kernels", read_kernel);
  bundle.plans = from.list<Plan>("plans", read_plan);
  bundle.candidates = from.list<Candidate>("candidates", read_candidate);
  bundle.measurements = from.list<Measurement>("measurements", read_measurement);
  for (const Plan& plan : bundle.plans) {
    if (plan.key.fragment != bundle.fragment.key) from.fail("plans", "hold a plan of another fragment");
  }
  if (error) return *error;
  return bundle;
}

}  // namespace stitch::db
