#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "api/package_document.h"
#include "base/device_spec.h"
#include "graph/codec/codec.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/program_bytes.h"

// A package as it came, and as one would come that has its hashes right, its programs' included: it is read, and tells
// of every GPU whether it runs there, or is refused with a reason.
namespace stitch::fuzz {
namespace {

using nlohmann::json;

void check_package(std::string_view bytes) {
  const Result<api::Package> package = api::decode_package(bytes);
  if (!package) {
    promise(!package.error().message.empty(), "a refusal says why");
    promise(package.error().kind != ErrorKind::internal, "a refusal is the input's fault");
    return;
  }
  const std::string once = api::encode_package(*package);
  const Result<api::Package> again = api::decode_package(once);
  promise(again.ok(), "what was read is read again");
  promise(api::encode_package(*again) == once, "and is the same");
  for (const DeviceSpec& device : known_devices()) {
    const api::Compatibility found = api::compatibility(*package, device);
    promise(!found.reason.empty(), "whether it runs has a reason");
    const bool refused = found.fitness == api::Compatibility::Fitness::refused;
    promise(refused == (found.program < 0), "a program is named exactly if one runs");
    promise(found.program < std::ssize(package->programs), "and is there");
  }
}

std::string text_of(const json& binary) {
  const auto& bytes = binary.get_binary();
  return {bytes.begin(), bytes.end()};
}

std::optional<std::string> hashed(std::string_view bytes) {
  Result<json> document = graph::parse_document(bytes, graph::Encoding::cbor);
  if (!document || !document->is_object()) return std::nullopt;
  if (document->contains("programs") && (*document)["programs"].is_array()) {
    for (json& program : (*document)["programs"]) {
      if (!program.is_binary()) continue;
      const auto own = with_its_hashes(text_of(program), graph::Encoding::cbor);
      if (own) program = json::binary(std::vector<std::uint8_t>(own->begin(), own->end()));
    }
  }
  document->erase("hash");
  const std::string content = api::encode_document(*document, graph::Encoding::cbor);
  (*document)["hash"] = sha256(content).hex();
  return api::encode_document(*document, graph::Encoding::cbor);
}

}  // namespace

void fuzz_one(std::string_view bytes) {
  check_package(bytes);
  if (const auto right = hashed(bytes)) check_package(*right);
}

}  // namespace stitch::fuzz
