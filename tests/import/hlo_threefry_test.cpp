#include "import/hlo/threefry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <bit>

#include "import/import.h"
#include "tests/import/hlo_text.h"

namespace stitch::import::hlo {
namespace {

using testing::HasSubstr;

/// The block function as JAX writes it, with one thing changed.
struct Variant {
  std::string name = "threefry2x32.1";
  std::string key = "u32[]", counter = "u32[6]", result = "u32[6]";
  int rotation = 13;  ///< the first of the schedule
  std::uint32_t parity = 466688986;
};

std::string block_text(const Variant& v) {
  std::string text = fmt::format("{} {{\n", v.name);
  int next = 0;
  const auto emit = [&](const std::string& shape, const std::string& operation) {
    text += fmt::format("  v.{} = {} {}\n", next, shape, operation);
    return fmt::format("v.{}", next++);
  };
  const auto constant = [&](const std::string& shape, std::uint32_t value) {
    const std::string scalar = emit("u32[]", fmt::format("constant({})", value));
    return shape == "u32[]" ? scalar : emit(shape, fmt::format("broadcast({}), dimensions={{}}", scalar));
  };
  const auto binary = [&](const char* op, const std::string& x, const std::string& y) {
    return emit(v.result, fmt::format("{}({}, {})", op, x, y));
  };
  const auto rotated = [&](const std::string& x, std::uint32_t by) {
    return binary("or", binary("shift-left", x, constant(v.result, by)),
                  binary("shift-right-logical", x, constant(v.result, 32 - by)));
  };
  // A parameter of the results' rank but with extents of 1 is stretched through a reshape, as JAX does it.
  const auto stretched = [&](const std::string& shape, const std::string& value) {
    if (shape == v.result) return value;
    if (shape == "u32[]") return emit(v.result, fmt::format("broadcast({}), dimensions={{}}", value));
    const std::string flat = emit("u32[2]", fmt::format("reshape({})", value));
    return emit(v.result, fmt::format("broadcast({}), dimensions={{0}}", flat));
  };
  const std::string k0 = emit(v.key, "parameter(0)"), k1 = emit(v.key, "parameter(1)");
  std::string x0 = emit(v.counter, "parameter(2)"), x1 = emit(v.counter, "parameter(3)");
  const std::string mixed = emit(v.key, fmt::format("xor({}, {})", k0, k1));
  const std::string k2 = emit(v.key, fmt::format("xor({}, {})", mixed, constant(v.key, v.parity)));
  const std::string keys[3] = {stretched(v.key, k0), stretched(v.key, k1), stretched(v.key, k2)};
  x0 = binary("add", x0, keys[0]);
  x1 = binary("add", x1, keys[1]);
  const std::uint32_t rotations[2][4] = {{static_cast<std::uint32_t>(v.rotation), 15, 26, 6}, {17, 29, 16, 24}};
  for (std::uint32_t group = 0; group < 5; ++group) {
    for (const std::uint32_t rotation : rotations[group % 2]) {
      x0 = binary("add", x0, x1);
      x1 = binary("xor", rotated(x1, rotation), x0);
    }
    x0 = binary("add", x0, keys[(group + 1) % 3]);
    x1 = binary("add", binary("add", x1, keys[(group + 2) % 3]), constant(v.result, group + 1));
  }
  return text + fmt::format("  ROOT t = ({0}, {0}) tuple({1}, {2})\n}}\n", v.result, x0, x1);
}

std::string calling_module(const Variant& v) {
  return module_text(fmt::format(R"(  k0 = {0} parameter(0)
  k1 = {0} parameter(1)
  c0 = {1} parameter(2)
  c1 = {1} parameter(3)
  ROOT call = ({2}, {2}) call(k0, k1, c0, c1), to_apply={3})",
                                 v.key, v.counter, v.result, v.name),
                     block_text(v));
}

std::int64_t blocks_in(const graph::Graph& graph) {
  return std::count_if(graph.nodes().begin(), graph.nodes().end(),
                       [](const graph::Node& node) { return node.op == graph::Op::threefry2x32; });
}

TEST(HloThreefry, ReferenceMatchesThePaper) {
  // Known answers of the Random123 distribution (kat_vectors, threefry2x32 with 20 rounds).
  const ThreefryBlock zeros = threefry2x32(0, 0, 0, 0);
  EXPECT_EQ(zeros.x0, 0x6b200159U);
  EXPECT_EQ(zeros.x1, 0x99ba4efeU);
  const ThreefryBlock ones = threefry2x32(~0U, ~0U, ~0U, ~0U);
  EXPECT_EQ(ones.x0, 0x1cb996fcU);
  EXPECT_EQ(ones.x1, 0xbb002be7U);
  const ThreefryBlock pi = threefry2x32(0x13198a2eU, 0x03707344U, 0x243f6a88U, 0x85a308d3U);
  EXPECT_EQ(pi.x0, 0xc4923a9cU);
  EXPECT_EQ(pi.x1, 0x483df7a0U);
}

TEST(HloThreefry, RecognisedWhateverItsNameAndShapes) {
  const Variant variants[] = {
      {},
      {.name = "f"},
      {.key = "u32[6]"},
      {.counter = "u32[]", .result = "u32[]"},
      {.key = "u32[2,1,1]", .counter = "u32[2,3,5]", .result = "u32[2,3,5]"},
  };
  for (const Variant& variant : variants) {
    const Imported imported = import_good(calling_module(variant));
    EXPECT_EQ(blocks_in(imported.graph), 1) << variant.name << " " << variant.key;
    EXPECT_LE(imported.graph.size(), 9) << "nothing else is left";
  }
}

TEST(HloThreefry, NotRecognisedWhenItComputesSomethingElse) {
  const Variant variants[] = {{.rotation = 14}, {.parity = 466688987}};
  for (const Variant& variant : variants) {
    const Imported imported = import_good(calling_module(variant));
    EXPECT_EQ(blocks_in(imported.graph), 0);
    EXPECT_GT(imported.graph.size(), 100) << "imported as it stands";
  }
}

TEST(HloThreefry, KeysThatAreStretchedAnotherWayAreNotRecognised) {
  // Right for every scalar, but the key runs along the other dimension.
  Variant v{.key = "u32[2,1]", .counter = "u32[2,2]", .result = "u32[2,2]"};
  std::string text = calling_module(v);
  EXPECT_EQ(blocks_in(import_good(text).graph), 1);
  for (std::size_t at = 0; (at = text.find("dimensions={0}", at)) != std::string::npos; ++at) {
    text.replace(at, 14, "dimensions={1}");
  }
  EXPECT_EQ(blocks_in(import_good(text).graph), 0);
}

TEST(HloThreefry, RecognitionCanBeSwitchedOff) {
  ImportOptions options;
  options.recognise_threefry = false;
  const Result<Imported> imported = import_hlo_text(calling_module({}), options);
  ASSERT_TRUE(imported.ok());
  EXPECT_EQ(blocks_in(imported->graph), 0);
}

TEST(HloThreefry, OperandsGetTheResultsShape) {
  const Imported imported = import_good(calling_module({}));
  for (const graph::Node& node : imported.graph.nodes()) {
    if (node.op != graph::Op::threefry2x32) continue;
    for (const graph::Value& operand : node.operands) {
      EXPECT_EQ(imported.graph.type(operand), (graph::TensorType{graph::DType::u32, {6}}));
    }
  }
}

}  // namespace
}  // namespace stitch::import::hlo
