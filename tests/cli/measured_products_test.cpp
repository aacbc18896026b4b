// Schedules of products and attentions on a device, one by one, and what the model says of those that a GPU has timed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(json::parse(line));
  return lines;
}

const char* const two = R"([
  {"name": "layer", "dtype": "bf16", "m": 128, "n": 192, "k": 512, "right": "turned"},
  {"name": "heads", "dtype": "f16", "heads": 2, "rows": 64, "keys": 96, "depth": 32}])";

TEST(MeasuredProductsEmulated, SchedulesAreVerifiedOneByOne) {
  const Folder folder;
  const Outcome tried = stitch({"contractions", "--problems", folder.write("two.json", two), "--device", "emulated",
                                "--best", "2", "--ranks", "9", "--cache", folder.at("cache")});
  ASSERT_EQ(tried.code, 0) << tried.err;
  const std::vector<json> lines = lines_of(tried.out);
  std::vector<int> places;
  for (const json& line : lines) {
    EXPECT_FALSE(line.contains("failure")) << line;
    EXPECT_FALSE(line.contains("measured_us")) << "the emulated device has no times";
    EXPECT_LT(line["worst"], 1);
    EXPECT_GT(line["share"], 0);
    if (line["name"] == "layer") places.push_back(line["place"]);
  }
  EXPECT_EQ(places, (std::vector<int>{0, 1, 4, 8}));
  EXPECT_EQ(lines.back()["name"], "heads");
}

TEST(MeasuredProductsEmulated, CountsAreNoTimes) {
  const Folder folder;
  const Outcome tried = stitch({"contractions", "--problems", folder.write("two.json", two), "--device",
                                "emulated:counts", "--best", "1", "--cache", folder.at("cache")});
  ASSERT_EQ(tried.code, 0) << tried.err;
  for (const json& line : lines_of(tried.out)) {
    EXPECT_GT(line["sectors"], 0);
    EXPECT_FALSE(line.contains("measured_us"));
  }
}

TEST(MeasuredProducts, WhatIsNoMeasurementIsNamed) {
  const Folder folder;
  const std::string problems = folder.write("two.json", two);
  const Outcome broken =
      stitch({"contractions", "--problems", problems, "--priced",
              folder.write("broken.jsonl", "{\"name\": \"layer\", \"schedule\": \"00\"}\n{\"name\"\n")});
  EXPECT_NE(broken.code, 0);
  EXPECT_THAT(broken.err, HasSubstr("broken.jsonl, line 2: no measurement of a product"));
  const Outcome unknown = stitch({"contractions", "--problems", problems, "--priced",
                                  folder.write("unknown.jsonl", "{\"name\": \"layer\", \"schedule\": \"00\"}\n")});
  EXPECT_EQ(unknown.code, 0);
  EXPECT_EQ(unknown.out, "");
  EXPECT_THAT(unknown.err, HasSubstr("1 lines of schedules or problems that are not there today"));
}

/// Of the problems that an H100 timed (bench/results/gpu), with schedules that do not spill: what choosing by the model
/// costs, beside the best of those that were timed, and what its predictions are off.
TEST(MeasuredProducts, TheModelIsRightAboutAnH100) {
  const std::string bench = std::string(STITCH_SOURCE_DIR) + "/bench";
  std::map<std::string, std::map<double, double>> problems;  // measured by predicted, µs
  double off = 0;
  int count = 0;
  for (const char* measured : {"2/products-ours", "3/products-ours", "3/products-ours-late"}) {
    const Outcome priced = stitch({"contractions", "--problems", bench + "/products/problems.json", "--target", "h100",
                                   "--priced", bench + "/results/gpu/h100-2026-11-26-" + measured + ".jsonl"});
    ASSERT_EQ(priced.code, 0) << priced.err;
    for (const json& line : lines_of(priced.out)) {
      if (!line.contains("measured_us") || line["resources"].get<std::string>().find("spill") != std::string::npos)
        continue;
      const double predicted = line["predicted_us"], us = line["measured_us"];
      problems[line["name"]].emplace(predicted, us);
      off += std::log(predicted / us);
      ++count;
    }
  }
  ASSERT_GE(problems.size(), 15U);
  ASSERT_GE(count, 100) << "schedules that the space has no more say nothing of the model";
  double costs = 0;
  for (const auto& [name, times] : problems) {
    double best = times.begin()->second;
    for (const auto& [predicted, us] : times) best = std::min(best, us);
    costs += std::log(times.begin()->second / best);
  }
  EXPECT_LT(std::exp(costs / static_cast<double>(problems.size())), 1.12);
  EXPECT_GT(std::exp(off / count), 0.8);
  EXPECT_LT(std::exp(off / count), 1.1);
}

}  // namespace
}  // namespace stitch::cli
