#include "lab/spaces/space_file.h"

#include <gmock/gmock.h>

namespace stitch::lab {
namespace {

using testing::HasSubstr;

const std::string kernel_tuner = R"({
 "device_name": "a GPU", "kernel_name": "copy", "problem_size": 10,
 "tune_params_keys": ["block", "layout"],
 "tune_params": {"block": [64, 32, 128], "layout": ["row", "column"]},
 "cache": {
  "32,row": {"block": 32, "layout": "row", "time": 0.5, "times": [0.4, 0.6]},
  "64,row": {"block": 64, "layout": "row", "time": "RuntimeFailedConfig"},
  "64,column": {"block": 64, "layout": "column", "time": "CompilationFailedConfig"},
  "128,row": {"block": 128, "layout": "row", "time": "InvalidConfig"},
  "128,column": {"block": 128, "layout": "column", "time": 1e20},
  "32,column": {"block": 32, "layout": "column", "time": 0.25}}})";

std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const auto at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), by);
}

const RecordedTrial& trial(const RecordedSpace& recorded, const std::string& configuration) {
  for (std::size_t i = 0; i < recorded.space.size(); ++i) {
    if (recorded.space.describe(i) == configuration) return recorded.trials[i];
  }
  ADD_FAILURE() << configuration << " is not there";
  return recorded.trials[0];
}

TEST(RecordedSpace, ReadsKernelTunerFiles) {
  const auto recorded = parse_recorded_space(kernel_tuner);
  ASSERT_TRUE(recorded.ok()) << recorded.error().message;
  EXPECT_EQ(recorded->device, "a GPU");
  EXPECT_EQ(recorded->kernel, "copy");
  ASSERT_EQ(recorded->space.size(), 6U);
  const std::vector<search::ParameterValue> ascending = {32.0, 64.0, 128.0};
  EXPECT_EQ(recorded->space.parameters()[0].values, ascending);
  EXPECT_EQ(trial(*recorded, "block=32 layout=row"), (RecordedTrial{std::nullopt, 500, {400, 600}}));
  EXPECT_EQ(trial(*recorded, "block=64 layout=row").failure, ErrorKind::runtime);
  EXPECT_EQ(trial(*recorded, "block=64 layout=column").failure, ErrorKind::compile);
  EXPECT_EQ(trial(*recorded, "block=128 layout=row").failure, ErrorKind::constraint);
  EXPECT_EQ(trial(*recorded, "block=128 layout=column").failure, ErrorKind::runtime);  // before there were words
  EXPECT_EQ(recorded->failures(), 4U);
  ASSERT_TRUE(recorded->fastest().has_value());
  EXPECT_EQ(recorded->space.describe(*recorded->fastest()), "block=32 layout=column");
}

TEST(RecordedSpace, ReadsWhatAnInterruptedTuningLeft) {
  const std::string open = kernel_tuner.substr(0, kernel_tuner.find("\n  \"128,row\""));
  ASSERT_EQ(open.back(), ',');
  const auto recorded = parse_recorded_space(open + "\n");
  ASSERT_TRUE(recorded.ok()) << recorded.error().message;
  EXPECT_EQ(recorded->space.size(), 3U);
}

const std::string t4 = R"({
 "schema_version": "1.0.0", "metadata": {"timeunit": "microseconds"},
 "results": [
  {"configuration": {"vector": 4, "unroll": true}, "times": {"runtimes": [7, 9]}, "invalidity": "correct",
   "correctness": 1, "objectives": ["time"], "measurements": [{"name": "time", "value": 0.008, "unit": "ms"}]},
  {"configuration": {"vector": 2, "unroll": true}, "times": {"runtimes": [10, 12]}, "invalidity": "correct",
   "correctness": 1},
  {"configuration": {"vector": 2, "unroll": true}, "times": {"runtimes": [99]}, "invalidity": "correct",
   "correctness": 1},
  {"configuration": {"vector": 1, "unroll": false}, "times": {}, "invalidity": "correctness", "correctness": 0},
  {"configuration": {"vector": 8, "unroll": false}, "times": {}, "invalidity": "timeout", "correctness": 0}]})";

TEST(RecordedSpace, ReadsT4Results) {
  const auto recorded = parse_recorded_space(t4);
  ASSERT_TRUE(recorded.ok()) << recorded.error().message;
  ASSERT_EQ(recorded->space.size(), 4U);  // one is there twice, and the first counts
  EXPECT_EQ(trial(*recorded, "unroll=1 vector=4"), (RecordedTrial{std::nullopt, 8, {7, 9}}));
  EXPECT_EQ(trial(*recorded, "unroll=1 vector=2"), (RecordedTrial{std::nullopt, 11, {10, 12}}));
  EXPECT_EQ(trial(*recorded, "unroll=0 vector=1").failure, ErrorKind::correctness);
  EXPECT_EQ(trial(*recorded, "unroll=0 vector=8").failure, ErrorKind::timeout);
}

struct Damage {
  std::string text, message;
};

TEST(RecordedSpace, SaysWhatIsWrongAndWhere) {
  const std::vector<Damage> damages = {
      {"", "at byte 1 of 0"},
      {kernel_tuner.substr(0, 300), "malformed or cut off at byte 301 of 300"},
      {replaced(kernel_tuner, "\"time\": 0.5", "\"time\": nonsense"), "malformed"},
      {replaced(kernel_tuner, "\"time\": 0.5", "\"time\": 1e999"), "number overflow parsing '1e999'"},
      {"{}", "neither a Kernel Tuner cache file"},
      {"[1]", "neither a Kernel Tuner cache file"},
      {replaced(kernel_tuner, "\"time\": 0.25", "\"tome\": 0.25"), "cache entry '32,column': it has no time"},
      {replaced(kernel_tuner, "\"time\": 0.25", "\"time\": -1"), "cache entry '32,column': its time is -1 ms"},
      {replaced(kernel_tuner, "\"time\": 0.25", "\"time\": []"),
       "'32,column': its time is neither a number nor a word"},
      {replaced(kernel_tuner, "RuntimeFailedConfig", "Oops"), "the word 'Oops'"},
      {replaced(kernel_tuner, "{\"block\": 32, \"layout\": \"row\"", "{\"block\": 48, \"layout\": \"row\""),
       "cache entry '32,row': 48 is not among the values of parameter block"},
      {replaced(kernel_tuner, "{\"block\": 32, \"layout\": \"row\"", "{\"block\": 32"),
       "cache entry '32,row': it has no value of parameter layout"},
      {replaced(kernel_tuner, "\"block\": [64, 32, 128]", "\"block\": 64"), "no values of parameter \"block\""},
      {replaced(kernel_tuner, "[64, 32, 128]", "[64, null, 128]"), "neither a number nor a word but null"},
      {kernel_tuner.substr(0, kernel_tuner.find("\n  \"32,row\"")) + "}}", "it holds no configuration"},
      {replaced(t4, "\"timeout\"", "\"tired\""), "result 4: its invalidity is 'tired'"},
      {replaced(t4, "\"runtimes\": [10, 12]", "\"none\": 0"), "result 1: it is correct, and has neither"},
      {replaced(t4, "\"unit\": \"ms\"", "\"unit\": \"furlong\""), "result 0: 'furlong' is no unit of time"},
      {replaced(t4, "{\"vector\": 8, \"unroll\": false}", "7"), "result 4: it has no configuration"},
      {replaced(t4, "{\"vector\": 8, \"unroll\": false}", "{\"vector\": 8}"),
       "result 4: it has no value of parameter unroll"},
  };
  for (const Damage& damage : damages) {
    const auto recorded = parse_recorded_space(damage.text);
    ASSERT_FALSE(recorded.ok()) << damage.message;
    EXPECT_THAT(recorded.error().message, HasSubstr(damage.message));
  }
}

TEST(RecordedSpace, CutAnywhereItIsAnErrorAndNoCrash) {
  for (std::size_t length = 0; length < kernel_tuner.size(); ++length) {
    const auto recorded = parse_recorded_space(std::string_view(kernel_tuner).substr(0, length));
    if (!recorded) continue;
    const std::size_t last = kernel_tuner.find_last_not_of(" \n", length - 1);
    EXPECT_EQ(kernel_tuner[last], ',') << length;  // behind an entry: interrupted, not cut
  }
}

TEST(RecordedSpace, ReadsTheSpacesOfTheBenchmark) {
  const RealFileSystem files;
  const std::filesystem::path folder = STITCH_SOURCE_DIR "/bench/spaces";
  const auto recorded = read_recorded_space(files, folder / "convolution_a100.json.gz");
  ASSERT_TRUE(recorded.ok()) << recorded.error().message;
  EXPECT_EQ(recorded->device, "NVIDIA A100-PCIE-40GB");
  EXPECT_EQ(recorded->space.size(), 4362U);
  EXPECT_EQ(recorded->failures(), 161U);
  EXPECT_EQ(recorded->space.describe(*recorded->fastest()),
            "block_size_x=32 block_size_y=4 tile_size_x=1 tile_size_y=3 read_only=1 use_padding=0 use_shmem=1");
  EXPECT_EQ(recorded->trials[*recorded->fastest()].samples_us.size(), 8U);
}

TEST(RecordedSpace, NamesTheFile) {
  const RealFileSystem files;
  const auto missing = read_recorded_space(files, "absent.json.gz");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("absent.json.gz"));
  const std::filesystem::path wrong = STITCH_SOURCE_DIR "/CMakeLists.txt";
  EXPECT_THAT(read_recorded_space(files, wrong).error().message, HasSubstr("CMakeLists.txt: JSON is malformed"));
}

}  // namespace
}  // namespace stitch::lab
