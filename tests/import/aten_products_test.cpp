// Products, convolutions and attention of core ATen, and what differentiates them, by what they compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <numeric>

#include "graph/reference/evaluate.h"
#include "import/import.h"
#include "tests/graph/pass_case.h"

namespace stitch::import {
namespace {

using graph::Tensor;
using testing::HasSubstr;
using Doubles = std::vector<double>;

/// A document of one node: its inputs by name and type, in the order of the parameters.
std::string document(const std::vector<std::pair<std::string, std::string>>& inputs, std::string_view op,
                     std::string_view more, std::string_view results, int outputs) {
  std::string types, arguments, given;
  for (const auto& [name, type] : inputs) {
    types += fmt::format(R"({}{{"name": "{}", "type": "{}"}})", types.empty() ? "" : ", ", name, type);
    arguments += fmt::format(R"("{0}": {{"value": "{0}"}}, )", name);
  }
  for (int i = 0; i < outputs; ++i) given += fmt::format(R"({}{{"value": "v", "result": {}}})", i > 0 ? ", " : "", i);
  return fmt::format(
      R"({{"format": "stitch-aten", "version": 1, "inputs": [{}],
           "nodes": [{{"name": "v", "op": "{}", "args": {{{}{}}}, "results": [{}]}}], "outputs": [{}]}})",
      types, op, arguments, more, results, given);
}

std::vector<Tensor> results_of(const std::string& text, const std::vector<Tensor>& arguments) {
  const auto imported = import_aten(text);
  EXPECT_TRUE(imported.ok()) << imported.error().message;
  if (!imported) return {};
  const auto made = graph::evaluate(imported->graph, arguments);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return made ? *made : std::vector<Tensor>{};
}

Tensor values(graph::DType dtype, graph::Dims dims, int seed) {
  Tensor tensor = Tensor::zeros({dtype, std::move(dims)});
  for (std::size_t i = 0; i < tensor.floats.size(); ++i)
    tensor.floats[i] = static_cast<double>((i * 7 + i / 3 * 5 + seed * 11) % 13) / 4 - 1.5;
  return tensor;
}

double inner(const Tensor& x, const Tensor& y) {
  EXPECT_EQ(x.type.dims, y.type.dims);
  return std::inner_product(x.floats.begin(), x.floats.end(), y.floats.begin(), 0.0);
}

TEST(AtenProducts, FactorsAndWhatIsAddedAreThoseOfTheArguments) {
  const Tensor c = values(graph::DType::f64, {1, 2}, 1), x = values(graph::DType::f64, {3, 4}, 2),
               y = values(graph::DType::f64, {4, 2}, 3);
  const auto made = results_of(document({{"self", "f64[1,2]"}, {"mat1", "f64[3,4]"}, {"mat2", "f64[4,2]"}},
                                        "aten.addmm.default", R"("beta": 0.5, "alpha": -2)", R"("f64[3,2]")", 1),
                               {c, x, y});
  ASSERT_EQ(made.size(), 1U);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 2; ++j) {
      double sum = 0;
      for (int k = 0; k < 4; ++k) sum += x.floats[i * 4 + k] * y.floats[k * 2 + j];
      EXPECT_DOUBLE_EQ(made[0].floats[i * 2 + j], 0.5 * c.floats[j] - 2 * sum) << i << " " << j;
    }
  }
}

/// Groups of rows, of columns and of what is contracted; the second one is empty, and the last rows are nobody's.
TEST(AtenProducts, GroupsHaveMatricesOfTheirOwn) {
  const Doubles ends = {2, 2, 5};
  Tensor offsets = Tensor::zeros({graph::DType::s32, {3}});
  offsets.integers.assign(ends.begin(), ends.end());
  const auto group_of = [&](int place) { return place < 2 ? 0 : place < 5 ? 2 : -1; };
  const Tensor x = values(graph::DType::f32, {6, 4}, 1), w = values(graph::DType::f32, {3, 4, 2}, 2);
  const auto rows = results_of(document({{"self", "f32[6,4]"}, {"mat2", "f32[3,4,2]"}, {"offs", "s32[3]"}},
                                        "aten._grouped_mm.default", "\"bias\": null", R"("f32[6,2]")", 1),
                               {x, w, offsets});
  ASSERT_EQ(rows.size(), 1U);
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 2; ++j) {
      double sum = 0;
      for (int k = 0; k < 4 && group_of(i) >= 0; ++k)
        sum += x.floats[i * 4 + k] * w.floats[(group_of(i) * 4 + k) * 2 + j];
      EXPECT_NEAR(rows[0].floats[i * 2 + j], sum, 1e-6) << i << " " << j;
    }
  }
  const Tensor y = values(graph::DType::f32, {4, 6}, 3), z = values(graph::DType::f32, {6, 2}, 4);
  const auto sums = results_of(document({{"self", "f32[4,6]"}, {"mat2", "f32[6,2]"}, {"offs", "s32[3]"}},
                                        "aten._grouped_mm.default", "\"bias\": null", R"("f32[3,4,2]")", 1),
                               {y, z, offsets});
  ASSERT_EQ(sums.size(), 1U);
  for (int g = 0; g < 3; ++g) {
    for (int i = 0; i < 8; ++i) {
      double sum = 0;
      for (int k = 0; k < 6; ++k) sum += group_of(k) == g ? y.floats[i / 2 * 6 + k] * z.floats[k * 2 + i % 2] : 0;
      EXPECT_NEAR(sums[0].floats[g * 8 + i], sum, 1e-6) << g << " " << i;
    }
  }
  const Tensor v = values(graph::DType::f32, {3, 2, 4}, 5);
  const auto columns = results_of(document({{"self", "f32[3,2,4]"}, {"mat2", "f32[4,6]"}, {"offs", "s32[3]"}},
                                           "aten._grouped_mm.default", "\"bias\": null", R"("f32[2,6]")", 1),
                                  {v, y, offsets});
  ASSERT_EQ(columns.size(), 1U);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 6; ++j) {
      double sum = 0;
      for (int k = 0; k < 4 && group_of(j) >= 0; ++k)
        sum += v.floats[(group_of(j) * 2 + i) * 4 + k] * y.floats[k * 6 + j];
      EXPECT_NEAR(columns[0].floats[i * 6 + j], sum, 1e-6) << i << " " << j;
    }
  }
}

/// With beta 0 not even NaN passes, as PyTorch has it.
TEST(AtenProducts, WhatHasTheFactorZeroIsNotLookedAt) {
  Tensor c = values(graph::DType::f32, {2}, 1);
  c.floats[0] = std::numeric_limits<double>::quiet_NaN();
  const auto made = results_of(document({{"self", "f32[2]"}, {"mat", "f32[2,2]"}, {"vec", "f32[2]"}},
                                        "aten.addmv.default", R"("beta": 0)", R"("f32[2]")", 1),
                               {c, values(graph::DType::f32, {2, 2}, 2), values(graph::DType::f32, {2}, 3)});
  ASSERT_EQ(made.size(), 1U);
  EXPECT_FALSE(std::isnan(made[0].floats[0]));
}

/// A 16-bit product that is added to is rounded once: 256 + 0.5 + 0.5 in bf16, where 256.5 would be 256.
TEST(AtenProducts, SumsOfNarrowFloatsAreRoundedOnce) {
  const auto of = [](graph::Dims dims, Doubles floats) {
    Tensor tensor = Tensor::zeros({graph::DType::bf16, std::move(dims)});
    tensor.floats = std::move(floats);
    return tensor;
  };
  const auto made = results_of(document({{"self", "bf16[1]"}, {"mat1", "bf16[1,2]"}, {"mat2", "bf16[2,1]"}},
                                        "aten.addmm.default", R"("beta": 1)", R"("bf16[1,1]")", 1),
                               {of({1}, {1.0}), of({1, 2}, {16.0, 1.0}), of({2, 1}, {16.0, 1.0})});
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].floats[0], 258.0);
}

struct Convolution {
  std::string_view name, more;
  graph::Dims x, w, y;
};

class AtenConvolutions : public ::testing::TestWithParam<Convolution> {};

std::string type_of(const graph::Dims& dims) { return graph::to_string(graph::TensorType{graph::DType::f64, dims}); }
std::string quoted(const graph::Dims& dims) { return "\"" + type_of(dims) + "\""; }

/// A convolution is linear in either operand, so that ⟨g, x∗w⟩ = ⟨∂x, x⟩ = ⟨∂w, w⟩ for all of them.
TEST_P(AtenConvolutions, GradientsAreAdjoint) {
  const Convolution& of = GetParam();
  for (const int seed : {1, 2, 3}) {
    const Tensor x = values(graph::DType::f64, of.x, seed), w = values(graph::DType::f64, of.w, seed + 10),
                 g = values(graph::DType::f64, of.y, seed + 20);
    const auto y = results_of(document({{"input", type_of(of.x)}, {"weight", type_of(of.w)}},
                                       "aten.convolution.default", of.more, quoted(of.y), 1),
                              {x, w});
    const auto gradients =
        results_of(document({{"grad_output", type_of(of.y)}, {"input", type_of(of.x)}, {"weight", type_of(of.w)}},
                            "aten.convolution_backward.default", of.more,
                            quoted(of.x) + ", " + quoted(of.w) + ", " + quoted({of.y[1]}), 3),
                   {g, x, w});
    ASSERT_EQ(y.size(), 1U);
    ASSERT_EQ(gradients.size(), 3U);
    const double expected = inner(g, y[0]);
    EXPECT_NEAR(inner(gradients[0], x), expected, 1e-9);
    EXPECT_NEAR(inner(gradients[1], w), expected, 1e-9);
    const Tensor ones = [&] {
      Tensor tensor = Tensor::zeros({graph::DType::f64, {of.y[1]}});
      std::ranges::fill(tensor.floats, 1.0);
      return tensor;
    }();
    EXPECT_NEAR(inner(gradients[2], ones), std::accumulate(g.floats.begin(), g.floats.end(), 0.0), 1e-9);
  }
}

constexpr std::string_view plain = R"("stride": [1], "padding": [1], "dilation": [1], "groups": 1)";

INSTANTIATE_TEST_SUITE_P(
    All, AtenConvolutions,
    ::testing::Values(
        Convolution{"plain", plain, {2, 3, 5}, {4, 3, 3}, {2, 4, 5}},
        Convolution{"a_rest",
                    R"("stride": [2, 3], "padding": [1, 0], "dilation": [1, 2], "groups": 1)",
                    {2, 2, 6, 9},
                    {3, 2, 2, 2},
                    {2, 3, 4, 3}},
        Convolution{"groups",
                    R"("stride": [1], "padding": [0], "dilation": [2], "groups": 2)",
                    {2, 4, 7},
                    {6, 2, 3},
                    {2, 6, 3}},
        Convolution{"transposed",
                    R"("stride": [2], "padding": [1], "dilation": [1], "transposed": true, "output_padding": [1])",
                    {2, 3, 4},
                    {3, 5, 3},
                    {2, 5, 8}},
        Convolution{"transposed_groups",
                    R"("stride": [2], "padding": [1], "dilation": [2], "transposed": true, "output_padding": [0],
                       "groups": 2)",
                    {2, 4, 4},
                    {4, 3, 3},
                    {2, 6, 9}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(AtenConvolution, ResultsThatWereNotAskedForAreNobodys) {
  const auto text = [](int result) {
    return fmt::format(
        R"({{"format": "stitch-aten", "version": 1, "inputs": [{{"name": "g", "type": "f32[1,1,3]"}},
             {{"name": "x", "type": "f32[1,1,3]"}}, {{"name": "w", "type": "f32[1,1,1]"}}],
             "nodes": [{{"name": "v", "op": "aten.convolution_backward.default", "args": {{"grad_output": {{"value": "g"}},
             "input": {{"value": "x"}}, "weight": {{"value": "w"}}, "stride": [1], "padding": [0], "dilation": [1]}},
             "results": [null, "f32[1,1,1]", null]}}], "outputs": [{{"value": "v", "result": {}}}]}})",
        result);
  };
  const auto asked = import_aten(text(1));
  ASSERT_TRUE(asked.ok()) << asked.error().message;
  const auto not_asked = import_aten(text(0));
  ASSERT_FALSE(not_asked.ok());
  EXPECT_THAT(not_asked.error().message, HasSubstr("a result that its node was asked for"));
}

TEST(AtenConvolution, WhatIsWrongIsNamed) {
  const auto error_of = [](std::string_view more, std::string_view weight) {
    const auto imported = import_aten(document({{"input", "f32[1,2,5]"}, {"weight", std::string(weight)}},
                                               "aten.convolution.default", more, R"("f32[1,2,5]")", 1));
    EXPECT_FALSE(imported.ok()) << more;
    return imported.ok() ? std::string() : imported.error().message;
  };
  EXPECT_THAT(error_of(plain, "f32[2,2]"), HasSubstr("argument 'weight': expected a tensor of at least 3 dimensions"));
  EXPECT_THAT(error_of(R"("stride": [1, 1], "padding": [1], "dilation": [1])", "f32[2,2,3]"),
              HasSubstr("argument 'stride': expected 1 integers from 1"));
  EXPECT_THAT(error_of(R"("stride": [0], "padding": [1], "dilation": [1])", "f32[2,2,3]"), HasSubstr("'stride'"));
  EXPECT_THAT(error_of(R"("stride": [1], "padding": [1], "dilation": [1], "groups": 3)", "f32[2,2,3]"),
              HasSubstr("argument 'groups'"));
  EXPECT_THAT(error_of(plain, "f32[2,2,3,3]"), HasSubstr("argument 'input'"));
}

/// The backward pass makes of the logarithm of the sums what the forward pass had.
TEST(AtenAttention, GradientsAreThoseOfTheWeights) {
  const graph::Dims heads = {1, 2, 3, 4};
  const auto named = [&](std::initializer_list<const char*> names) {
    std::vector<std::pair<std::string, std::string>> inputs;
    for (const char* name : names) inputs.emplace_back(name, type_of(heads));
    return inputs;
  };
  Tensor q = values(graph::DType::f64, heads, 1);
  const Tensor k = values(graph::DType::f64, heads, 2), v = values(graph::DType::f64, heads, 3),
               g = values(graph::DType::f64, heads, 4);
  for (const std::string_view causal : {"false", "true"}) {
    const std::string more = fmt::format(R"("is_causal": {}, "scale": 0.5)", causal);
    const auto forward = [&] {
      return results_of(
          document(named({"query", "key", "value"}), "aten._scaled_dot_product_flash_attention_for_cpu.default", more,
                   quoted(heads) + ", " + quoted({1, 2, 3}), 2),
          {q, k, v});
    };
    const auto made = forward();
    ASSERT_EQ(made.size(), 2U);
    auto inputs = named({"grad_out", "query", "key", "value", "out"});
    inputs.emplace_back("logsumexp", type_of({1, 2, 3}));
    const auto gradients =
        results_of(document(inputs, "aten._scaled_dot_product_flash_attention_for_cpu_backward.default", more,
                            quoted(heads) + ", " + quoted(heads) + ", " + quoted(heads), 3),
                   {g, q, k, v, made[0], made[1]});
    ASSERT_EQ(gradients.size(), 3U);
    EXPECT_NEAR(inner(gradients[2], v), inner(g, made[0]), 1e-9) << "linear in the values";
    for (std::size_t i = 0; i < q.floats.size(); ++i) {  // of the queries by differences
      constexpr double step = 1e-5;
      q.floats[i] += step;
      const double above = inner(g, forward()[0]);
      q.floats[i] -= 2 * step;
      const double below = inner(g, forward()[0]);
      q.floats[i] += step;
      EXPECT_NEAR(gradients[0].floats[i], (above - below) / (2 * step), 1e-6) << i;
    }
  }
}

TEST(AtenAttention, WhatHasNoRuleIsRefused) {
  const auto error_of = [](std::string_view keys, std::string_view more) {
    const auto imported = import_aten(document(
        {{"query", "f32[1,4,3,2]"}, {"key", std::string(keys)}, {"value", std::string(keys)}},
        "aten._scaled_dot_product_flash_attention_for_cpu.default", more, R"("f32[1,4,3,2]", "f32[1,4,3]")", 2));
    EXPECT_FALSE(imported.ok());
    return imported.ok() ? std::string() : imported.error().message;
  };
  EXPECT_THAT(error_of("f32[1,2,3,2]", R"("is_causal": false)"), HasSubstr("heads that share keys"));
  EXPECT_THAT(error_of("f32[1,4,3,2]", R"("dropout_p": 0.1)"), HasSubstr("dropout of the weights"));
}

}  // namespace
}  // namespace stitch::import
