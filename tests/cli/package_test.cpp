// stitch package and explain-miss: one file for several GPUs, and why a key was not found.
#include <gmock/gmock.h>

#include "tests/cli/run_stitch.h"

namespace stitch::cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class PackageEmulated : public testing::Test {
 protected:
  std::string fitness(const json& report, const std::string& device) const {
    for (const json& row : report["devices"]) {
      if (row["device"] == device) return row["fitness"];
    }
    return "missing";
  }
  const Folder folder;
  const std::string model = folder.write("softmax.hlo.txt", softmax_hlo);
  const std::string cache = folder.at("cache");
};

TEST_F(PackageEmulated, RunsWithoutCompilerAndSaysWhereItWould) {
  const std::string file = folder.at("softmax.package");
  const Outcome made = stitch({"package", model, "--targets", "h100,l4", "--output", file, "--cache", cache, "--json"});
  ASSERT_EQ(made.code, 0) << made.err << made.out;
  EXPECT_EQ(made.json()["targets"].size(), 2U);
  const json report = stitch({"package", file, "--json"}).json();
  EXPECT_EQ(fitness(report, "h100"), "optimal");
  EXPECT_EQ(fitness(report, "l4"), "optimal");
  EXPECT_EQ(fitness(report, "h200"), "runs") << "compute capability 9.0, by the plans for h100";
  EXPECT_EQ(fitness(report, "l40s"), "runs");
  EXPECT_EQ(fitness(report, "b200"), "runs") << "by PTX for sm_89";
  EXPECT_EQ(fitness(report, "t4"), "refused");
  const std::string why = stitch({"package", file, "--targets", "t4"}).out;
  EXPECT_THAT(why, HasSubstr("h100: code for sm_90a needs compute capability 9.0 alone, t4 has 7.5"));
  EXPECT_THAT(why, HasSubstr("l4: code for sm_89 needs compute capability 8.9 or later, t4 has 7.5"));

  EXPECT_THAT(stitch({"package", file, "--output", folder.at("other")}).err, HasSubstr("a package, and no model"));
  EXPECT_THAT(stitch({"tune", file, "--cache", cache}).err, HasSubstr("a package of Stitch's, and no model"));
  EXPECT_THAT(stitch({"bench", file, "--cache", cache}).err, HasSubstr("a package, and no model: --startup"));

  for (const char* target : {"h100", "l4"}) {
    const Outcome ran = stitch({"run", file, "--target", target, "--check", "--json", "--cache", folder.at("none")});
    ASSERT_EQ(ran.code, 0) << ran.err << ran.out;
    EXPECT_EQ(ran.json()["steps"][0]["by"], "device");
    EXPECT_EQ(ran.json()["steps"][0]["wrong"], 0);
  }
  EXPECT_FALSE(std::filesystem::exists(folder.at("none"))) << "nothing was compiled";
  for (const char* gpu : {"h100", "l4"}) {
    const Outcome ran = stitch_on_a_gpu({"run", file, "--device", "gpu:0", "--json"}, gpu);
    ASSERT_EQ(ran.code, 0) << "the program of the GPU that is there: " << ran.err << ran.out;
    EXPECT_EQ(ran.json()["on"], "a stream of gpu:0");
  }
  EXPECT_THAT(stitch_on_a_gpu({"run", file, "--device", "gpu:0"}, "t4").err, HasSubstr("refused on t4"));
  const Outcome refused = stitch({"run", file, "--target", "t4"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("refused on t4"));

  const json startup = stitch({"bench", file, "--startup", "--repeat", "3", "--json"}).json();
  ASSERT_EQ(startup["phases"].size(), 3U) << startup;
  for (const std::size_t phase : {0, 1, 2}) EXPECT_EQ(startup["phases"][phase]["warm_samples_us"].size(), 3U);
  EXPECT_EQ(startup["phases"][2]["name"], "load");
  EXPECT_EQ(startup["fragments"], startup["planned"]);
  EXPECT_GT(startup["code_bytes"], 1000);
  EXPECT_THAT(stitch({"bench", model, "--startup"}).err, HasSubstr("--server is wanted"));

  // Truncated, tampered with, of another version.
  const std::string bytes = read_file(file);
  EXPECT_EQ(stitch({"package", folder.write("cut", bytes.substr(0, bytes.size() / 2))}).code, 3);
  std::string other = bytes;
  other[other.size() / 4] = static_cast<char>(other[other.size() / 4] ^ 1);
  EXPECT_EQ(stitch({"package", folder.write("tampered", other)}).code, 3);
  EXPECT_EQ(stitch({"package", model, "--targets", "h100"}).code, 3) << "no --output";
}

TEST_F(PackageEmulated, TakesThePlansOfADatabase) {
  const std::string database = folder.at("s.db"), first = folder.at("first"), second = folder.at("second");
  const auto package = [&](const std::string& file, const std::string& compiled) {
    return stitch({"package", model, "--targets", "h100", "--db", database, "--output", file, "--cache", compiled});
  };
  ASSERT_EQ(stitch({"tune", model, "--db", database, "--cache", cache}).code, 0);
  const Outcome made = package(first, folder.at("none"));
  ASSERT_EQ(made.code, 0) << made.err << made.out;
  EXPECT_FALSE(std::filesystem::exists(folder.at("none"))) << "nothing was compiled";
  EXPECT_EQ(stitch({"run", first, "--check"}).code, 0);

  // What the database does not have is made, and kept there.
  std::filesystem::remove(database);
  ASSERT_EQ(package(second, cache).code, 0);
  ASSERT_EQ(package(first, folder.at("none")).code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder.at("none"))) << "nothing was compiled";
  EXPECT_EQ(read_file(first), read_file(second)) << "the same plans, the same bytes";
}

TEST_F(PackageEmulated, AMissNamesTheFieldsThatDiffer) {
  const std::string database = folder.at("s.db");
  const auto explained = [&](const std::string& file, const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = {"explain-miss", file, "--db", database, "--cache", cache, "--json"};
    command.insert(command.end(), more.begin(), more.end());
    const json report = stitch(command).json();
    EXPECT_EQ(report["fragments"].size(), 1U) << report;
    return report["fragments"][0];
  };
  const Outcome mistyped = stitch({"explain-miss", model, "--db", database, "--cache", cache});
  EXPECT_EQ(mistyped.code, 3);
  EXPECT_THAT(mistyped.err, HasSubstr("no database " + database));
  EXPECT_FALSE(std::filesystem::exists(database)) << "nor is one made";
  const std::string other = folder.write("tanh.hlo.txt", R"(HloModule other
ENTRY main { x = f32[64] parameter(0)
  ROOT y = f32[64] tanh(x) }
)");
  ASSERT_EQ(stitch({"tune", other, "--db", database, "--cache", cache}).code, 0);
  const json nothing = explained(model);
  EXPECT_EQ(nothing["found"], false);
  EXPECT_EQ(nothing["differs"][0]["field"], "fragment");
  ASSERT_EQ(stitch({"tune", model, "--db", database, "--cache", cache}).code, 0);
  EXPECT_EQ(explained(model)["found"], true);

  const json elsewhere = explained(model, {"--target", "l4"});
  EXPECT_EQ(elsewhere["found"], false);
  EXPECT_THAT(elsewhere["differs"].dump(), HasSubstr(R"({"field":"device","stored":"h100","wanted":"l4"})"));
  EXPECT_THAT(elsewhere["differs"].dump(), HasSubstr(R"({"field":"architecture","stored":"sm_90a","wanted":"sm_89"})"));

  const json shape = explained(folder.write("taller.hlo.txt", taller_softmax_hlo()));
  ASSERT_EQ(shape["differs"].size(), 1U) << shape;
  EXPECT_EQ(shape["differs"][0]["field"], "shape");
  EXPECT_THAT(shape["differs"][0]["wanted"].get<std::string>(), HasSubstr("40"));
  EXPECT_THAT(shape["differs"][0]["stored"].get<std::string>(), HasSubstr("24"));
}

}  // namespace
}  // namespace stitch::cli
