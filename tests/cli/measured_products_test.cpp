// Schedules of products and attentions on a device, one by one, and what the model says of those that a GPU has timed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
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

/// ALCOP's ablations beside the whole, in one run.
TEST(MeasuredProductsEmulated, SchedulesWithoutAPartOfPipeliningAreTriedBesideThoseWithAll) {
  const Folder folder;
  const Outcome tried =
      stitch({"contractions", "--problems", folder.write("two.json", two), "--device", "emulated", "--best", "2",
              "--without", "two-stages", "--without", "no-pipelining", "--cache", folder.at("cache")});
  ASSERT_EQ(tried.code, 0) << tried.err;
  std::map<std::string, std::vector<std::string>> runs;
  for (const json& line : lines_of(tried.out)) {
    EXPECT_FALSE(line.contains("failure")) << line;
    EXPECT_LT(line["worst"], 1);
    if (line["name"] == "layer") runs[line.value("without", "")].push_back(line["runs"]);
  }
  ASSERT_EQ(runs.size(), 3U);
  for (const auto& [part, schedules] : runs) EXPECT_EQ(schedules.size(), 2U) << part;
  for (const std::string& schedule : runs["no-pipelining"]) EXPECT_THAT(schedule, HasSubstr(" stages 1×1 "));
  for (const std::string& schedule : runs["two-stages"]) EXPECT_THAT(schedule, HasSubstr(" stages 2×"));
  EXPECT_NE(runs[""], runs["no-pipelining"]);
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

TEST(MeasuredProducts, OptionsThatSayNothingTogetherAreRefused) {
  const Folder folder;
  const std::string problems = folder.write("two.json", two), lines = folder.write("lines.jsonl", "");
  for (const std::vector<std::string>& more : {std::vector<std::string>{"--device", "emulated", "--priced", lines},
                                               {"--device", "emulated", "--json"},
                                               {"--device", "emulated", "--within", "-5"},
                                               {"--priced", lines, "--without", "two-stages"},
                                               {"--tiles", lines, "--priced", lines},
                                               {"--tiles", lines, "--json"},
                                               {"--compile", "2", "--registers", "2"},
                                               {"--compile", "2", "--json"},
                                               {"--compile", "2", "--device", "emulated"},
                                               {"--best", "3"}}) {
    std::vector<std::string> command = {"contractions", "--problems", problems};
    command.insert(command.end(), more.begin(), more.end());
    EXPECT_EQ(stitch(command).code, 2) << more.front() << " " << more.back();
  }
}

/// The best of each, compiled side by side: the ranking's order, and what the compiler made of them.
TEST(MeasuredProducts, TheBestAreCompiled) {
  const Folder folder;
  const std::string problems = folder.write("two.json", two);
  const Outcome done = stitch({"contractions", "--problems", problems, "--target", "a100", "--compile", "3"});
  ASSERT_EQ(done.code, 0) << done.err;
  const Outcome ranked = stitch({"contractions", "--problems", problems, "--target", "a100", "--json"});
  const std::vector<json> lines = lines_of(done.out), best = lines_of(ranked.out);
  ASSERT_EQ(lines.size(), best.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["name"], best[i]["name"]);
    EXPECT_GT(lines[i]["seconds"], 0);
    ASSERT_EQ(lines[i]["kernels"].size(), 3U);
    EXPECT_EQ(lines[i]["kernels"][0]["runs"], best[i]["schedule"]);
    int spilling = 0, place = 0;
    for (const json& kernel : lines[i]["kernels"]) {
      EXPECT_EQ(kernel["place"], place++);
      EXPECT_GT(kernel["registers"], 16);
      EXPECT_LE(kernel["registers"], 255);
      spilling += kernel["spilled"] > 0 ? 1 : 0;
    }
    EXPECT_EQ(lines[i]["spilling"], spilling);
  }
}

TEST(MeasuredProducts, PipeliningIsLeftOutByName) {
  const Folder folder;
  const std::string problems = folder.write("two.json", two);
  const Outcome unknown =
      stitch({"contractions", "--problems", problems, "--device", "emulated", "--without", "everything"});
  EXPECT_EQ(unknown.code, 3);
  EXPECT_THAT(unknown.err, HasSubstr("two-stages, one-level or no-pipelining"));
  const Outcome several =
      stitch({"contractions", "--problems", problems, "--without", "two-stages", "--without", "one-level"});
  EXPECT_EQ(several.code, 3);
  EXPECT_THAT(several.err, HasSubstr("several parts need --device"));
}

/// What was predicted then is not told again as today's, a schedule that was measured twice is told twice.
TEST(MeasuredProducts, OldPredictionsAreForgotten) {
  const Folder folder;
  const std::string problems = folder.write("two.json", two);
  const std::vector<json> first = lines_of(stitch({"contractions", "--problems", problems, "--device", "emulated",
                                                   "--best", "1", "--cache", folder.at("cache")})
                                               .out);
  ASSERT_FALSE(first.empty());
  json line = first[0];
  line["predicted_us"] = 1e9;
  line["parts"] = json::object();
  json gone = line;
  gone["schedule"] = std::string(32, '0');
  const Outcome priced = stitch({"contractions", "--problems", problems, "--priced",
                                 folder.write("old.jsonl", "$ a command\n" + line.dump() + "\n" + line.dump() + "\n" +
                                                               gone.dump() + "\n[exit status 0]\n")});
  ASSERT_EQ(priced.code, 0) << priced.err;
  const std::vector<json> lines = lines_of(priced.out);
  ASSERT_EQ(lines.size(), 2U) << priced.out;
  for (const json& each : lines) {
    EXPECT_NEAR(each["predicted_us"].get<double>(), first[0]["predicted_us"].get<double>(), 1e-9);
    EXPECT_FALSE(each["parts"].empty());
  }
  EXPECT_THAT(priced.err, HasSubstr("1 lines of schedules"));
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
  struct Timed {
    double predicted, us;
  };
  std::map<std::string, std::map<std::string, Timed>> problems;  // by schedule, each once
  for (const char* measured :
       {"2/products-ours", "3/products-ours", "3/products-ours-late", "4/products-ours", "5/products-ours"}) {
    const Outcome priced = stitch({"contractions", "--problems", bench + "/products/problems.json", "--target", "h100",
                                   "--priced", bench + "/results/gpu/h100-2026-11-26-" + measured + ".jsonl"});
    ASSERT_EQ(priced.code, 0) << priced.err;
    for (const json& line : lines_of(priced.out)) {
      if (!line.contains("measured_us") || line["resources"].get<std::string>().find("spill") != std::string::npos)
        continue;
      problems[line["name"]][line["schedule"]] = {line["predicted_us"], line["measured_us"]};
    }
  }
  ASSERT_GE(problems.size(), 15U);
  double costs = 0, off = 0, squares = 0;
  int count = 0;
  for (const auto& [name, schedules] : problems) {
    double first = std::numeric_limits<double>::infinity(), chosen = 0, best = first;
    for (const auto& [schedule, timed] : schedules) first = std::min(first, timed.predicted);
    for (const auto& [schedule, timed] : schedules) {
      const double logarithm = std::log(timed.predicted / timed.us);
      off += logarithm;
      squares += logarithm * logarithm;
      ++count;
      best = std::min(best, timed.us);
      if (timed.predicted <= first * (1 + 1e-6)) chosen = std::max(chosen, timed.us);  // of equal ones the worst
    }
    costs += std::log(chosen / best);
  }
  ASSERT_GE(count, 150) << "schedules that the space has no more say nothing of the model";
  const double mean = off / count, spread = std::exp(std::sqrt(squares / count - mean * mean));
  EXPECT_LT(std::exp(costs / static_cast<double>(problems.size())), 1.12);
  EXPECT_GT(std::exp(mean), 0.85);
  EXPECT_LT(std::exp(mean), 1.1);
  EXPECT_LT(spread, 1.25);
}

/// Tiles of others are priced as ours are, whether or not our space has them, and it is told what ours would break.
TEST(MeasuredProducts, TilesOfOthersArePriced) {
  const Folder folder;
  const std::string problems = folder.write("two.json", two);
  const json best =
      lines_of(stitch({"contractions", "--problems", problems, "--target", "a100", "--json"}).out).front();
  json tile = best["tile"];
  const std::string schedule = best["schedule"];
  tile["instruction"] = schedule.substr(0, schedule.find(' '));
  const std::size_t times = schedule.find("×", schedule.find("stages"));
  tile["stages"] = {tile["stages"], schedule[times + std::string("×").size()] - '0'};
  const auto with = [&](const json& changes) {
    json other = tile;
    other.update(changes);
    return other;
  };
  const json line = {
      {"name", "layer"},
      {"tiles",
       {tile, with({{"block", {16, 32, 64}}, {"warp", {16, 8}}}), with({{"instruction", "wgmma_m64k16"}}),
        with({{"block", {256, 256, 64}}, {"warp", {64, 64}}, {"stages", {8}}}), with({{"stages", {64}}}),
        with({{"stages", {2}}})}}};
  const Outcome priced = stitch({"contractions", "--problems", problems, "--target", "a100", "--tiles",
                                 folder.write("tiles.jsonl", line.dump() + "\n\n" + line.dump())});
  ASSERT_EQ(priced.code, 0) << priced.err;
  const std::vector<json> lines = lines_of(priced.out);
  ASSERT_EQ(lines.size(), 2U) << priced.out;
  EXPECT_EQ(lines[0], lines[1]);
  EXPECT_EQ(lines[0]["broken"], json({nullptr, "warp-tile", "device", "shared-memory", "stages", nullptr}));
  const json us = lines[0]["predicted_us"];
  EXPECT_EQ(us[0], best["predicted_us"]);
  EXPECT_TRUE(us[1].is_null() && us[2].is_null()) << us;
  for (const std::size_t room : {3, 4, 5}) EXPECT_GT(us[room].get<double>(), 0);
  EXPECT_NE(us[5], us[0]);
}

TEST(MeasuredProducts, TilesThatAreNoneAreRefused) {
  const Folder folder;
  const std::string problems = folder.write("two.json", two);
  const std::string tile = R"({"instruction": "mma_m16n8k16", "block": [64, 64, 32], "warp": [32, 32]})";
  for (const auto& [wrong, why] : std::vector<std::pair<std::string, std::string>>{
           {"tiles", "no JSON object"},
           {R"({"name": "layer"})", "no name and tiles"},
           {R"({"name": "heads", "tiles": []})", "no product is called 'heads'"},
           {R"({"name": "layer", "tiles": [7]})", "a tile is no object"},
           {R"({"name": "layer", "tiles": [{"instruction": "mma"}]})", "'instruction' of a tile names none"},
           {R"({"name": "layer", "tiles": [{"instruction": "cuda_core", "block": [64, 64], "warp": [32, 32]}]})",
            "'block' of a tile is no list of 3 numbers"},
           {R"({"name": "layer", "tiles": [)" + tile.substr(0, tile.size() - 1) + R"(, "split": 0}]})",
            "'0' is no positive number"}}) {
    const Outcome refused = stitch({"contractions", "--problems", problems, "--target", "a100", "--tiles",
                                    folder.write("tiles.jsonl", "\n" + wrong)});
    EXPECT_NE(refused.code, 0);
    EXPECT_THAT(refused.err, HasSubstr("tiles.jsonl, line 2: " + why)) << wrong;
  }
}

}  // namespace
}  // namespace stitch::cli
