#include "client/trace/plan_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/tally.h"
#include "graph/builder.h"
#include "tests/base/test_folder.h"
#include "tests/base/test_variable.h"

namespace stitch::client {
namespace {

using nlohmann::json;

class PlanTrace : public testing::Test {
 protected:
  /// The events so far, without the first line.
  std::vector<json> events() const {
    std::vector<json> found;
    for (const auto& file : RealFileSystem().list(folder_)) {
      std::istringstream lines(*RealFileSystem().read(file.path));
      for (std::string line; std::getline(lines, line);) found.push_back(json::parse(line));
    }
    if (!found.empty()) found.erase(found.begin());
    return found;
  }
  const TestFolder folder_;
  const TestVariable variable_{"STITCH_TRACE", folder_.path().string()};
};

json noted_of(const Result<api::LookupAnswer>& answer, const auto& events) {
  {
    trace::Phase phase("fetch", {{"name", "softmax"}});
    note_answer(phase, answer, "softmax");
  }
  return events().back();
}

TEST_F(PlanTrace, AHitTellsItsPlanAndAMissWhy) {
  const auto all = [&] { return events(); };
  api::LookupAnswer answer;
  answer.fragment = hash_bytes("fragment");
  answer.plan.emplace();
  answer.plan->id = hash_bytes("plan");
  answer.plan->label = "measured";
  answer.source = api::LookupAnswer::Source::store;
  json told = noted_of(answer, all);
  EXPECT_EQ(told["event"], "fetch");
  EXPECT_EQ(told["name"], "softmax");
  EXPECT_EQ(told["hit"], true);
  EXPECT_EQ(told["source"], "store");
  EXPECT_EQ(told["plan"], hash_bytes("plan").hex());
  EXPECT_EQ(told["label"], "measured");
  EXPECT_FALSE(told.contains("reason"));

  answer.made_by.emplace();
  answer.differed = {"toolkit"};
  told = noted_of(answer, all);
  EXPECT_EQ(told["source"], "stale");
  EXPECT_EQ(told["reason"], "made by another environment: toolkit");

  answer.made_by.reset();
  answer.source = api::LookupAnswer::Source::predicted;
  answer.job = 7;
  told = noted_of(answer, all);
  EXPECT_EQ(told["hit"], false);
  EXPECT_EQ(told["job"], 7);
  EXPECT_EQ(told["reason"], "nothing of its family was stored");
  answer.closest_plan = hash_bytes("near");
  answer.differed = {"shape", "toolkit"};
  EXPECT_EQ(noted_of(answer, all)["reason"],
            fmt::format("the nearest, plan {}, differs in shape, toolkit", hash_bytes("near").hex()));

  told = noted_of(make_error(ErrorKind::timeout, "no plan within 10 ms"), all);
  EXPECT_EQ(told["hit"], false);
  EXPECT_EQ(told["reason"], "no plan within 10 ms");
}

TEST_F(PlanTrace, AFragmentWithoutANameIsCalledByItsOperators) {
  const auto chain = [](const std::vector<graph::Op>& operators) {
    graph::Builder b;
    graph::Value x = b.parameter(graph::DType::f32, {8});
    for (const graph::Op op : operators) x = b.unary(op, x);
    return *b.finish({x});
  };
  using enum graph::Op;
  EXPECT_EQ(name_in_trace(chain({tanh, exp}), ""), "tanh, exp");
  EXPECT_EQ(name_in_trace(chain({tanh, exp, tanh, exp, exp}), ""), "tanh, exp, tanh and 2 more");
  EXPECT_EQ(name_in_trace(chain({tanh}), "mine"), "mine");
}

TEST_F(PlanTrace, WhatIsNotTracedIsSummedUpAllTheSame) {
  const TestVariable off("STITCH_TRACE", "");
  tally::reset();
  api::LookupAnswer answer;
  answer.fragment = hash_bytes("fragment");
  answer.source = api::LookupAnswer::Source::predicted;
  api::Program program;
  program.model = "m.onnx";
  program.fragments.resize(2);
  program.fragments[0].plan.emplace().label = "measured";
  program.fragments[1].why_none = "too large";
  bool launched = false;
  for (int i = 0; i < 2; ++i) {
    trace::Phase phase("fetch");
    note_answer(phase, answer, "softmax");
    (void)first_launch(launched, hash_bytes("plan"), "stream");
  }
  trace_plans(program, "store");
  trace_missing(program);
  const json sums = json::parse(tally::json());
  EXPECT_EQ(sums["phases"]["fetch"]["count"], 2);
  EXPECT_EQ(sums["phases"]["first launch"]["count"], 1);
  EXPECT_EQ(sums["plans_by_source"], (json{{"predicted", 2}, {"store", 1}}));
  EXPECT_EQ(sums["plans_by_label"], (json{{"measured", 1}}));
  ASSERT_EQ(sums["missed"].size(), 2U);
  EXPECT_EQ(sums["missed"][0]["reason"], "too large");
  EXPECT_EQ(sums["missed"][1], (json{{"fragment", hash_bytes("fragment").hex()},
                                     {"name", "softmax"},
                                     {"reason", "nothing of its family was stored"},
                                     {"source", "predicted"},
                                     {"count", 2}}));
  EXPECT_TRUE(events().empty());
}

TEST_F(PlanTrace, FragmentsOfAProgramAreToldOnceEach) {
  api::Program program;
  program.model = "m.onnx";
  program.fragments.resize(2);
  program.fragments[0].plan.emplace();
  program.fragments[0].occurrences = 12;
  program.fragments[1].why_none = "too large";
  trace_plans(program, "made");
  trace_missing(program);
  const std::vector<json> told = events();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0]["hit"], false) << "it was made";
  EXPECT_EQ(told[0]["occurrences"], 12);
  EXPECT_EQ(told[1]["reason"], "too large");
  trace_plans(program, "store");
  EXPECT_EQ(events().back()["hit"], true);
}

TEST_F(PlanTrace, OnlyTheFirstLaunchIsTold) {
  bool launched = false;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(first_launch(launched, hash_bytes("plan"), "stream").has_value(), i == 0);
  ASSERT_EQ(events().size(), 1U);
  EXPECT_EQ(events()[0]["event"], "first launch");
  EXPECT_EQ(events()[0]["on"], "stream");
}

TEST_F(PlanTrace, WorkThatIsHandedInIsTold) {
  EXPECT_TRUE(traced("bert", api::Submitted{3, true, "ab"}).ok());
  EXPECT_FALSE(traced("bert", make_error(ErrorKind::unavailable, "no server")).ok());
  const std::vector<json> told = events();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0]["job"], 3);
  EXPECT_EQ(told[0]["joined"], true);
  EXPECT_EQ(told[1]["error"], "no server");
}

}  // namespace
}  // namespace stitch::client
