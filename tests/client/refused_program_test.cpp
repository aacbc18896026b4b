// Programs and packages that must not run: stale, foreign, truncated and tampered ones, as files and as a stranger's
// bytes. Each is refused with its kind and a reason, by whatever opens documents; what is not refused is right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <random>

#include "api/package_document.h"
#include "client/open_program.h"
#include "client/stitch.h"
#include "graph/codec/codec.h"
#include "import/import.h"
#include "tests/client/program_values.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/programs/model_program.h"

namespace stitch::client {
namespace {

using nlohmann::json;
using testing::HasSubstr;

graph::Graph model() {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {24, 32}, "x"), w = builder.parameter(DType::f32, {32, 16}, "w");
  return *builder.finish({builder.unary(Op::tanh, dot(builder, builder.unary(Op::exp, x), w))});
}

/// Documents of `model` with all their code, made once.
struct Documents {
  std::string program, package;
};
const Documents& documents() {
  static const Documents made = [] {
    import::Imported imported;
    imported.graph = model();
    tuning::Tuner& tuner = tuning::shared_tuner(tuning::shared_device());
    auto program = tuning::outline_program(imported, tuner, {.name = "model"});
    EXPECT_TRUE(program.ok()) << program.error().message;
    const Status planned = tuning::plan_program(tuner, {.name = "model"}, *program);
    EXPECT_TRUE(planned.ok()) << planned.error().message;
    return Documents{api::encode_program(*program, graph::Encoding::cbor),
                     api::encode_package({"model", sha256("model"), {*program}})};
  }();
  return made;
}

std::string changed(const std::string& document, const std::function<void(json&)>& change) {
  json parsed = json::from_cbor(document);
  change(parsed);
  const std::vector<std::uint8_t> bytes = json::to_cbor(parsed);
  return {bytes.begin(), bytes.end()};
}

struct RefusedRow {
  const char* name;
  std::function<std::string()> document;
  ErrorKind kind;
  const char* reason;
};

class RefusedProgramsEmulated : public testing::TestWithParam<RefusedRow> {};

TEST_P(RefusedProgramsEmulated, SayWhy) {
  const std::string document = GetParam().document();
  const auto opened = OpenProgram::open(document, DeviceKind::emulated, 0);
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, GetParam().kind) << opened.error().message;
  EXPECT_THAT(opened.error().message, HasSubstr(GetParam().reason));
  // By the C interface likewise, with the same words.
  stitch_program* program = nullptr;
  const stitch_code code = stitch_program_open(document.data(), document.size(), STITCH_DEVICE_EMULATED, 0, &program);
  EXPECT_EQ(code, static_cast<int>(GetParam().kind) + 1);
  EXPECT_EQ(program, nullptr);
  EXPECT_EQ(stitch_last_error(), opened.error().message);
}

std::string program_with(const std::function<void(json&)>& change) { return changed(documents().program, change); }
std::string package_with(const std::function<void(json&)>& change) { return changed(documents().package, change); }
json& plan_of(json& program) { return program["fragments"][0]["plan"]; }

const RefusedRow refused_rows[] = {
    // Stale: of a later format, or of an earlier one than it is.
    {"later", [] { return program_with([](json& p) { p["version"] = 99; }); }, ErrorKind::version_mismatch,
     "version 99 of the format; this Stitch reads 1 to 3"},
    {"versionless", [] { return program_with([](json& p) { p.erase("version"); }); }, ErrorKind::version_mismatch,
     "a program of version (none) of the format"},
    {"word_as_version", [] { return program_with([](json& p) { p["version"] = "3"; }); }, ErrorKind::version_mismatch,
     "a program of version (none) of the format"},
    {"without_hash",
     [] {
       return program_with([](json& p) {
         p["version"] = 2;
         p.erase("plans_hash");
       });
     },
     ErrorKind::corrupt, "plans_hash: missing"},
    {"later_package", [] { return package_with([](json& p) { p["version"] = 2; }); }, ErrorKind::version_mismatch,
     "version 2 of the format; this Stitch reads 1"},
    // Foreign.
    {"fragment", [] { return graph::encode(model(), graph::Encoding::cbor); }, ErrorKind::version_mismatch,
     "no document of format 'stitch-program'"},
    {"empty", [] { return std::string(); }, ErrorKind::parse, ""},
    {"archive", [] { return std::string("PK\x03\x04 and more"); }, ErrorKind::parse, ""},
    {"elf", [] { return std::string("\177ELF\2\1\1"); }, ErrorKind::parse, ""},
    {"list", [] { return std::string("\x80"); }, ErrorKind::version_mismatch, "no document of format"},
    // Tampered with: whatever is run, by whom, where it lies, and the code itself.
    {"other_plan", [] { return program_with([](json& p) { plan_of(p)["launches"][0]["blocks"] = 1; }); },
     ErrorKind::corrupt, "plans_hash: the plans are not those that were written"},
    {"other_target", [] { return program_with([](json& p) { plan_of(p)["target"]["architecture"] = "sm_75"; }); },
     ErrorKind::corrupt, "plans_hash: the plans are not those that were written"},
    {"no_plan", [] { return program_with([](json& p) { p["fragments"][0].erase("plan"); }); }, ErrorKind::corrupt,
     "plans_hash: the plans are not those that were written"},
    {"other_step", [] { return program_with([](json& p) { p["regions"][0]["steps"][0]["name"] = "another"; }); },
     ErrorKind::corrupt, "is not that of the program's contents"},
    {"other_code",
     [] {
       return program_with([](json& p) {
         auto& bytes = p["artifacts"][0]["bytes"].get_binary();
         bytes[bytes.size() / 2] ^= 1;
       });
     },
     ErrorKind::corrupt, "is not the hash of its bytes"},
    {"no_code", [] { return program_with([](json& p) { p["artifacts"] = json::array(); }); }, ErrorKind::not_found, ""},
    {"other_package", [] { return package_with([](json& p) { p["model"] = "another"; }); }, ErrorKind::corrupt,
     "the content is not what was packaged"},
};
INSTANTIATE_TEST_SUITE_P(Documents, RefusedProgramsEmulated, testing::ValuesIn(refused_rows),
                         [](const auto& row) { return row.param.name; });

TEST(RefusedProgramEmulatedTest, TruncatedOnesAreRefusedWhereverTheyEnd) {
  for (const std::string& whole : {documents().program, documents().package}) {
    for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 199) {
      const auto opened = OpenProgram::open(whole.substr(0, size), DeviceKind::emulated, 0);
      ASSERT_FALSE(opened.ok()) << size << " of " << whole.size();
      EXPECT_FALSE(opened.error().message.empty());
    }
  }
}

std::vector<Memory> results_of(OpenProgram& program, const std::vector<Memory>& inputs) {
  std::vector<Memory> outputs;
  std::vector<std::span<const std::byte>> from;
  std::vector<std::span<std::byte>> to;
  for (const Memory& input : inputs) from.emplace_back(input.span());
  for (const TensorType& type : program.outputs()) to.emplace_back(outputs.emplace_back(type.bytes()).span());
  const Status status = program.run(from, to);
  EXPECT_TRUE(status.ok()) << status.error().message;
  return outputs;
}

/// What no hash covers are names for people: with another one a program is the same.
TEST(RefusedProgramEmulatedTest, ABitThatChangesNothingIsAllThatIsAccepted) {
  std::mt19937 random(27);
  int refused = 0, accepted = 0;
  for (int i = 0; i < 300; ++i) {
    std::string bytes = documents().program;
    bytes[random() % bytes.size()] ^= static_cast<char>(1U << random() % 8);
    const auto opened = OpenProgram::open(bytes, DeviceKind::emulated, 0);
    if (!opened) {
      EXPECT_FALSE(opened.error().message.empty());
      ++refused;
      continue;
    }
    ++accepted;
    const std::vector<Memory> inputs = random_inputs((*opened)->program());
    expect_reference(model(), inputs, results_of(**opened, inputs));
  }
  EXPECT_GT(refused, 290) << accepted << " accepted";
}

TEST(RefusedProgramEmulatedTest, ThoseOfEarlierFormatsAreRead) {
  for (const int version : {1, 2}) {
    const std::string document = program_with([&](json& p) {
      p["version"] = version;
      if (version == 1) p.erase("plans_hash");
    });
    const auto opened = OpenProgram::open(document, DeviceKind::emulated, 0);
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    const std::vector<Memory> inputs = random_inputs((*opened)->program());
    expect_reference(model(), inputs, results_of(**opened, inputs));
  }
}

}  // namespace
}  // namespace stitch::client
