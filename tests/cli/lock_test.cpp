// stitch lock: which plans and code models have, and whether they still have them.
#include <gmock/gmock.h>

#include <thread>

#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class LockEmulated : public testing::Test {
 protected:
  Outcome locked(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), "lock");
    arguments.insert(arguments.end(), {"--cache", cache});
    return stitch(std::move(arguments));
  }
  const Folder folder;
  const std::string model = folder.write("softmax.hlo.txt", softmax_hlo);
  const std::string taller = folder.write("taller.hlo.txt", taller_softmax_hlo());
  const std::string cache = folder.at("cache"), database = folder.at("stitch.db"), lock = folder.at("stitch.lock");
};

TEST_F(LockEmulated, NamesWhatADatabaseServes) {
  for (const std::string& each : {model, taller})
    ASSERT_EQ(stitch({"tune", each, "--db", database, "--cache", cache}).code, 0);
  const Outcome written = locked({model, taller, "--database", database, "-o", lock});
  ASSERT_EQ(written.code, 0) << written.err;
  EXPECT_THAT(written.out, HasSubstr("2 programs, 2 fragments, 0 without a plan"));
  const std::string text = read_file(lock);
  EXPECT_THAT(text, StartsWith("stitch-lock 1\nprogram "));
  EXPECT_THAT(text, HasSubstr("  taller.hlo.txt\n"));
  EXPECT_EQ(locked({model, taller, "--db", database}).out, text) << "on standard output, and the same bytes";

  const Outcome same = locked({"--check", lock, "--db", database});
  EXPECT_EQ(same.code, 0) << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("2 programs, 2 fragments, 4 artifacts: as locked"));
  EXPECT_EQ(locked({model, "--check", lock, "--db", database}).code, 0) << "its program is the locked one, too";
  // What it names is what runs.
  EXPECT_EQ(stitch({"run", taller, "--db", database, "--lock", lock, "--cache", cache}).code, 0);
}

TEST_F(LockEmulated, APlanThatIsNotStoredIsMadeAgainOrRefusedByItsLine) {
  ASSERT_EQ(stitch({"tune", model, "--db", database, "--cache", cache}).code, 0);
  ASSERT_EQ(locked({model, "--db", database, "-o", lock}).code, 0);
  const auto run_into = [&](const std::string& db, const std::string& results, const std::string& by) {
    return stitch(
        {"run", model, "--db", folder.at(db), "--lock", by, "--output", folder.at(results), "--cache", cache});
  };
  ASSERT_EQ(run_into("stitch.db", "here", lock).code, 0);
  const Outcome there = run_into("empty.db", "there", lock);
  ASSERT_EQ(there.code, 0) << there.err;
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.at("here"))) {
    ++files;
    EXPECT_EQ(read_file(file.path()), read_file(folder.at("there") + "/" + file.path().filename().string()));
  }
  EXPECT_EQ(files, 2);
  EXPECT_EQ(locked({"--check", lock, "--db", folder.at("empty.db")}).code, 0) << "it is kept, and served: none was";

  std::string other = read_file(lock);
  const std::size_t code = other.find("  code ") + 7;
  other[code] = other[code] == '0' ? '1' : '0';
  const Outcome refused = run_into("other.db", "refused", folder.write("other.lock", other));
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, testing::ContainsRegex("line 4 of the lock: plan [0-9a-f]{32} of fragment [0-9a-f]{32}: it "
                                                  "is not stored, and it cannot be made again: kernel "));
}

TEST_F(LockEmulated, NothingIsMadeForALock) {
  ASSERT_EQ(stitch({"tune", taller, "--db", database, "--cache", cache}).code, 0);
  const Outcome written = locked({model, "--db", database, "-o", lock});
  EXPECT_EQ(written.code, 1);
  EXPECT_THAT(written.err, HasSubstr("has no plan: no plan is stored for it"));
  EXPECT_THAT(read_file(lock), HasSubstr("  no plan\n"));
  const json missed = stitch({"explain-miss", model, "--db", database, "--cache", cache, "--json"}).json();
  EXPECT_EQ(missed["fragments"][0]["found"], false);
  EXPECT_EQ(locked({"--check", lock, "--db", database}).code, 0) << "there is still none";
  ASSERT_EQ(stitch({"tune", model, "--db", database, "--cache", cache}).code, 0);
  const Outcome differs = locked({"--check", lock, "--db", database});
  EXPECT_EQ(differs.code, 1);
  EXPECT_THAT(differs.out, HasSubstr("line 4: fragment "));
  EXPECT_THAT(differs.out, HasSubstr(": no plan is locked, plan "));
}

TEST_F(LockEmulated, SaysWhatDiffersOrIsMissing) {
  const std::string other = folder.at("other.db");
  ASSERT_EQ(stitch({"tune", model, "--db", database, "--cache", cache}).code, 0);
  ASSERT_EQ(stitch({"tune", taller, "--db", other, "--cache", cache}).code, 0);
  ASSERT_EQ(locked({model, "--db", database, "-o", lock}).code, 0);

  const Outcome missing = locked({"--check", lock, "--db", other, "--json"});
  EXPECT_EQ(missing.code, 1);
  std::string all;
  const json report = missing.json();
  for (const json& fault : report["faults"]) {
    EXPECT_EQ(fault["line"], 4);
    all += fault["text"].get<std::string>() + "\n";
  }
  EXPECT_THAT(all, HasSubstr(" is locked, no plan is served"));
  EXPECT_THAT(all, testing::ContainsRegex("plan [0-9a-f]{32} is missing"));
  EXPECT_THAT(all, testing::ContainsRegex("artifact [0-9a-f]{64} of plan [0-9a-f]{32} is missing"));

  std::string tampered = read_file(lock);
  const std::size_t hash = tampered.rfind("  code ") + 7;
  tampered[hash] = tampered[hash] == '0' ? '1' : '0';
  const Outcome code = locked({"--check", folder.write("tampered.lock", tampered), "--db", database});
  EXPECT_EQ(code.code, 1);
  EXPECT_THAT(code.out, HasSubstr("tampered.lock, line 4: fragment "));
  EXPECT_THAT(code.out, HasSubstr(", the lock has "));
  EXPECT_THAT(code.out, Not(HasSubstr("is served"))) << "the plan is the same";

  const Outcome program = locked({taller, "--check", lock, "--db", database});
  EXPECT_EQ(program.code, 1);
  EXPECT_THAT(program.out, HasSubstr("taller.hlo.txt: line 2 of the lock: 'program "));
}

TEST_F(LockEmulated, BadInputIsNamed) {
  const auto refused = [&](const std::vector<std::string>& arguments, int code, const std::string& message) {
    const Outcome outcome = locked(arguments);
    EXPECT_EQ(outcome.code, code) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(message));
  };
  refused({model, "--db", folder.at("none.db")}, 3, "no database ");
  ASSERT_EQ(stitch({"tune", model, "--db", database, "--cache", cache}).code, 0);
  refused({"--db", database}, 2, "models are wanted, or --check with a lock");
  refused({"--check", model, "--db", database}, 3, "softmax.hlo.txt: line 1: no lock of Stitch's");
  refused({"--check", folder.at("none.lock"), "--db", database}, 3, "none.lock");
  refused({folder.write("bad.hlo.txt", "HloModule"), "--db", database}, 3, "bad.hlo.txt");
}

TEST_F(LockEmulated, AProgramAndAPackageAreLockedAsTheyAre) {
  const std::string package = folder.at("both.package"), program = folder.at("program.cbor");
  ASSERT_EQ(stitch({"package", model, "--targets", "h100,l4", "--predict", "--output", package, "--cache", cache}).code,
            0);
  const std::string written = folder.at("written.lock");
  ASSERT_EQ(stitch({"run", model, "--program", program, "--write-lock", written, "--cache", cache}).code, 0);
  EXPECT_EQ(locked({program}).out, read_file(written));
  ASSERT_EQ(locked({package, "-o", lock}).code, 0);
  EXPECT_THAT(read_file(lock), HasSubstr("\ntarget l4 sm_89 "));
  for (const char* const target : {"h100", "l4"}) {
    const Outcome ran = stitch({"run", package, "--target", target, "--lock", lock, "--cache", cache});
    EXPECT_EQ(ran.code, 0) << ran.err;
  }
  EXPECT_EQ(stitch({"run", package, "--target", "l4", "--lock", written, "--cache", cache}).code, 1);
}

class LockDaemon : public LockEmulated {};

TEST_F(LockDaemon, AServerIsAskedLikewise) {
  RealProcessLauncher launcher;
  ProcessOptions options;
  options.arguments = {stitch_program, "serve", "--db", database, "--socket", folder.at("s.sock")};
  auto started = launcher.start(options);
  ASSERT_TRUE(started.ok()) << started.error().message;
  const std::string address = "unix:" + folder.at("s.sock");
  for (int i = 0; i < 300 && stitch({"show", "plans", "--server", address}).code != 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));

  EXPECT_EQ(locked({model, "--server", address}).code, 1) << "nothing is predicted for it";
  ASSERT_EQ(stitch({"tune", model, "--server", address}).code, 0);
  const Outcome written = locked({model, "--server", address, "-o", lock});
  ASSERT_EQ(written.code, 0) << written.err;
  EXPECT_EQ(locked({model, "--db", database}).out, read_file(lock)) << "a server and its database say the same";
  const Outcome same = locked({"--check", lock, "--server", address});
  EXPECT_EQ(same.code, 0) << same.out << same.err;

  std::string older = read_file(lock);
  const std::size_t version = older.find('\n', older.find("target "));
  older.insert(version, ".1");
  const Outcome elsewhere = locked({"--check", folder.write("older.lock", older), "--server", address});
  EXPECT_EQ(elsewhere.code, 0) << elsewhere.out;
  EXPECT_THAT(elsewhere.out, HasSubstr("the server does not plan for h100"));
}

}  // namespace
}  // namespace stitch::cli
