// Lists of problems: what each field makes, and what is said of one that is wrong.
#include "cli/contractions/problem_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/base/test_folder.h"

namespace stitch::cli {
namespace {

class ProblemFile : public testing::Test {
 protected:
  Result<std::vector<NamedProblem>> read(const std::string& objects) {
    RealFileSystem files;
    EXPECT_TRUE(files.publish(folder_ / "problems.json", "[" + objects + "]"));
    return read_problems(files, folder_ / "problems.json");
  }
  std::string form(const std::string& object) {
    const auto problems = read(object);
    if (!problems) return problems.error().message;
    const auto* product = std::get_if<kernel::ContractionProblem>(&problems->front().problem);
    return product == nullptr ? "attention" : to_string(*product);
  }

  const TestFolder folder_;
};

TEST_F(ProblemFile, HasProductsConvolutionsAndAttentions) {
  const std::string image = R"("dtype": "f16", "images": 2, "features": 8, "results": 16, )";
  const struct {
    std::string object, form;
  } rows[] = {
      {R"({"dtype": "f16", "m": 4, "n": 6, "k": 8, "right": "turned"})", "f16 1×[4,8]·[6,8]ᵀ → f16"},
      {R"({"dtype": "f16", "heads": 2, "rows": 8, "keys": 8, "depth": 16})", "attention"},
      {"{" + image + R"("extents": [6, 7], "window": [3, 3]})", "f16 convolution 1×[40,72]·[72,16] → f16"},
      {"{" + image + R"("extents": [6, 7], "window": [3, 3], "padding": 1, "result": "f32"})",
       "f16 convolution 1×[84,72]·[72,16] → f32"},
      {"{" + image + R"("extents": 7, "window": [3, 1], "padding": [1, 0], "strides": [2, 1]})",
       "f16 convolution 1×[56,24]·[24,16] → f16"},
      {"{" + image + R"("extents": [9, 9], "window": [3, 3], "dilation": 2, "groups": 4})",
       "f16 convolution 4×[50,18]·[18,4] → f16"},
      {"{" + image + R"("extents": [4], "window": [3], "holes": 2, "features_are": "first"})",
       "f16 convolution 1×[10,24]·[16,24]ᵀ → f16"},
  };
  for (const auto& row : rows) EXPECT_EQ(form(row.object), row.form) << row.object;
}

TEST_F(ProblemFile, ProductsOfF32AreMadeAsIsAskedFor) {
  const std::string product = R"({"dtype": "f32", "m": 4, "n": 6, "k": 8)";
  const struct {
    std::string more;
    graph::F32Arithmetic arithmetic;
  } rows[] = {
      {"", graph::F32Arithmetic::f32},
      {R"(, "arithmetic": "f32")", graph::F32Arithmetic::f32},
      {R"(, "arithmetic": "tf32")", graph::F32Arithmetic::tf32},
      {R"(, "arithmetic": "tf32x3")", graph::F32Arithmetic::tf32x3},
      {R"(, "arithmetic": "bf16x3")", graph::F32Arithmetic::bf16x3},
  };
  for (const auto& row : rows) {
    const auto problems = read(product + row.more + "}");
    ASSERT_TRUE(problems) << problems.error().message;
    const auto& problem = std::get<kernel::ContractionProblem>(problems->front().problem);
    EXPECT_EQ(problem.graph->constraints.f32_arithmetic(), row.arithmetic) << row.more;
  }
  EXPECT_THAT(form(product + R"(, "arithmetic": "f16"})"), testing::HasSubstr("'arithmetic' is none of"));
}

TEST_F(ProblemFile, ScalesAreOfPartsOfTheDepth) {
  const std::string product = R"({"dtype": "f8e4m3", "m": 4, "n": 256, "k": 512, "right": "turned", "result": "bf16")";
  const auto problems = read(product + R"(, "scaled_by": 128})");
  ASSERT_TRUE(problems) << problems.error().message;
  const auto& problem = std::get<kernel::ContractionProblem>(problems->front().problem);
  ASSERT_TRUE(problem.scales);
  EXPECT_EQ(problem.scales->depth, 128);
  EXPECT_EQ(problem.left.dtype, graph::DType::f8e4m3);
  EXPECT_EQ(problem.result.dtype, graph::DType::bf16);
  EXPECT_THAT(form(product + R"(, "scaled_by": 0})"), testing::HasSubstr("'scaled_by' is 0"));
  EXPECT_THAT(form(product + R"(, "scaled_by": 128, "left": "turned"})"), testing::HasSubstr("'left'"));
  EXPECT_THAT(form(product + R"(, "scaled_by": 12})"), testing::HasSubstr("depth"));
}

TEST_F(ProblemFile, SaysWhatIsWrongWithAConvolution) {
  const struct {
    const char *fields, *said;
  } rows[] = {
      {R"("window": 3)", "'window' is no list of at most 3 extents"},
      {R"("window": [1, 1, 1, 1])", "'window' is no list of at most 3 extents"},
      {R"("window": [3, 3], "extents": [4])", "'extents' is no list of 2 extents"},
      {R"("window": [3, 3], "extents": 4, "strides": [1, -1])", "'strides' is no list of 2 extents"},
      {R"("window": [3, 3], "extents": 4, "groups": 3)", "'groups' does not divide 'features'"},
      {R"("window": [3, 3], "extents": 4, "groups": 0)", "'groups' does not divide 'features'"},
      {R"("window": [3, 3], "extents": 4, "features_are": "here")", "'features_are' is neither first nor last"},
  };
  for (const auto& row : rows) {
    const std::string object = std::string(R"({"dtype": "f16", "features": 8, "results": 8, )") + row.fields + "}";
    EXPECT_THAT(form(object), testing::AllOf(testing::HasSubstr(row.said), testing::HasSubstr("product 0"))) << object;
  }
}

}  // namespace
}  // namespace stitch::cli
