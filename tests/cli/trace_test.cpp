// stitch trace and stitch run --trace: what processes did, from the files that they wrote.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "cli/trace/trace_file.h"
#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr std::string_view beginning =
    R"({"event":"begin","ts":1000,"tid":1,"format":"stitch-trace","version":1,"pid":7,"parent":1,"rank":2,)"
    R"("host":"here","program":"python train.py","stitch":"0.1.0"})"
    "\n";

TEST(TraceFile, ReadsWhatAProcessWrote) {
  const auto trace =
      parse_trace(std::string(beginning) + R"({"event":"load","ts":2000,"dur":500,"tid":9,"plan":"77a0"})"
                                           "\n"
                                           R"({"event":"end","ts":9000,"tid":1})"
                                           "\n",
                  "a.jsonl");
  ASSERT_TRUE(trace.ok() && *trace) << trace.error().message;
  EXPECT_EQ((*trace)->title(), "rank 2, python train.py (7 on here)");
  EXPECT_EQ((*trace)->ended_us, 9000);
  EXPECT_TRUE((*trace)->ended);
  EXPECT_FALSE((*trace)->cut);
  ASSERT_EQ((*trace)->events.size(), 1U);
  EXPECT_EQ((*trace)->events[0].took_us, 500);
  EXPECT_EQ((*trace)->events[0].text("plan"), "77a0");
  EXPECT_EQ((*trace)->events[0].text("label"), "");
}

TEST(TraceFile, ALastLineThatIsCutIsSkipped) {
  const std::string whole = std::string(beginning) + R"({"event":"swap","ts":2000,"tid":9})" + "\n";
  for (const char* const rest : {"{\"event\":\"lo", "{\"event\":\"load\",\"ts\":3000,\"tid\":9}", "{\n"}) {
    const auto trace = parse_trace(whole + rest, "a.jsonl");
    ASSERT_TRUE(trace.ok() && *trace) << rest;
    EXPECT_TRUE((*trace)->cut) << rest;
    EXPECT_FALSE((*trace)->ended);
    EXPECT_EQ((*trace)->events.size(), 1U);
  }
  for (const char* const nothing : {"", "{\"event\":\"beg"}) {
    const auto trace = parse_trace(nothing, "a.jsonl");
    ASSERT_TRUE(trace.ok());
    EXPECT_FALSE(*trace) << "killed before its first line was there";
  }
}

TEST(TraceFile, WhatIsNoTraceIsNamed) {
  const std::string head(beginning);
  std::string newer = head;
  newer.replace(newer.find("\"version\":1"), 11, "\"version\":2");
  const std::string event = R"({"event":"swap","ts":2000,"tid":9})"
                            "\n";
  const std::pair<std::string, std::string> cases[] = {
      {"{\"a\": 1}\n", "a.jsonl, line 1: no trace of Stitch's"},
      {"some text\n", "a.jsonl, line 1: no trace of Stitch's"},
      {"some text\nand more", "a.jsonl, line 1: no trace of Stitch's"},
      {event, "a.jsonl, line 1: no trace of Stitch's"},
      {newer, "a.jsonl, line 1: version 2 of the format, 1 is read here"},
      {head + "broken\n" + event, "a.jsonl, line 2: no event"},
      {head + "{\"event\":3,\"ts\":1}\n" + event, "a.jsonl, line 2: no event"},
  };
  for (const auto& [text, message] : cases) {
    const auto trace = parse_trace(text, "a.jsonl");
    ASSERT_FALSE(trace.ok()) << text;
    EXPECT_EQ(trace.error().message, message);
  }
}

ProcessTrace between(std::int64_t from, std::int64_t to) {
  ProcessTrace trace;
  trace.began_us = from;
  trace.ended_us = to;
  return trace;
}

TEST(TraceFile, TheLatestRunIsWhatRanTogether) {
  // Two runs one after the other; in the second a process that outlives the first ones meets the last.
  const auto latest = latest_run({between(0, 10), between(2, 9), between(20, 30), between(28, 50), between(45, 60)});
  std::vector<std::int64_t> begins;
  for (const ProcessTrace& trace : latest) begins.push_back(trace.began_us);
  EXPECT_THAT(begins, ElementsAre(20, 28, 45));
  EXPECT_TRUE(latest_run({}).empty());
}

class TraceEmulated : public testing::Test {
 protected:
  /// A command of the shell's, which `stitch` runs with a folder for its trace in.
  Outcome shell(const std::string& command) const {
    return run({"/bin/sh", "-c", "export STITCH_TRACE=" + traces + "; stitch=" + stitch_program + "; " + command});
  }
  std::vector<std::filesystem::path> files() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : RealFileSystem().list(traces)) found.push_back(entry.path);
    return found;
  }
  const Folder folder;
  const std::string model = folder.write("perceptron.hlo.txt", R"(HloModule perceptron
ENTRY main {
  x = f32[4,8] parameter(0)
  w = f32[8,8] parameter(1)
  h = f32[4,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = f32[4,8] tanh(h)
}
)");
  const std::string cache = folder.at("cache"), traces = folder.at("traces");
};

TEST_F(TraceEmulated, ARunIsToldAsTextPageAndTimeline) {
  ASSERT_EQ(shell("$stitch run " + model + " --cache " + cache).code, 0);
  ASSERT_EQ(files().size(), 1U);
  const std::string page = folder.at("page.html"), timeline = folder.at("timeline.json");
  const Outcome told = stitch({"trace", traces, "--latest", "--json", "-o", page});
  ASSERT_EQ(told.code, 0) << told.err;
  const json process = told.json()["processes"][0];
  EXPECT_EQ(process["program"], "stitch run");
  EXPECT_EQ(process["ended"], true);
  EXPECT_EQ(process["cut"], false);
  std::set<std::string> phases;
  for (const json& phase : process["phases"]) phases.insert(phase["name"]);
  for (const char* const name : {"import", "plan", "load", "run"}) EXPECT_TRUE(phases.contains(name)) << name;
  ASSERT_EQ(process["fragments"].size(), 1U) << process;
  EXPECT_EQ(process["fragments"][0]["source"], "made");
  EXPECT_EQ(process["fragments"][0]["label"], "predicted");
  const std::string plan = process["fragments"][0]["plan"];
  ASSERT_EQ(process["steps"].size(), 2U);
  EXPECT_EQ(process["steps"][0]["clock"], "host");

  const std::string html = read_file(page);
  EXPECT_THAT(html, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(html, HasSubstr("<svg class=\"trace\""));
  EXPECT_THAT(html, HasSubstr(plan.substr(0, 12)));
  EXPECT_THAT(html, HasSubstr("Nothing fell back"));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("src="))) << "it needs nothing from elsewhere";

  ASSERT_EQ(stitch({"trace", traces, "-o", timeline}).code, 0);
  const json chrome = json::parse(read_file(timeline));
  std::set<std::string> names;
  for (const json& event : chrome["traceEvents"]) {
    names.insert(event["name"]);
    EXPECT_TRUE(event.contains("ph") && event.contains("pid") && event.contains("tid")) << event;
    if (event["ph"] == "X") {
      EXPECT_GE(event["ts"].get<double>(), 0);
      EXPECT_GE(event["dur"].get<double>(), 0);
    }
  }
  for (const char* const name : {"process_name", "import", "load", "run"}) EXPECT_TRUE(names.contains(name)) << name;
}

TEST_F(TraceEmulated, TheLatestRunIsPicked) {
  for (int i = 0; i < 2; ++i) ASSERT_EQ(shell("$stitch run " + model + " --cache " + cache).code, 0);
  const std::string page = folder.at("page.html");
  EXPECT_EQ(stitch({"trace", traces, "--json", "-o", page}).json()["processes"].size(), 2U);
  EXPECT_THAT(read_file(page), HasSubstr("<a href=\"#p1\">stitch run ("));
  EXPECT_THAT(read_file(page), HasSubstr("<h2 id=\"p1\">stitch run ("));
  EXPECT_EQ(stitch({"trace", traces, "--json", "--latest"}).json()["processes"].size(), 1U);
}

TEST_F(TraceEmulated, AKilledProcessIsTold) {
  const std::string waits =
      "for i in $(seq 1000); do grep -qs import " + traces + "/*.jsonl && break; sleep 0.01; done";
  shell("RANK=5 $stitch run " + model + " --cache " + cache + " & pid=$!; " + waits + "; kill -9 $pid; wait $pid");
  ASSERT_EQ(files().size(), 1U);
  EXPECT_THAT(files()[0].filename().string(), StartsWith("stitch-rank5-"));
  std::ofstream(files()[0], std::ios::app) << R"({"event":"lo)";
  const Outcome told = stitch({"trace", traces, "--json"});
  ASSERT_EQ(told.code, 0) << told.err;
  EXPECT_THAT(told.err, HasSubstr("its last line is cut and was skipped"));
  const json process = told.json()["processes"][0];
  EXPECT_EQ(process["rank"], 5);
  EXPECT_EQ(process["ended"], false);
  EXPECT_EQ(process["cut"], true);
  EXPECT_THAT(stitch({"trace", traces}).out, HasSubstr("killed or still running"));
}

TEST_F(TraceEmulated, WhatCannotBeWrittenCostsOneWarning) {
  const Outcome ran =
      run({"/usr/bin/env", "STITCH_TRACE=/dev/null/traces", stitch_program, "run", model, "--cache", cache, "--json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["steps"].size(), 2U);
  EXPECT_THAT(ran.err, HasSubstr("STITCH_TRACE: cannot write /dev/null/traces/"));
  EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
}

TEST_F(TraceEmulated, AFullDiskCostsOneWarning) {
  const Outcome ran = shell("mkdir -p " + traces + "; unshare -m sh -c 'mount -t tmpfs -o size=4k none " + traces +
                            " || exit 77; head -c 4000 /dev/zero > " + traces + "/rest; " + stitch_program + " run " +
                            model + " --json --cache " + cache + "' || exit $?");
  if (ran.code == 77 || ran.err.find("unshare") != std::string::npos) GTEST_SKIP() << "no file system may be mounted";
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.json()["steps"].size(), 2U);
  EXPECT_THAT(ran.err, HasSubstr("No space left on device"));
  EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
}

TEST_F(TraceEmulated, AForeignFileIsNamed) {
  const auto refused = [&](const std::vector<std::string>& arguments, int code, const std::string& message) {
    const Outcome outcome = stitch(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  refused({"trace", folder.at("nowhere")}, 3, "nowhere");
  std::filesystem::create_directories(traces);
  refused({"trace", traces}, 3, "no trace is there");
  std::ofstream(traces + "/notes.txt") << "mine\n";
  refused({"trace", traces}, 3, "no trace is there");
  std::ofstream(traces + "/stitch-mine.jsonl") << "{\"a\": 1}\n";
  refused({"trace", traces}, 3, "stitch-mine.jsonl, line 1: no trace of Stitch's");
  refused({"trace", traces + "/notes.txt"}, 3, "notes.txt, line 1: no trace of Stitch's");
}

TEST_F(TraceEmulated, StepsOfARunAreATimeline) {
  const std::string file = folder.at("steps.json");
  ASSERT_EQ(stitch({"run", model, "--cache", cache, "--check", "--trace", file}).code, 0);
  const json trace = json::parse(read_file(file));
  EXPECT_EQ(trace["otherData"]["clock"], "host time, no GPU's");
  std::vector<json> steps;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") steps.push_back(event);
  }
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0]["cat"], "library");
  EXPECT_EQ(steps[0]["ts"], 0);
  EXPECT_EQ(steps[1]["cat"], "fragment");
  EXPECT_EQ(steps[1]["args"]["by"], "device");
  EXPECT_EQ(steps[1]["args"]["plan"].get<std::string>().size(), 32U);
  EXPECT_GE(steps[1]["ts"].get<double>(), steps[0]["dur"].get<double>()) << "one after the other";
}

TEST_F(TraceEmulated, TurnsOfALoopStandInsideIt) {
  const std::string loop = folder.write("loop.hlo.txt", R"(HloModule loop
less { s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(3)
  ROOT c = pred[] compare(i, n), direction=LT }
turn { s = (s32[], f32[64]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[64] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[64] tanh(x)
  ROOT t = (s32[], f32[64]) tuple(j, y) }
ENTRY main {
  x = f32[64] parameter(0)
  n = s32[] parameter(1)
  s = (s32[], f32[64]) tuple(n, x)
  w = (s32[], f32[64]) while(s), condition=less, body=turn
  ROOT y = f32[64] get-tuple-element(w), index=1
}
)");
  const std::string file = folder.at("steps.json");
  const Outcome ran = stitch({"run", loop, "--cache", cache, "--trace", file});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json trace = json::parse(read_file(file));
  const json* around = nullptr;
  std::size_t inside = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event["cat"] == "loop") around = &event;
  }
  ASSERT_NE(around, nullptr) << trace;
  const double from = (*around)["ts"], to = from + (*around)["dur"].get<double>();
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || !event["args"].contains("region")) continue;
    ++inside;
    EXPECT_GE(event["ts"].get<double>(), from);
    EXPECT_LE(event["ts"].get<double>() + event["dur"].get<double>(), to);
  }
  EXPECT_GT(inside, 0U);
}

TEST_F(TraceEmulated, OnADriverWithoutTimesStepsAreMoments) {
  const std::string file = folder.at("steps.json");
  const std::string softmax = folder.write("softmax.hlo.txt", softmax_hlo);
  const Outcome ran = stitch_on_a_gpu({"run", softmax, "--device", "gpu:0", "--cache", cache, "--trace", file});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const json trace = json::parse(read_file(file));
  EXPECT_THAT(trace["otherData"]["on"].get<std::string>(), HasSubstr("a stream of gpu:0"));
  EXPECT_THAT(trace["otherData"]["clock"].get<std::string>(), HasSubstr("the emulated driver has no times"));
  for (const json& event : trace["traceEvents"]) EXPECT_NE(event["ph"], "X") << event;
}

}  // namespace
}  // namespace stitch::cli
