// Small JAX functions, imported and evaluated, against what XLA computed for them. tests/data/hlo/generate.py makes
// the files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "graph/reference/evaluate.h"
#include "graph/simplify.h"
#include "graph/verify.h"
#include "import/import.h"
#include "tests/import/hlo_text.h"

namespace stitch::import {
namespace {

const std::filesystem::path folder = std::filesystem::path(STITCH_SOURCE_DIR) / "tests" / "data" / "hlo";

double number(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  const auto& text = value.get_ref<const std::string&>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return text == "inf" ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
}

graph::Tensor tensor_of(const nlohmann::json& record) {
  graph::TensorType type{*graph::dtype_from_name(record.at("dtype").get<std::string>()),
                         record.at("dims").get<graph::Dims>()};
  graph::Tensor tensor = graph::Tensor::zeros(type);
  const nlohmann::json& data = record.at("data");
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (graph::is_floating(type.dtype)) {
      tensor.floats[i] = number(data[i]);
    } else {
      tensor.integers[i] = data[i].get<std::int64_t>();
    }
  }
  return tensor;
}

/// XLA's float results carry the errors of its own arithmetic; everything else must be equal.
double tolerance(graph::DType dtype, double value) {
  switch (dtype) {
    case graph::DType::f32: return 2e-5 * std::max(1.0, std::fabs(value));
    case graph::DType::f16: return 2e-3 * std::max(0.05, std::fabs(value));
    case graph::DType::bf16: return 1.2e-2 * std::max(0.05, std::fabs(value));
    default: return 0;
  }
}

void expect_equal(const graph::Tensor& got, const graph::Tensor& wanted, double relative, const std::string& what) {
  ASSERT_EQ(got.type, wanted.type) << what;
  for (std::int64_t i = 0; i < wanted.elements(); ++i) {
    const double x = got.at(i), y = wanted.at(i);
    if (std::isnan(y) || std::isinf(y)) {
      EXPECT_TRUE(std::isnan(y) ? std::isnan(x) : x == y) << what << " element " << i << ": " << x << " for " << y;
    } else {
      EXPECT_NEAR(x, y, std::max(tolerance(wanted.type.dtype, y), relative * std::fabs(y))) << what << " element " << i;
    }
  }
}

Imported imported_file(const std::string& name) {
  return import_good(file_text((folder / (name + ".hlo.txt")).string()));
}

/// The graph gives the recorded results of the recorded arguments.
void expect_recorded(const graph::Graph& graph, const std::string& name) {
  const auto record = nlohmann::json::parse(file_text((folder / (name + ".json")).string()));
  std::vector<graph::Tensor> arguments;
  for (const auto& argument : record.at("arguments")) arguments.push_back(tensor_of(argument));
  graph::EvaluateOptions options;
  options.round = true;
  const auto results = graph::evaluate(graph, arguments, options);
  ASSERT_TRUE(results.ok()) << results.error().message;
  ASSERT_EQ(results->size(), record.at("results").size());
  for (std::size_t i = 0; i < results->size(); ++i) {
    expect_equal((*results)[i], tensor_of(record.at("results")[i]), record.value("tolerance", 0.0),
                 fmt::format("result {}", i));
  }
}

class HloGolden : public testing::TestWithParam<std::string> {};

TEST_P(HloGolden, ComputesWhatXlaComputes) {
  const Imported imported = imported_file(GetParam());
  EXPECT_TRUE(imported.boundaries.empty());
  expect_recorded(imported.graph, GetParam());
}

TEST_P(HloGolden, ComputesItSimplified) {
  Imported imported = imported_file(GetParam());
  const auto report = graph::simplify(imported.graph);
  ASSERT_TRUE(report.ok()) << report.error().message;
  expect_recorded(imported.graph, GetParam());
}

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(Functions, HloGolden, testing::ValuesIn(golden_names()),
                         [](const auto& row) { return row.param; });

TEST(HloExpansions, WhatJaxHandsOverForErfcIsRecognised) {
  for (const auto& [name, count] : {std::pair{"exact_gelu", 3}, {"erfc_f64", 1}}) {
    Imported imported = imported_file(name);
    ASSERT_TRUE(graph::simplify(imported.graph).ok());
    const auto nodes = imported.graph.nodes();
    const auto is = [](graph::Op op) { return [=](const graph::Node& node) { return node.op == op; }; };
    EXPECT_EQ(std::count_if(nodes.begin(), nodes.end(), is(graph::Op::erfc)), count) << name;
    EXPECT_EQ(std::count_if(nodes.begin(), nodes.end(), is(graph::Op::divide)), 0) << name;
  }
}

}  // namespace
}  // namespace stitch::import
