#include "tests/fuzz/program_bytes.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <variant>
#include <vector>

#include "api/program_document.h"
#include "client/open_program.h"
#include "graph/codec/codec.h"
#include "tests/fuzz/fuzz_target.h"

namespace stitch::fuzz {
namespace {

using nlohmann::json;

/// What takes longer is no fault, and finds nothing more.
constexpr std::int64_t most_bytes = 1 << 20, most_threads = 1 << 12, most_launches = 16, most_turns = 8;

void check_refusal(const Error& error) {
  promise(!error.message.empty(), "a refusal says why");
  promise(error.kind != ErrorKind::internal, "a refusal is the input's fault");
}

std::int64_t bytes_of(const std::vector<graph::TensorType>& types) {
  std::int64_t sum = 0;
  for (const graph::TensorType& type : types) {
    if (type.bytes() > most_bytes || sum > most_bytes) return most_bytes + 1;
    sum += type.bytes();
  }
  return sum;
}

bool is_small(const api::Plan& plan) {
  return std::ssize(plan.launches) <= most_launches && std::ranges::all_of(plan.launches, [](const auto& launch) {
           return launch.blocks <= most_threads && launch.threads <= most_threads &&
                  launch.blocks * launch.threads <= most_threads;
         });
}

/// Whether the reference evaluator has little to do.
bool is_small(const graph::Graph& graph) {
  return std::ssize(graph.nodes()) <= 64 && std::ranges::all_of(graph.nodes(), [](const graph::Node& node) {
           return std::ranges::all_of(node.results, [](const auto& type) { return type.elements() <= most_threads; }) &&
                  node.regions.empty();
         });
}

bool is_small(const api::Program& program) {
  const bool small_steps = std::ranges::all_of(program.regions, [](const api::ProgramRegion& region) {
    return std::ranges::all_of(region.steps, [](const api::ProgramStep& step) {
      const auto* loop = std::get_if<api::LoopStep>(&step.work);
      return loop == nullptr || (loop->trip_count >= 0 && loop->trip_count <= most_turns);
    });
  });
  return small_steps && std::ssize(program.regions) <= 8 &&
         std::ranges::all_of(program.fragments,
                             [](const auto& fragment) {
                               return fragment.plan ? is_small(*fragment.plan) : is_small(fragment.graph);
                             }) &&
         std::ranges::all_of(program.calls, [](const auto& call) { return is_small(call.graph); });
}

/// Its buffers are as long as they must be and no byte longer: what runs out of them is seen by AddressSanitizer.
void run(client::OpenProgram& program) {
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::vector<std::unique_ptr<std::byte, Free>> memory;
  const auto allocated = [&](const graph::TensorType& type) {
    const std::size_t bytes = type.bytes();
    void* found = nullptr;
    promise(posix_memalign(&found, 256, std::max<std::size_t>(bytes, 1)) == 0, "there is memory");
    memory.emplace_back(static_cast<std::byte*>(found));
    std::fill_n(memory.back().get(), bytes, std::byte{});
    return std::span(memory.back().get(), bytes);
  };
  std::vector<std::span<const std::byte>> inputs;
  std::vector<std::span<std::byte>> outputs;
  for (const graph::TensorType& type : program.inputs()) inputs.emplace_back(allocated(type));
  for (const graph::TensorType& type : program.outputs()) outputs.push_back(allocated(type));
  const Status status = program.run(inputs, outputs);
  if (!status) check_refusal(status.error());
}

/// Writes `now` wherever `before` stands.
void replace(json& value, const std::map<std::string, std::string>& now) {
  if (value.is_string()) {
    const auto found = now.find(value.get_ref<const std::string&>());
    if (found != now.end()) value = found->second;
    return;
  }
  if (value.is_structured()) {
    for (json& part : value) replace(part, now);
  }
}

/// The hashes of its code, wherever they stand.
void hash_code(json& document) {
  const auto artifacts = document.find("artifacts");
  if (artifacts == document.end() || !artifacts->is_array()) return;
  std::map<std::string, std::string> now;
  for (const json& artifact : *artifacts) {
    if (!artifact.is_object() || !artifact.contains("bytes") || !artifact["bytes"].is_binary()) continue;
    if (!artifact.contains("hash") || !artifact["hash"].is_string()) continue;
    const auto& bytes = artifact["bytes"].get_binary();
    const std::string hash = sha256(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())).hex();
    if (artifact["hash"] != hash) now.emplace(artifact["hash"].get<std::string>(), hash);
  }
  if (!now.empty()) replace(document, now);
}

std::string with_own_hashes(json document, graph::Encoding encoding) {
  hash_code(document);
  document.erase("plans_hash");
  document["version"] = api::program_format_without_hash;
  const auto written = [&] { return api::encode_document(document, encoding); };
  const Result<api::Program> refused = api::decode_program(written(), encoding);
  // Only whoever has the contents right is told their id.
  constexpr std::string_view before = "which is ";
  const std::size_t at = refused ? std::string::npos : refused.error().message.rfind(before);
  if (at != std::string::npos) document["id"] = refused.error().message.substr(at + before.size());
  return written();
}

/// The id is taken out of a message's words: were they others, everything behind the id's check would go untried, and
/// nothing would say so.
void check_that_ids_are_found() {
  api::Program program;
  program.regions.resize(1);
  program.id = hash_bytes("not its own");
  const std::string wrong = api::encode_program(program, graph::Encoding::cbor);
  promise(!api::decode_program(wrong, graph::Encoding::cbor).ok(), "a program with another's id is refused");
  Result<json> document = graph::parse_document(wrong, graph::Encoding::cbor);
  promise(document.ok(), "what was written is a document");
  const std::string right = with_own_hashes(*std::move(document), graph::Encoding::cbor);
  promise(api::decode_program(right, graph::Encoding::cbor).ok(),
          "the id that a refusal names is that of the contents");
}

}  // namespace

void check_program_bytes(std::string_view bytes, graph::Encoding encoding) {
  Result<api::Program> decoded = api::decode_program(bytes, encoding);
  if (!decoded) return check_refusal(decoded.error());
  promise(api::check_program(*decoded).ok(), "what is read holds together");
  const std::string once = api::encode_program(*decoded, graph::Encoding::cbor);
  const Result<api::Program> again = api::decode_program(once, graph::Encoding::cbor);
  promise(again.ok(), "what was read is read again");
  promise(api::encode_program(*again, graph::Encoding::cbor) == once, "and is the same");
  const bool small = is_small(*decoded) && decoded->regions[0].arena_bytes <= most_bytes;
  auto executor = client::open_executor(client::DeviceKind::emulated, 0);
  promise(executor.ok(), "there is an emulated device");
  const auto opened = client::OpenProgram::open(*std::move(decoded), *std::move(executor));
  if (!opened) return check_refusal(opened.error());
  if (small && bytes_of((*opened)->inputs()) + bytes_of((*opened)->outputs()) <= most_bytes) run(**opened);
}

std::optional<std::string> with_its_hashes(std::string_view bytes, graph::Encoding encoding) {
  static const bool finds_ids = [] {
    check_that_ids_are_found();
    return true;
  }();
  static_cast<void>(finds_ids);
  Result<json> document = graph::parse_document(bytes, encoding);
  if (!document || !document->is_object()) return std::nullopt;
  return with_own_hashes(*std::move(document), encoding);
}

}  // namespace stitch::fuzz
