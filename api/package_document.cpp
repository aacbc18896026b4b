#include "api/package_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "api/launch_limits.h"
#include "base/device_class.h"
#include "graph/codec/codec.h"

namespace stitch::api {
namespace {

using nlohmann::json;
using Fitness = Compatibility::Fitness;

json binary(std::string_view bytes) { return json::binary(std::vector<std::uint8_t>(bytes.begin(), bytes.end())); }

Result<std::string> bytes_of(const json& value, std::string_view where) {
  if (!value.is_binary()) return make_error(ErrorKind::parse, "{}: not bytes", where);
  const auto& bytes = value.get_binary();
  return std::string(bytes.begin(), bytes.end());
}

/// Of all that is in a package but the hash itself.
Sha256 hash_of(const json& without_hash) { return sha256(encode_document(without_hash, graph::Encoding::cbor)); }

/// Code that the program's plans name.
std::set<Sha256> code_of(const Program& program) {
  std::set<Sha256> code;
  for (const ProgramFragment& fragment : program.fragments) {
    if (!fragment.plan) continue;
    const std::vector<Sha256> own = code_of(*fragment.plan);
    code.insert(own.begin(), own.end());
  }
  return code;
}

Result<std::map<Sha256, std::string>> read_code(const json& list) {
  std::map<Sha256, std::string> code;
  if (!list.is_array()) return make_error(ErrorKind::parse, "machine_code: not a list");
  for (std::size_t i = 0; i < list.size(); ++i) {
    STITCH_ASSIGN(std::string bytes, bytes_of(list[i], fmt::format("machine_code[{}]", i)));
    const Sha256 hash = sha256(bytes);
    code.emplace(hash, std::move(bytes));
  }
  return code;
}

/// Gives a program the code that its plans name.
Status give_code(const std::map<Sha256, std::string>& code, Program& program) {
  for (const Sha256& hash : code_of(program)) {
    const auto found = code.find(hash);
    if (found == code.end()) return make_error(ErrorKind::corrupt, "its code {} is missing", hash.hex());
    program.artifacts.push_back({hash, found->second});
  }
  return {};
}

// ---- compatibility

struct Architecture {
  int major = 0, minor = 0;
  bool exact = false;  ///< "sm_90a": for this compute capability alone
};

/// Of "sm_90a": the last digit is the minor number.
std::optional<Architecture> architecture_of(std::string_view name) {
  if (!name.starts_with("sm_")) return std::nullopt;
  name.remove_prefix(3);
  Architecture found;
  int number = 0;
  while (!name.empty() && name.front() >= '0' && name.front() <= '9' && number < 1000) {
    number = number * 10 + (name.front() - '0');
    name.remove_prefix(1);
  }
  if (number < 10 || name.size() > 1) return std::nullopt;
  found.major = number / 10;
  found.minor = number % 10;
  found.exact = !name.empty();
  return found;
}

std::string why_not_architecture(const PlanTarget& target, const DeviceSpec& device) {
  const std::optional<Architecture> made = architecture_of(target.architecture);
  if (!made) return fmt::format("'{}' is no architecture known here", target.architecture);
  const std::pair has(device.compute_major, device.compute_minor), needs(made->major, made->minor);
  if (made->exact ? has == needs : has >= needs) return "";
  return fmt::format("code for {} needs compute capability {}.{}{}, {} has {}.{}", target.architecture, made->major,
                     made->minor, made->exact ? " alone" : " or later", device.name, device.compute_major,
                     device.compute_minor);
}

/// Why a program cannot run on the GPU; empty when it can.
std::string why_not(const Program& program, const DeviceSpec& device) {
  if (std::string why = why_not_architecture(program.target, device); !why.empty()) return why;
  for (const ProgramRegion& region : program.regions) {
    for (const ProgramStep& step : region.steps) {
      if (const auto* foreign = std::get_if<ForeignStep>(&step.work))
        return fmt::format("step {}: nobody here computes {}", step.name, foreign->target);
    }
  }
  for (const ProgramFragment& fragment : program.fragments) {
    if (!fragment.plan) return fmt::format("fragment {} has no plan: {}", fragment.key.hex(), fragment.why_none);
    if (std::string why = why_not_launched(*fragment.plan, program.target.device, device); !why.empty()) return why;
  }
  return "";
}

/// How far another class's bandwidth is from the GPU's, as a ratio of at least 1; large when nobody knows it.
double distance(const Program& program, const DeviceSpec& device) {
  const auto planned = find_device_class(program.target.device);
  if (!planned || planned->spec.dram_bandwidth <= 0 || device.dram_bandwidth <= 0) return 1e9;
  const double ratio = planned->spec.dram_bandwidth / device.dram_bandwidth;
  return std::max(ratio, 1 / ratio);
}

}  // namespace

bool looks_like_package(std::string_view bytes) {
  return bytes.substr(0, 64).find(package_format_name) != std::string_view::npos;
}

bool looks_like_program(std::string_view bytes) {
  return !looks_like_package(bytes) && bytes.find(program_format_name) != std::string_view::npos;
}

std::string encode_package(const Package& package) {
  json programs = json::array(), artifacts = json::array();
  std::map<Sha256, std::string_view> code;
  for (const Program& program : package.programs) {
    for (const ProgramArtifact& artifact : program.artifacts) code.emplace(artifact.hash, artifact.bytes);
    Program lean = program;
    lean.artifacts.clear();
    programs.push_back(binary(encode_program(lean, graph::Encoding::cbor)));
  }
  for (const auto& [hash, bytes] : code) artifacts.push_back(binary(bytes));
  // Keys are sorted: the format comes first, and the first bytes tell what the file is.
  json document = {{"format", package_format_name},        {"version", package_format_version},
                   {"machine_code", std::move(artifacts)}, {"model", package.model},
                   {"programs", std::move(programs)},      {"source", package.source.hex()}};
  document["hash"] = hash_of(document).hex();
  return encode_document(document, graph::Encoding::cbor);
}

Result<Package> decode_package(std::string_view bytes) {
  STITCH_ASSIGN(json document, graph::parse_document(bytes, graph::Encoding::cbor));
  if (!document.is_object() || !document.contains("format") || document["format"] != package_format_name)
    return make_error(ErrorKind::version_mismatch, "no document of format '{}'", package_format_name);
  const json version = document.value("version", json());
  if (version != package_format_version) {
    return make_error(ErrorKind::version_mismatch,
                      "a package of version {} of the format; this Stitch reads {}: make it again",
                      version.is_number_integer() ? version.dump() : "(none)", package_format_version);
  }
  for (const char* field : {"hash", "machine_code", "model", "programs", "source"}) {
    if (!document.contains(field)) return make_error(ErrorKind::parse, "{} is missing", field);
  }
  const json hash = std::move(document["hash"]);
  document.erase("hash");
  if (hash != hash_of(document).hex())
    return make_error(ErrorKind::corrupt, "hash: the content is not what was packaged");
  Package package;
  if (!document["model"].is_string()) return make_error(ErrorKind::parse, "model: not a text");
  package.model = document["model"].get<std::string>();
  const auto source =
      document["source"].is_string() ? Sha256::from_hex(document["source"].get<std::string>()) : std::nullopt;
  if (!source) return make_error(ErrorKind::parse, "source: not a SHA-256");
  package.source = *source;
  STITCH_ASSIGN(const auto code, read_code(document["machine_code"]));
  const json& programs = document["programs"];
  if (!programs.is_array() || programs.empty()) return make_error(ErrorKind::parse, "programs: none");
  std::set<std::string> classes;
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const std::string where = fmt::format("programs[{}]", i);
    STITCH_ASSIGN(const std::string one, bytes_of(programs[i], where));
    auto program = decode_program(one, graph::Encoding::cbor);
    if (!program) return program.error().within(where);
    program->artifacts.clear();
    const Status given = give_code(code, *program);
    if (!given) return given.error().within(where);
    if (!classes.insert(program->target.device).second)
      return make_error(ErrorKind::corrupt, "{}: a second one for {}", where, program->target.device);
    package.programs.push_back(*std::move(program));
  }
  return package;
}

std::string_view to_string(Fitness fitness) {
  constexpr std::array<std::string_view, 3> names = {"optimal", "runs", "refused"};
  const auto index = static_cast<std::size_t>(fitness);
  return index < names.size() ? names[index] : "unknown";
}

Compatibility compatibility(const Package& package, const DeviceSpec& device) {
  Compatibility best;
  std::string refusals;
  std::pair<bool, double> nearest;
  for (std::size_t i = 0; i < package.programs.size(); ++i) {
    const Program& program = package.programs[i];
    if (const std::string why = why_not(program, device); !why.empty()) {
      refusals += fmt::format("{}{}: {}", refusals.empty() ? "" : "; ", program.target.device, why);
      continue;
    }
    const int index = static_cast<int>(i);
    if (program.target.device == device.name && program.target.architecture == device.architecture())
      return {Fitness::optimal, fmt::format("planned for {}", device.name), index};
    const std::pair rank(program.target.architecture != device.architecture(), distance(program, device));
    if (best.program >= 0 && nearest <= rank) continue;
    nearest = rank;
    best = {Fitness::runs,
            fmt::format("by the plans for {} ({}); none are for {}", program.target.device, program.target.architecture,
                        device.name),
            index};
  }
  if (best.program < 0) best.reason = refusals;
  return best;
}

}  // namespace stitch::api
