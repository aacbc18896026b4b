#include "api/program_document.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "api/message_fields.h"
#include "graph/codec/codec.h"
#include "graph/codec/document_reader.h"
#include "graph/codec/document_writer.h"

// Programs as documents and back. What must hold between the fields is checked in api/program_check.cpp.
namespace stitch::api {

using graph::fields::alternative;
using graph::fields::Json;
using graph::fields::Writer;

void visit_fields(auto& archive, Of<ProgramValue> auto& value) {
  archive("type", value.type).optional("name", value.name);
  archive("storage", value.storage)("place", value.place, not_negative);
  archive.optional("lender", value.lender);
}

void visit_fields(auto& archive, Of<FragmentStep> auto& step) { archive("index", step.fragment, not_negative); }
void visit_fields(auto& archive, Of<LibraryStep> auto& step) { archive("index", step.call, not_negative); }
void visit_fields(auto& archive, Of<LoopStep> auto& step) {
  archive("trip_count", step.trip_count, Between<std::int64_t>(-1, std::int64_t{1} << 40));
  archive("body", step.body, not_negative)("condition", step.condition)("spares", step.spares);
  archive("scratch", step.scratch);
}
void visit_fields(auto& archive, Of<BranchStep> auto& step) {
  archive("regions", step.regions)("scratch", step.scratch);
}
void visit_fields(auto& archive, Of<CopyStep> auto& step) { archive("bytes", step.bytes, not_negative); }
void visit_fields(auto& archive, Of<ForeignStep> auto& step) {
  archive("target", step.target, not_empty).optional("config", step.config);
}

void visit_fields(auto& archive, Of<ProgramStep> auto& step) {
  archive.optional("name", step.name);
  archive("parameters", step.parameters)("results", step.results)("bytes", step.bytes, not_negative);
  archive.choice(step.work, alternative<FragmentStep>("fragment"), alternative<LibraryStep>("library"),
                 alternative<LoopStep>("loop"), alternative<BranchStep>("branch"), alternative<CopyStep>("copy"),
                 alternative<ForeignStep>("foreign"));
}

void visit_fields(auto& archive, Of<ProgramRegion> auto& region) {
  archive.optional("name", region.name);
  archive("values", region.values)("parameters", region.parameters)("results", region.results);
  archive("steps", region.steps)("arena_bytes", region.arena_bytes, not_negative);
  archive("lower_bound_bytes", region.lower_bound_bytes, not_negative);
  archive("eager_bytes", region.eager_bytes, not_negative);
}

void visit_fields(auto& archive, Of<ProgramFragment> auto& fragment) {
  archive("key", fragment.key)("graph", fragment.graph)("occurrences", fragment.occurrences, not_negative);
  archive.optional("plan", fragment.plan).optional("why_none", fragment.why_none);
}

void visit_fields(auto& archive, Of<ProgramCall> auto& call) {
  archive("kind", call.kind, not_empty)("accumulation", call.accumulation, not_empty);
  archive.optional("description", call.description)("graph", call.graph);
}

void visit_fields(auto& archive, Of<ProgramPort> auto& port) {
  archive.optional("name", port.name)("type", port.type).optional("low", port.low).optional("high", port.high);
}

void visit_fields(auto& archive, Of<ProgramArtifact> auto& artifact) {
  archive("hash", artifact.hash);
  archive.as("bytes", artifact.bytes, graph::fields::type<graph::fields::Bytes>);
}

namespace {

/// What makes a program another one: the plans that it is run by come and go.
void visit_structure(auto& archive, Of<Program> auto& program) {
  archive("parameters", program.parameters)("results", program.results)("regions", program.regions);
  archive("calls", program.calls);
}

}  // namespace

void visit_fields(auto& archive, Of<Program> auto& program) {
  archive("id", program.id).optional("model", program.model)("source", program.source)("target", program.target);
  visit_structure(archive, program);
  archive("fragments", program.fragments);
}

std::string_view to_string(ProgramValue::Storage storage) {
  constexpr std::array<std::string_view, 4> names = {"parameter", "result", "arena", "lent"};
  const auto index = static_cast<std::size_t>(storage);
  return index < names.size() ? names[index] : "unknown";
}

std::string_view kind_of(const ProgramStep& step) {
  constexpr std::array<std::string_view, 6> names = {"fragment", "library", "loop", "branch", "copy", "foreign"};
  return names[step.work.index()];
}

std::string_view to_string(CodeInside code) {
  constexpr std::array<std::string_view, 4> names = {"none", "ptx", "cubin", "all"};
  const auto index = static_cast<std::size_t>(code);
  return index < names.size() ? names[index] : "unknown";
}

std::optional<CodeInside> code_inside(std::string_view word) { return graph::fields::value_named<CodeInside>(word); }

std::vector<Sha256> code_of(const Plan& plan, CodeInside which) {
  std::vector<Sha256> code;
  const auto add = [&](CodeInside kind, const Sha256& hash) {
    if ((which == kind || which == CodeInside::all) && std::ranges::count(code, hash) == 0) code.push_back(hash);
  };
  for (const KernelLaunch& launch : plan.launches) {
    add(CodeInside::cubin, launch.cubin);
    add(CodeInside::ptx, launch.ptx);
  }
  return code;
}

Hash128 identity_of(const Program& program) {
  // As JSON, in which names that are not UTF-8 are mended: they are mended once and for all.
  Writer writer;
  visit_structure(writer, program);
  Hasher hasher;
  hasher.text(encode_document(std::move(writer).finish(), graph::Encoding::json));
  for (const ProgramFragment& fragment : program.fragments) hasher.hash(fragment.key);
  return hasher.finish();
}

namespace {

/// All that a document's value says, whatever it was written in.
void hash_value(const Json& value, Hasher& hasher) {
  if (value.is_object()) {
    hasher.integer(value.size());
    for (const auto& [name, member] : value.items()) hash_value(member, hasher.text(name));
  } else if (value.is_array()) {
    hasher.integer(value.size());
    for (const Json& element : value) hash_value(element, hasher);
  } else if (value.is_string()) {
    hasher.text(value.get_ref<const std::string&>());
  } else if (value.is_binary()) {
    const auto& bytes = value.get_binary();
    hasher.bytes(std::as_bytes(std::span(bytes)));
  } else if (value.is_number_float()) {
    hasher.integer(std::bit_cast<std::uint64_t>(value.get<double>()));
  } else if (value.is_number()) {
    hasher.integer(value.is_number_unsigned() ? value.get<std::uint64_t>()
                                              : static_cast<std::uint64_t>(value.get<std::int64_t>()));
  } else {
    hasher.text(value.is_null() ? "null" : value.get<bool>() ? "true" : "false");
  }
}

/// Of the fragments' keys and plans as a document has them: fields that a reader does not know, or that an earlier
/// writer did not write, are hashed as they stand there.
Hash128 hash_of_plans(const Json& document) {
  Hasher hasher;
  const auto fragments = document.find("fragments");
  if (fragments == document.end() || !fragments->is_array()) return hasher.finish();
  for (const Json& fragment : *fragments) {
    for (const char* name : {"key", "plan"}) {
      hash_value(fragment.is_object() && fragment.contains(name) ? fragment[name] : Json(), hasher.text(name));
    }
  }
  return hasher.finish();
}

}  // namespace

std::string encode_program(const Program& program, graph::Encoding encoding) {
  Writer writer({.encoding = encoding});
  writer("format", std::string(program_format_name))("version", program_format_version);
  visit_fields(writer, program);
  if (encoding == graph::Encoding::cbor) writer("artifacts", program.artifacts);
  Json document = std::move(writer).finish();
  document["plans_hash"] = hash_of_plans(document).hex();
  return encode_document(document, encoding);
}

Result<Program> decode_program(std::string_view bytes, graph::Encoding encoding) {
  STITCH_ASSIGN(const Json document, graph::parse_document(bytes, encoding));
  if (!document.is_object() || !document.contains("format") || document["format"] != program_format_name)
    return make_error(ErrorKind::version_mismatch, "no document of format '{}'", program_format_name);
  const Json version = document.value("version", Json());
  if (version != program_format_version && version != program_format_without_lending &&
      version != program_format_without_hash)
    return make_error(
        ErrorKind::version_mismatch, "a program of version {} of the format; this Stitch reads {} to {}: make it again",
        version.is_number_integer() ? version.dump() : "(none)", program_format_without_hash, program_format_version);
  const auto hash = document.find("plans_hash");
  if (hash == document.end() && version != program_format_without_hash)
    return make_error(ErrorKind::corrupt, "plans_hash: missing");
  if (hash != document.end() && *hash != Json(hash_of_plans(document).hex()))
    return make_error(ErrorKind::corrupt, "plans_hash: the plans are not those that were written");
  Program program;
  STITCH_TRY(graph::fields::read_document(document, program));
  if (document.contains("artifacts"))
    STITCH_TRY(graph::fields::read_document(document["artifacts"], program.artifacts, "artifacts"));
  for (const ProgramArtifact& artifact : program.artifacts) {
    if (sha256(artifact.bytes) != artifact.hash)
      return make_error(ErrorKind::corrupt, "artifacts: {} is not the hash of its bytes", artifact.hash.hex());
  }
  STITCH_TRY(check_program(program));
  if (const Hash128 own = identity_of(program); own != program.id) {
    return make_error(ErrorKind::corrupt, "id: {} is not that of the program's contents, which is {}", program.id.hex(),
                      own.hex());
  }
  return program;
}

}  // namespace stitch::api
