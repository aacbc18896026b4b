#include "lab/conformance/conformance.h"

#include <gmock/gmock.h>

#include "lab/conformance/line_worker.h"
#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using namespace lab;

using nlohmann::json;
using testing::HasSubstr;

const std::string suite = STITCH_SOURCE_DIR "/tests/data/onnx/node";

TEST(ConformanceEmulated, CasesRunOnTheEvaluatorAndOnTheDevice) {
  const Folder folder;
  const std::string page = folder.at("page.md");
  // An element-wise operator, a loop whose body has fragments, and a matmul with something around it.
  for (const std::string filter : {"test_gelu_default_1", "test_loop11", "test_swish"}) {
    const Outcome outcome =
        stitch({"conformance", suite, "--filter", filter, "--json", "--table", page, "--cache", folder.at("cache")});
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    const json report = outcome.json();
    ASSERT_EQ(report["cases"].size(), 1U) << filter;
    EXPECT_EQ(report["right"], 1) << report;
    EXPECT_EQ(report["wrong"], 0);
    EXPECT_EQ(report["cases"][0]["case"], filter);
    EXPECT_EQ(report["cases"][0]["evaluator"], "right");
    EXPECT_EQ(report["cases"][0]["device"], "right");
    EXPECT_GE(report["cases"][0]["kernels"], 1);
  }
  EXPECT_THAT(read_file(page), HasSubstr("1 cases. Evaluator: 1 right"));
}

TEST(ConformanceSlow, OnTheEvaluatorAlone) {
  const Outcome outcome = stitch({"conformance", suite, "--evaluator-only", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const json report = outcome.json();
  EXPECT_GE(report["right"], 60);
  EXPECT_EQ(report["wrong"], 0);
  EXPECT_EQ(report["crashed"], 0);
  EXPECT_FALSE(report["cases"][0].contains("device"));
}

TEST(Conformance, ACaseThatCannotBeReadIsWrongAndAFolderWithoutCasesAnError) {
  const Folder folder;
  std::filesystem::create_directories(folder.at("suite/test_noise"));
  (void)folder.write("suite/test_noise/model.onnx", "this is no model");
  const Outcome outcome = stitch({"conformance", folder.at("suite"), "--json"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.json()["wrong"], 1);
  EXPECT_THAT(outcome.json()["cases"][0]["why"].get<std::string>(), HasSubstr("model.onnx"));
  EXPECT_EQ(stitch({"conformance", folder.at("cache")}).code, 3);
}

TEST(Conformance, RowsSurviveTheirWayFromTheWorker) {
  CaseRow row;
  row.name = "test_x", row.operators = {"Add", "Mul"};
  row.evaluator = Verdict::right, row.device = Verdict::wrong;
  row.fragments = 2, row.kernels = 3, row.evaluated = {"dot"}, row.why = "result 0: \"1\"";
  const auto read = row_from_json(to_document(row).dump());
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_document(*read), to_document(row));
  EXPECT_EQ(read->verdict(), Verdict::wrong);
  EXPECT_FALSE(row_from_json("{}").ok());
  EXPECT_FALSE(row_from_json(R"({"case":"a","operators":[],"evaluator":"fine","fragments":0,"kernels":0,)"
                             R"("on_evaluator":[]})")
                   .ok());
}

LineWorker shell(ProcessLauncher& launcher, const std::string& script) {
  ProcessOptions options;
  options.arguments = {"/bin/sh", "-c", script};
  return LineWorker(launcher, options);
}

TEST(LineWorker, OutlivesQuestionsThatKillItsProcess) {
  RealProcessLauncher launcher;
  LineWorker worker = shell(launcher,
                            "while read q; do case $q in die) echo the end >&2; kill -SEGV $$;; sleep) sleep 60;; "
                            "leave) exit 3;; *) echo got $q;; esac; done");
  EXPECT_EQ(worker.ask("one", 30).value_or(""), "got one");
  EXPECT_EQ(worker.ask("two", 30).value_or(""), "got two");
  const auto died = worker.ask("die", 30);
  ASSERT_FALSE(died.ok());
  EXPECT_EQ(died.error().kind, ErrorKind::runtime);
  EXPECT_THAT(died.error().message, HasSubstr("signal 11"));
  EXPECT_THAT(died.error().message, HasSubstr("the end"));
  EXPECT_EQ(worker.ask("three", 30).value_or(""), "got three");
  const auto late = worker.ask("sleep", 0.2);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::timeout);
  EXPECT_THAT(worker.ask("leave", 30).error().message, HasSubstr("exit code 3"));
  EXPECT_EQ(worker.ask("four", 30).value_or(""), "got four");
}

}  // namespace
}  // namespace stitch::cli
