// The importers and the reference beside what XLA's CPU backend and onnxruntime computed (tests/data/differential, made
// by bench/differential/run --subset), and how results are compared.
#include "lab/differential/differential.h"

#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "base/processors.h"
#include "graph/literal.h"
#include "tests/base/test_folder.h"

namespace stitch::lab {
namespace {

using graph::ConstantAttributes;
using graph::DType;
using graph::Tensor;
using graph::TensorType;
using testing::HasSubstr;

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

struct RecordedFile {
  const char* name;
  std::size_t cases;  ///< at least; a generator that lost some is seen
};
void PrintTo(const RecordedFile& file, std::ostream* out) { *out << file.name; }

class OtherImplementations : public testing::TestWithParam<RecordedFile> {};

TEST_P(OtherImplementations, ComputeWhatTheReferenceComputes) {
  const std::filesystem::path path = std::filesystem::path(STITCH_SOURCE_DIR) / "tests/data/differential" /
                                     (std::string(GetParam().name) + ".json.gz");
  const RealFileSystem files;
  const Result<DifferentialFile> file = read_differential_file(path, files);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_FALSE(file->versions.empty());
  const std::vector<DifferentialRow> rows = run_differential_cases(*file, "", usable_processors());
  EXPECT_GE(rows.size(), GetParam().cases);
  for (const DifferentialRow& row : rows) {
    const bool right = row.outcome == DifferentialOutcome::equal || row.outcome == DifferentialOutcome::within;
    EXPECT_TRUE(right) << row.name << " (" << row.graph << "): " << row.why;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, OtherImplementations,
                         testing::Values(RecordedFile{"hlo", 400}, RecordedFile{"onnx", 600},
                                         RecordedFile{"models_hlo", 15}),
                         [](const auto& file) { return std::string(file.param.name); });

// comparing --------------------------------------------------------------------------------------------------------

Tensor tensor_of(DType dtype, std::vector<double> values, std::vector<double> bounds) {
  Tensor tensor = Tensor::zeros({dtype, {static_cast<std::int64_t>(values.size())}});
  if (graph::is_floating(dtype)) {
    tensor.floats = std::move(values);
  } else {
    tensor.integers.assign(values.begin(), values.end());
  }
  tensor.bounds = std::move(bounds);
  return tensor;
}

ConstantAttributes result_of(DType dtype, const std::vector<double>& values) {
  return graph::dense({dtype, {static_cast<std::int64_t>(values.size())}}, values);
}

TEST(ResultComparisons, TellWhatIsEqualWithinAndUnchecked) {
  const Tensor reference = tensor_of(DType::f32, {1, 0.1, 2, 3, nan, infinity}, {0, 0.01, 0.5, infinity, 0, 0});
  const ResultComparison got =
      compare_with_reference({reference}, {result_of(DType::f32, {1, 0.1, 2.25, 7, nan, infinity})});
  EXPECT_EQ(got.elements, 6);
  EXPECT_EQ(got.equal, 4);
  EXPECT_EQ(got.within, 1);
  EXPECT_EQ(got.unchecked, 1);
  EXPECT_EQ(got.wrong(), 0);
  EXPECT_EQ(got.first_wrong, "");
}

TEST(ResultComparisons, TellHowTheyAreWrong) {
  const Tensor reference = tensor_of(DType::f32, {1, nan, infinity, -infinity, 0}, {});
  const ResultComparison got =
      compare_with_reference({reference}, {result_of(DType::f32, {1.5, 2, nan, infinity, -0.0})});
  EXPECT_EQ(got.number, 1);
  EXPECT_EQ(got.nan, 2);
  EXPECT_EQ(got.infinite, 1);
  EXPECT_EQ(got.zero_sign, 1);
  EXPECT_EQ(got.most_ulps, std::ldexp(1, 22));
  EXPECT_EQ(got.most_relative, 0.5);
  EXPECT_EQ(got.first_wrong, "result 0 [0]: 1.5, reference 1 ± 0");
}

TEST(ResultComparisons, IntegersAreExact) {
  const Tensor reference = tensor_of(DType::s32, {7, 8, 9}, {0, 1, infinity});
  const ResultComparison got = compare_with_reference({reference}, {result_of(DType::s32, {6, 9, 100})});
  EXPECT_EQ(got.number, 1);
  EXPECT_EQ(got.within, 1);
  EXPECT_EQ(got.unchecked, 1);
  EXPECT_EQ(got.most_ulps, 1);
}

TEST(ResultComparisons, AnotherTypeIsWrongAlsoWithoutElements) {
  const Tensor reference = Tensor::zeros({DType::f32, {0, 3}});
  const ResultComparison got =
      compare_with_reference({reference}, {graph::dense({DType::f32, {3, 0}}, std::vector<double>{})});
  EXPECT_EQ(got.number, 1);
  EXPECT_THAT(got.first_wrong, HasSubstr("f32[3,0], the reference's f32[0,3]"));
}

// cases ------------------------------------------------------------------------------------------------------------

/// y = x + x, of two elements.
std::string doubled(std::string_view data, std::string_view model = "y = f32[2] add(x, x)") {
  return fmt::format(
      R"({{"implementation": "a test", "versions": {{"it": "1"}}, "cases": [{{"name": "twice", "subject": "add",
"model": "HloModule m\nENTRY e {{\n x = f32[2] parameter(0)\n ROOT {}\n}}\n",
"inputs": [{{"type": "f32", "dims": [2], "data": "AACAPwAAAEA="}}], "outputs": [{{"type": "f32", "dims": [2], "data": "{}"}}]}}]}})",
      model, data);
}

class DifferentialFiles : public testing::Test {
 protected:
  [[nodiscard]] Result<DifferentialFile> read(std::string_view text) const {
    std::ofstream(folder_.path() / "cases.json", std::ios::binary) << text;
    return read_differential_file(folder_.path() / "cases.json", RealFileSystem());
  }
  [[nodiscard]] DifferentialRow only_row(std::string_view text) const {
    const Result<DifferentialFile> file = read(text);
    EXPECT_TRUE(file) << file.error().message;
    return file ? run_differential_cases(*file, "", 1).at(0) : DifferentialRow();
  }
  TestFolder folder_;
};

TEST_F(DifferentialFiles, ACaseIsEqualOrWrong) {
  const DifferentialRow right = only_row(doubled("AAAAQAAAgEA="));  // 2, 4
  EXPECT_EQ(right.outcome, DifferentialOutcome::equal) << right.why;
  EXPECT_EQ(right.graph, "simplified");
  const DifferentialRow wrong = only_row(doubled("AAAAQAAAAEA="));  // 2, 2
  EXPECT_EQ(wrong.outcome, DifferentialOutcome::wrong);
  EXPECT_EQ(wrong.graph, "imported");
  EXPECT_EQ(wrong.why, "result 0 [1]: 2, reference 4 ± 0");
}

TEST_F(DifferentialFiles, WhatStaysABoundaryIsUnsupportedAndWhatCannotBeReadIsWrong) {
  const DifferentialRow sorted = only_row(doubled("AAAAQAAAgEA=", "y = f32[2] cholesky(x)"));
  EXPECT_EQ(sorted.outcome, DifferentialOutcome::unsupported);
  EXPECT_THAT(sorted.why, HasSubstr("cholesky"));
  const DifferentialRow broken = only_row(doubled("AAAAQAAAgEA=", "y = f32[2] add(x"));
  EXPECT_EQ(broken.outcome, DifferentialOutcome::wrong);
  EXPECT_THAT(broken.why, HasSubstr("parse"));
}

TEST_F(DifferentialFiles, BadOnesAreRefusedWithTheirPlace) {
  const Result<DifferentialFile> short_data = read(doubled("AAAAQA=="));
  ASSERT_FALSE(short_data);
  EXPECT_EQ(short_data.error().kind, ErrorKind::parse);
  EXPECT_THAT(short_data.error().message, HasSubstr("case 0 (twice): output 0: 4 bytes of data for f32[2]"));
  EXPECT_THAT(read(doubled("!")).error().message, HasSubstr("no base64"));
  EXPECT_THAT(read("{").error().message, HasSubstr("holds no cases"));
  EXPECT_EQ(read_differential_file(folder_.path() / "absent.json", RealFileSystem()).error().kind,
            ErrorKind::not_found);
}

}  // namespace
}  // namespace stitch::lab
