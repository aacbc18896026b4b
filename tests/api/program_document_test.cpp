// Programs as documents, and what a program must hold to be one.
#include "api/program_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "api/message_fields.h"
#include "tests/api/example_fragment.h"
#include "tests/graph/changed_field.h"
#include "tests/graph/filled_record.h"

namespace stitch::api {
namespace {

using graph::DType;
using graph::TensorType;
using testing::HasSubstr;
using Storage = ProgramValue::Storage;

const TensorType vector_type{DType::f32, {128}};

/// y = exp(exp(exp(x))): two values in the arena that are alive at once, and one result.
Program three_steps() {
  Program program;
  program.model = "three";
  program.source = sha256("three");
  program.fragments = {{hash_bytes("exp"), exponential(), 3, {}, "nobody asked"}};
  ProgramRegion region;
  region.values = {{vector_type, "x", Storage::parameter, 0},
                   {vector_type, "", Storage::arena, 0},
                   {vector_type, "", Storage::arena, 512},
                   {vector_type, "y", Storage::result, 0}};
  region.parameters = {0};
  region.results = {3};
  region.steps = {{"first", {0}, {1}, 0, FragmentStep{0}},
                  {"second", {1}, {2}, 0, FragmentStep{0}},
                  {"third", {2}, {3}, 0, FragmentStep{0}}};
  region.arena_bytes = 1024;
  region.lower_bound_bytes = 1024;
  program.regions = {region};
  program.parameters = {{"x", vector_type, {}, {}}};
  program.results = {{"y", vector_type, {}, {}}};
  program.id = identity_of(program);
  return program;
}

/// x, run through the body of a loop with a branch inside: every kind of step but foreign ones.
Program with_regions() {
  Program program = three_steps();
  ProgramRegion& model = program.regions[0];
  model.values.push_back({{DType::u8, {512}}, "", Storage::arena, 1024});
  model.values.push_back({vector_type, "", Storage::arena, 1536});
  model.arena_bytes = 2048;
  model.steps[2] = {"loop", {2}, {3}, 0, LoopStep{3, 1, -1, {5}, 4}};
  ProgramRegion body;
  body.name = "/loop.0";
  body.values = {{vector_type, "", Storage::parameter, 0},
                 {vector_type, "", Storage::result, 0},
                 {vector_type, "", Storage::arena, 0}};
  body.parameters = {0};
  body.results = {1};
  body.arena_bytes = 512;
  body.steps = {{"exp", {0}, {2}, 0, FragmentStep{0}}, {"copy", {2}, {1}, 1024, CopyStep{512}}};
  program.regions.push_back(body);
  program.id = identity_of(program);
  return program;
}

/// The first value lies in the result, which the last step writes.
Program with_lent_memory() {
  Program program = three_steps();
  ProgramRegion& model = program.regions[0];
  model.values[1] = {vector_type, "", Storage::lent, 0, 0};
  model.values[2].place = 0;
  model.arena_bytes = model.lower_bound_bytes = 512;
  program.id = identity_of(program);
  return program;
}

TEST(ProgramDocumentTest, ValuesInResultsMemoryComeBack) {
  const Program program = with_lent_memory();
  for (const auto encoding : {graph::Encoding::json, graph::Encoding::cbor}) {
    const auto back = decode_program(encode_program(program, encoding), encoding);
    ASSERT_TRUE(back.ok()) << back.error().message;
    const ProgramValue& value = back->regions[0].values[1];
    EXPECT_EQ(value.storage, Storage::lent);
    EXPECT_EQ(value.lender, 0);
    EXPECT_EQ(back->id, program.id);
  }
}

TEST(ProgramDocumentTest, ComesBackInBothEncodings) {
  Program program = with_regions();
  const std::string code("code\0with zeros", 15);
  program.artifacts = {{sha256(code), code}};
  for (const auto encoding : {graph::Encoding::json, graph::Encoding::cbor}) {
    const std::string bytes = encode_program(program, encoding);
    const auto back = decode_program(bytes, encoding);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(encode_program(*back, encoding), bytes);
    EXPECT_EQ(back->artifacts.size(), encoding == graph::Encoding::cbor ? 1U : 0U);
  }
  EXPECT_EQ(decode_program(encode_program(program, graph::Encoding::cbor), graph::Encoding::cbor)->artifacts[0].bytes,
            program.artifacts[0].bytes);
}

TEST(ProgramDocumentTest, CodeUnderAnotherHashIsRefused) {
  Program program = with_regions();
  program.artifacts = {{sha256("code"), "other code"}};
  const auto back = decode_program(encode_program(program, graph::Encoding::cbor), graph::Encoding::cbor);
  ASSERT_FALSE(back.ok());
  EXPECT_EQ(back.error().kind, ErrorKind::corrupt);
  EXPECT_EQ(back.error().message, "artifacts: " + sha256("code").hex() + " is not the hash of its bytes");
}

TEST(ProgramDocumentTest, APlanOfWhichOneFieldIsAnotherIsRefused) {
  Program program = three_steps();
  program.fragments[0].plan = graph::filled<Plan>();
  const auto written = nlohmann::json::parse(encode_program(program, graph::Encoding::json));
  int fields = 0;
  graph::for_each_changed_field(*program.fragments[0].plan, [&](const std::string& path, const Plan& plan) {
    ++fields;
    auto edited = written;
    edited["fragments"][0]["plan"] = nlohmann::json::parse(to_json(plan));
    const auto back = decode_program(edited.dump(), graph::Encoding::json);
    ASSERT_FALSE(back.ok()) << path;
    EXPECT_EQ(back.error().message, "plans_hash: the plans are not those that were written") << path;
    EXPECT_EQ(back.error().kind, ErrorKind::corrupt);
  });
  EXPECT_GT(fields, 20);
  auto without = written;
  without["fragments"][0].erase("plan");
  EXPECT_FALSE(decode_program(without.dump(), graph::Encoding::json).ok()) << "a plan is not taken away either";
  // Nor the hash itself, but of documents of before there was one.
  auto unhashed = nlohmann::json::parse(encode_program(three_steps(), graph::Encoding::json));
  EXPECT_TRUE(decode_program(unhashed.dump(), graph::Encoding::json).ok());
  unhashed.erase("plans_hash");
  const auto refused = decode_program(unhashed.dump(), graph::Encoding::json);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "plans_hash: missing");
  unhashed["version"] = 1;
  EXPECT_TRUE(decode_program(unhashed.dump(), graph::Encoding::json).ok());
}

TEST(ProgramDocumentTest, TheIdIsOfTheStructureAlone) {
  Program program = three_steps();
  program.fragments[0].why_none = "another reason";
  program.model = "another name";
  EXPECT_EQ(identity_of(program), program.id);
  program.regions[0].steps[0].name = "another step";
  EXPECT_NE(identity_of(program), program.id);
}

TEST(ProgramDocumentTest, NamesThatAreNotUtf8ComeThroughJson) {
  Program program = three_steps();
  program.regions[0].steps[0].name = "sch\xf6n";
  program.parameters[0].name =
      "gr\xf6\xdf"
      "e";
  program.id = identity_of(program);
  for (const auto encoding : {graph::Encoding::json, graph::Encoding::cbor}) {
    const auto back = decode_program(encode_program(program, encoding), encoding);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->id, program.id);
  }
}

TEST(ProgramDocumentTest, RefusesOtherDocuments) {
  const auto read = [](std::string_view text) { return decode_program(text, graph::Encoding::json).error(); };
  EXPECT_EQ(read(R"({"format": "stitch-graph", "version": 1})").kind, ErrorKind::version_mismatch);
  EXPECT_EQ(read(R"({"format": "stitch-program", "version": 4})").kind, ErrorKind::version_mismatch);
  EXPECT_EQ(read(R"({"format": "stitch-program", "version": 1})").message, "id: missing");
  auto earlier = nlohmann::json::parse(encode_program(three_steps(), graph::Encoding::json));
  EXPECT_EQ(earlier["version"], 3);
  earlier["version"] = 2;
  EXPECT_TRUE(decode_program(earlier.dump(), graph::Encoding::json).ok()) << "one without lent memory";
  EXPECT_EQ(read("[]").kind, ErrorKind::version_mismatch);
  std::string text = encode_program(three_steps(), graph::Encoding::json);
  text.replace(text.find("\"second\""), 8, "\"2nd one\"");
  EXPECT_EQ(read(text).kind, ErrorKind::corrupt);
  for (std::size_t size = 0; size < text.size(); size += 97)
    EXPECT_FALSE(decode_program(text.substr(0, size), graph::Encoding::json).ok());
}

struct Fault {
  const char* name;
  std::function<void(Program&)> make;
  const char* message;
};

TEST(ProgramCheckTest, NamesWhatIsWrong) {
  ASSERT_TRUE(check_program(three_steps()).ok()) << check_program(three_steps()).error().message;
  ASSERT_TRUE(check_program(with_regions()).ok()) << check_program(with_regions()).error().message;
  const Fault faults[] = {
      {"value", [](Program& p) { p.regions[0].steps[1].parameters = {9}; },
       "regions[0]: steps[1]: parameters[0]: there is no value 9"},
      {"early", [](Program& p) { p.regions[0].steps[0].parameters = {2}; },
       "regions[0]: steps[0]: parameters[0]: value 2 is read before it is written"},
      {"input", [](Program& p) { p.regions[0].steps[0].results = {0}; },
       "regions[0]: steps[0]: results[0]: value 0 is a parameter that the fragment does not update in place"},
      {"twice",
       [](Program& p) {
         p.regions[0].steps[1].results = {1};
         p.regions[0].steps[1].parameters = {0};
       },
       "regions[0]: steps[1]: results[0]: value 1 is written twice"},
      {"type",
       [](Program& p) {
         p.regions[0].values[1].type = {DType::f32, {127}};
       },
       "regions[0]: steps[0]: results[0]: value 1 is f32[127], f32[128] is needed"},
      {"fragment", [](Program& p) { p.regions[0].steps[0].work = FragmentStep{1}; },
       "regions[0]: steps[0]: fragment.index: there is no fragment 1"},
      {"call", [](Program& p) { p.regions[0].steps[0].work = LibraryStep{0}; },
       "regions[0]: steps[0]: library.index: there is no call 0"},
      {"overlap", [](Program& p) { p.regions[0].values[2].place = 256; },
       "regions[0]: values[1]: shares memory with value 2 while both are in use"},
      {"outside", [](Program& p) { p.regions[0].values[2].place = 768; },
       "regions[0]: values[2].place: 768 is no arena of the region"},
      {"unaligned", [](Program& p) { p.regions[0].values[1].place = 8; },
       "regions[0]: values[1].place: 8 is no arena of the region"},
      {"result", [](Program& p) { p.regions[0].steps.pop_back(); }, "regions[0]: results[0]: no step writes it"},
      {"port", [](Program& p) { p.parameters.clear(); }, "parameters: 0, the first region has 1"},
      {"no region", [](Program& p) { p.regions.clear(); }, "regions: there are none"},
  };
  for (const Fault& fault : faults) {
    Program program = three_steps();
    fault.make(program);
    const Status status = check_program(program);
    ASSERT_FALSE(status.ok()) << fault.name;
    EXPECT_EQ(status.error().message, fault.message) << fault.name;
    EXPECT_EQ(status.error().kind, ErrorKind::parse);
  }
}

TEST(ProgramCheckTest, NamesWhatIsWrongWithLentMemory) {
  ASSERT_TRUE(check_program(with_lent_memory()).ok()) << check_program(with_lent_memory()).error().message;
  const Fault faults[] = {
      {"behind its end", [](Program& p) { p.regions[0].values[1].place = 256; },
       "regions[0]: values[1].place: 512 bytes at 256 do not lie inside of result 0, which has 512"},
      {"far behind", [](Program& p) { p.regions[0].values[1].place = std::int64_t{1} << 62; },
       "regions[0]: values[1].place: 512 bytes at 4611686018427387904 do not lie inside of result 0, which has 512"},
      {"unaligned",
       [](Program& p) {
         p.regions[0].values[1].type = {DType::f32, {64}};
         p.regions[0].values[1].place = 16;
       },
       "regions[0]: values[1].place: 256 bytes at 16 do not lie inside of result 0, which has 512"},
      {"nobody's", [](Program& p) { p.regions[0].values[1].lender.reset(); },
       "regions[0]: values[1].lender: no result of the region lends its memory"},
      {"no result", [](Program& p) { p.regions[0].values[1].lender = 1; },
       "regions[0]: values[1].lender: no result of the region lends its memory"},
      {"negative", [](Program& p) { p.regions[0].values[1].lender = -1; },
       "regions[0]: values[1].lender: no result of the region lends its memory"},
      {"of the arena", [](Program& p) { p.regions[0].values[2].lender = 0; },
       "regions[0]: values[2].lender: memory of its own is nobody's"},
      // The step that writes the result reads it, and after that the result is there.
      {"while it is written",
       [](Program& p) {
         p.regions[0].values[2] = {vector_type, "", Storage::lent, 0, 0};
         p.regions[0].values[1] = {vector_type, "", Storage::arena, 0};
       },
       "regions[0]: values[2]: lies in result 0 while that is in use"},
      {"both",
       [](Program& p) {
         p.regions[0].values[2] = {vector_type, "", Storage::lent, 0, 0};
         p.regions[0].steps.push_back({"fourth", {4}, {3}, 0, FragmentStep{0}});
         p.regions[0].values.push_back({vector_type, "", Storage::arena, 0});
         p.regions[0].steps[2].results = {4};
       },
       "regions[0]: values[1]: shares memory with value 2 while both are in use"},
  };
  for (const Fault& fault : faults) {
    Program program = with_lent_memory();
    fault.make(program);
    const Status status = check_program(program);
    ASSERT_FALSE(status.ok()) << fault.name;
    EXPECT_EQ(status.error().message, fault.message) << fault.name;
    EXPECT_EQ(status.error().kind, ErrorKind::parse);
  }
}

TEST(ProgramCheckTest, NamesWhatIsWrongWithRegions) {
  const Fault faults[] = {
      {"itself",
       [](Program& p) {
         p.regions[0].steps[2].work = LoopStep{3, 0, -1, {5}, 4};
       },
       "loop.body: region 0 cannot be run here"},
      {"condition",
       [](Program& p) {
         p.regions[0].steps[2].work = LoopStep{-1, 1, -1, {5}, 4};
       },
       "there is one exactly when the trip count is not known"},
      {"no spare",
       [](Program& p) {
         p.regions[0].steps[2].work = LoopStep{3, 1, -1, {-1}, 4};
       },
       "loop.spares[0]: is needed unless in place"},
      {"scratch",
       [](Program& p) {
         p.regions[0].steps[2].work = LoopStep{3, 1, -1, {5}, -1};
       },
       "scratch: value -1 does not hold the regions' arena of 512 bytes"},
      {"small scratch", [](Program& p) { p.regions[0].values[4].type.dims = {256}; },
       "scratch: value 4 does not hold the regions' arena of 512 bytes"},
      {"copy", [](Program& p) { p.regions[1].steps[1].work = CopyStep{500}; },
       "regions[1]: steps[1]: copy.bytes: 500 are not those of its values"},
      {"selector",
       [](Program& p) {
         p.regions[0].steps[2].work = BranchStep{{1}, 4};
       },
       "parameters[0]: selects no branch"},
  };
  for (const Fault& fault : faults) {
    Program program = with_regions();
    fault.make(program);
    const Status status = check_program(program);
    ASSERT_FALSE(status.ok()) << fault.name;
    EXPECT_THAT(status.error().message, HasSubstr(fault.message)) << fault.name;
  }
}

}  // namespace
}  // namespace stitch::api
