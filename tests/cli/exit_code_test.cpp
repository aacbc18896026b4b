#include <gmock/gmock.h>

#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const std::string source = STITCH_SOURCE_DIR;
const std::string model = source + "/bench/models/onnx/dlrm.onnx";

TEST(ExitCodes, OptionsThatMakeNoSenseAreTwo) {
  const std::vector<std::vector<std::string>> commands = {
      {},
      {"frobnicate"},
      {"plan"},
      {"plan", model, "--target", "z80"},
      {"plan", model, "--device", "abacus"},
      {"tune", model, "--db", "a.db", "--server", "unix:a.sock"},
      {"show", "plans"},
      {"show", "plans", "--db", "a.db", "--server", "unix:a.sock"},
      {"show", "everything", "--db", "a.db"},
      {"verify"},
      {"export", "a.stitch"},
      {"conformance"},
  };
  for (const auto& command : commands) {
    const Outcome outcome = stitch(command);
    EXPECT_EQ(outcome.code, 2) << testing::PrintToString(command) << outcome.out << outcome.err;
  }
}

TEST(ExitCodes, HelpAndVersionAreZero) {
  EXPECT_EQ(stitch({"--version"}).code, 0);
  for (const char* command :
       {"plan", "tune", "explain", "conformance", "serve", "show", "verify", "export", "import", "prune"}) {
    const Outcome outcome = stitch({command, "--help"});
    EXPECT_EQ(outcome.code, 0) << command;
    EXPECT_THAT(outcome.out, HasSubstr("--")) << command;
  }
}

TEST(ExitCodes, FilesThatCannotBeReadAreThreeAndNamed) {
  const Folder folder;
  const std::string onnx = read_file(model);
  ASSERT_GT(onnx.size(), 1000U);
  const std::string packed = read_file(source + "/bench/models/fragments/softmax_1024.hlo.txt.gz");
  ASSERT_GT(packed.size(), 100U);
  struct Case {
    std::string path, message;
  };
  std::string broken_hlo = softmax_hlo;
  broken_hlo.replace(broken_hlo.find("exponential"), 11, "exponentiel");
  const std::vector<Case> cases = {
      {folder.at("absent.onnx"), "absent.onnx"},
      {folder.write("empty.onnx", ""), "empty.onnx"},
      {folder.write("cut.onnx", onnx.substr(0, onnx.size() / 2)), "cut.onnx"},
      {folder.write("noise.onnx", std::string(500, '\xa7')), "noise.onnx"},
      {folder.write("cut.hlo.txt.gz", packed.substr(0, packed.size() / 2)), "cut.hlo.txt.gz"},
      {folder.write("cut.hlo.txt", std::string(softmax_hlo).substr(0, 700)), "line"},
      {folder.write("fragment.json", R"({"format": "stitch-graph", "version": 1, "nodes": [)"), "fragment.json"},
      {folder.write("newer.json", R"({"format": "stitch-graph", "version": 99, "nodes": [], "results": []})"), "99"},
  };
  for (const Case& one : cases) {
    const Outcome outcome = stitch({"plan", one.path});
    EXPECT_EQ(outcome.code, 3) << one.path << "\n" << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(one.message));
    EXPECT_EQ(outcome.out, "");
    const Outcome as_json = stitch({"plan", one.path, "--json"});
    EXPECT_EQ(as_json.code, 3);
    EXPECT_THAT(as_json.json()["error"]["message"].get<std::string>(), HasSubstr(one.message));
  }
}

TEST(ExitCodes, ADeviceThatIsNotThereIsFour) {
  const Outcome outcome = stitch({"tune", model, "--device", "gpu:99"});
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  EXPECT_EQ(stitch({"bench", model}).code, 4) << "the emulated device measures nothing";
}

TEST(ExitCodes, NobodyServingIsFour) {
  const Folder folder;
  const Outcome outcome = stitch({"tune", model, "--server", "unix:" + folder.at("nobody.sock")});
  EXPECT_EQ(outcome.code, 4) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("nobody.sock"));
  EXPECT_EQ(stitch({"show", "plans", "--server", "http://127.0.0.1:1"}).code, 4);
}

TEST(ExitCodes, DatabasesThatCannotBeReadAreThree) {
  const Folder folder;
  EXPECT_EQ(stitch({"show", "plans", "--db", folder.at("absent.db")}).code, 3);
  const Outcome outcome = stitch({"show", "plans", "--db", folder.write("text.db", "these are no plans")});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("text.db"));
  EXPECT_EQ(stitch({"import", folder.write("text.stitch", "nor is this"), "--db", folder.at("new.db")}).code, 3);
  EXPECT_EQ(stitch({"verify", folder.at("text.stitch")}).code, 3);
}

TEST(ExitCodes, AServerThatCannotStartIsToldByTheCause) {
  const Folder folder;
  const std::string socket = folder.at("s.sock"), file = folder.write("file", "");
  const Outcome nowhere = stitch({"serve", "--db", file + "/s.db", "--socket", socket});
  EXPECT_EQ(nowhere.code, 3);
  EXPECT_THAT(nowhere.err, AllOf(HasSubstr(file), Not(HasSubstr("another stitchd"))));
  const Outcome bogus = stitch({"serve", "--db", folder.at("s.db"), "--socket", socket, "--device", "bogus"});
  EXPECT_EQ(bogus.code, 3);
  EXPECT_THAT(bogus.err, HasSubstr("bogus"));
}

TEST(ExitCodes, OutputThatCannotBeWrittenIsAFailure) {
  const Folder folder;
  const std::string hlo = folder.write("softmax.hlo.txt", softmax_hlo);
  const Outcome outcome = run({"/bin/sh", "-c", "exec \"$0\" plan \"$1\" --json > /dev/full", stitch_program, hlo});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("standard output"));
}

}  // namespace
}  // namespace stitch::cli
