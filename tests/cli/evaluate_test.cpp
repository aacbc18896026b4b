#include <gmock/gmock.h>

#include <cstring>

#include "base/npy.h"
#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// The sum of squares of rows, and its element type's half.
constexpr const char* squares_hlo = R"(HloModule squares
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
ENTRY main {
  x = f32[2,3] parameter(0)
  y = f32[2,3] parameter(1)
  zero = f32[] constant(0)
  products = f32[2,3] multiply(x, y)
  sums = f32[2] reduce(products, zero), dimensions={1}, to_apply=sum
  ROOT result = (f32[2], f32[2,3]) tuple(sums, products)
}
)";

template <class T>
std::string npy(const char* type, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  NpyArray array{type, std::move(shape), std::string(values.size() * sizeof(T), '\0')};
  std::memcpy(array.data.data(), values.data(), array.data.size());
  return encode_npy(array);
}

template <class T>
std::vector<T> values_of(const std::string& path) {
  const Result<NpyArray> array = parse_npy(read_file(path));
  EXPECT_TRUE(array) << path << ": " << array.error().message;
  if (!array) return {};
  std::vector<T> values(array->data.size() / sizeof(T));
  std::memcpy(values.data(), array->data.data(), array->data.size());
  return values;
}

class Evaluate : public testing::Test {
 protected:
  const Folder folder;
  const std::string model = folder.write("squares.hlo.txt", squares_hlo);
  const std::string x = folder.write("x.npy", npy<float>("f4", {2, 3}, {1, 2, 3, 4, 5, 0.1F}));
  const std::string output = folder.at("results");
};

TEST_F(Evaluate, WritesResultsAndHowFarAKernelMayBe) {
  const Outcome outcome =
      stitch({"evaluate", model, "--input", "x=" + x, "--input", "1=" + x, "--output", output, "--bounds", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err << outcome.out;
  const json results = outcome.json()["results"];
  ASSERT_EQ(results.size(), 2U);
  EXPECT_EQ(results[0]["type"], "f32[2]");
  const std::string first = output + "/" + results[0]["file"].get<std::string>();
  const std::vector<float> sums = values_of<float>(first);
  ASSERT_EQ(sums.size(), 2U);
  EXPECT_EQ(sums[0], 14);
  EXPECT_FLOAT_EQ(sums[1], 41.01F);
  const std::vector<double> bounds = values_of<double>(first.substr(0, first.size() - 4) + ".bound.npy");
  ASSERT_EQ(bounds.size(), 2U);
  EXPECT_EQ(bounds[0], 0);  // integers
  EXPECT_GT(bounds[1], 0);
  EXPECT_LT(bounds[1], 1e-3);
}

TEST_F(Evaluate, SaysWhatIsMissingOrDoesNotFit) {
  const std::string wide = folder.write("wide.npy", npy<float>("f4", {3, 2}, {1, 2, 3, 4, 5, 6}));
  const std::string doubles = folder.write("doubles.npy", npy<double>("f8", {2, 3}, {1, 2, 3, 4, 5, 6}));
  struct Row {
    std::vector<std::string> inputs;
    std::string message;
  };
  const std::vector<Row> rows = {
      {{"x=" + x}, "no --input for parameter 1, 'y', f32[2,3]"},
      {{"x=" + x, "y=" + wide}, "input 'y' is f32[3,2], the model's parameter is f32[2,3]"},
      {{"x=" + x, "y=" + doubles}, "input 'y': an array of f8, the model's parameter is f32"},
      {{"x=" + x, "y=" + x, "z=" + x}, "the model has no parameter 'z' (it has x, y)"},
      {{"x=" + x, "x=" + x}, "two inputs are named 'x'"},
      {{"x"}, "x: expected NAME=FILE.npy"},
  };
  for (const Row& row : rows) {
    std::vector<std::string> command = {"evaluate", model, "--output", output};
    for (const std::string& input : row.inputs) command.insert(command.end(), {"--input", input});
    const Outcome outcome = stitch(command);
    EXPECT_NE(outcome.code, 0);
    EXPECT_THAT(outcome.err, HasSubstr(row.message));
  }
  EXPECT_FALSE(std::filesystem::exists(output));
  EXPECT_EQ(stitch({"evaluate", model, "--input", "x=" + folder.at("absent.npy"), "--output", output}).code, 3);
}

TEST_F(Evaluate, CasesOfOthersGiveTheExitCodeOfTheWorst) {
  const std::string recorded = STITCH_SOURCE_DIR "/tests/data/differential/hlo.json.gz";
  const Outcome right = stitch({"conformance", "differential", recorded, "--filter", "convolution/", "--json"});
  EXPECT_EQ(right.code, 0) << right.out;
  EXPECT_GE(right.json()["cases"].size(), 4U);
  EXPECT_EQ(right.json()["wrong"], 0);
  const std::string wrong = folder.write("wrong.json", R"({"implementation": "a test", "versions": {}, "cases": [
      {"name": "one", "subject": "constant", "model": "HloModule m\nENTRY e {\n ROOT y = u8[1] constant({1})\n}\n",
       "inputs": [], "outputs": [{"type": "u8", "dims": [1], "data": "Ag=="}]}]})");
  const Outcome outcome = stitch({"conformance", "differential", wrong});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("wrong        one (imported): result 0 [0]: 2, reference 1"));
  EXPECT_EQ(stitch({"conformance", "differential", folder.at("absent.json")}).code, 3);
}

}  // namespace
}  // namespace stitch::cli
