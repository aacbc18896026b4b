// What a plan is known by holds nothing of the host: the same fragment, planned by processes in environments drawn at
// random, has the same keys, the same source and the same machine code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <locale>
#include <set>

#include "api/message_fields.h"
#include "base/device_class.h"
#include "base/processors.h"
#include "base/random.h"
#include "base/subprocess.h"
#include "codegen/compile/nvrtc.h"
#include "graph/canonical.h"
#include "tests/base/device_spec_fields.h"
#include "tests/base/test_folder.h"
#include "tests/graph/changed_field.h"
#include "tests/tuning/sample_fragments.h"
#include "tests/tuning/shared_tuner.h"

namespace stitch::tuning {
namespace {

constexpr const char* child_variable = "STITCH_TEST_KEYS_OF";  ///< folder to work in; set in the processes started here
constexpr std::string_view answer = "keys: ";

/// "1.234,5": what a program's locale may do to numbers.
class CommaNumbers final : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

std::string keys_of_this_process(const std::filesystem::path& folder) {
  std::filesystem::current_path(folder);
  std::setlocale(LC_ALL, "");
  if (std::getenv("STITCH_TEST_COMMAS") != nullptr)
    std::locale::global(std::locale(std::locale::classic(), new CommaNumbers));
  if (std::getenv("STITCH_TEST_ONE_PROCESSOR") != nullptr) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    ::sched_setaffinity(0, sizeof one, &one);
  }
  // A name of the host's own, where this process may give itself one.
  const char* const host = std::getenv("HOSTNAME");
  if (::unshare(CLONE_NEWUTS) == 0 && host != nullptr) (void)!::sethostname(host, std::strlen(host));

  SystemClock clock;
  RealFileSystem files;
  TunerOptions options;
  options.threads = std::atoi(std::getenv("STITCH_TEST_THREADS"));
  if (std::getenv("STITCH_TEST_MOVED") != nullptr) {
    const auto nvrtc = codegen::Nvrtc::load();
    const auto beside = std::filesystem::read_symlink("/proc/self/exe").parent_path();
    if (!nvrtc || (*nvrtc)->path().parent_path() != beside)
      return "error: the toolkit is not the one beside the program";
  }
  const auto tuner = Tuner::create(options, shared_device(), nullptr, files, clock);
  if (!tuner) return "error: " + tuner.error().message;
  const auto form = graph::canonicalise(samples::softmax(96, 200));
  const auto plan = (*tuner)->predict({.fragment = form->graph, .name = "softmax"});
  if (!plan) return "error: " + plan.error().message;
  const db::Target& target = (*tuner)->target();
  std::string text = fmt::format("{} {} {} {} {} {}", form->key.hex(), form->family_key.hex(), target.device,
                                 target.architecture, target.toolkit, target.version);
  text += " plan " + plan_id(plan->bundle.plan).hex();
  for (const db::Kernel& kernel : plan->bundle.kernels) text += " kernel " + kernel_hash(kernel).hex();
  for (const db::Artifact& artifact : plan->bundle.artifacts) text += " " + artifact.hash.hex();
  return text;
}

/// The line that a process of this program prints in an environment.
std::string keys_in(const std::filesystem::path& program, const std::vector<std::string>& environment) {
  RealProcessLauncher launcher;
  ProcessOptions options;
  options.arguments = {program.string(), "--gtest_filter=KeyOfEnvironmentsSlow.NothingOfTheHostIsInIt"};
  options.environment = environment;
  const auto output = run_process(launcher, options, "", deadline_in(120));
  if (!output) return output.error().message;
  const std::size_t begin = output->standard_output.find(answer);
  if (begin == std::string::npos) return output->standard_output + output->standard_error;
  return output->standard_output.substr(begin, output->standard_output.find('\n', begin) - begin);
}

/// This program beside a toolkit of its own, as in another installation: the compiler is looked for there first.
std::filesystem::path moved_program(const std::filesystem::path& folder) {
  const auto nvrtc = codegen::Nvrtc::load();
  if (!nvrtc) return {};
  std::filesystem::create_directories(folder);
  const std::filesystem::path from = std::filesystem::canonical((*nvrtc)->path()).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("libnvrtc") && name.find(".so") != std::string::npos)
      std::filesystem::create_symlink(entry.path(), folder / name);
  }
  std::filesystem::copy_file("/proc/self/exe", folder / "program");
  const std::filesystem::path own = std::filesystem::canonical("/proc/self/exe").parent_path();
  std::filesystem::copy_file(own / "stitch-compiler", folder / "stitch-compiler");
  return folder / "program";
}

TEST(KeyOfEnvironmentsSlow, NothingOfTheHostIsInIt) {
  if (const char* folder = std::getenv(child_variable)) {
    std::printf("\n%s%s\n", answer.data(), keys_of_this_process(folder).c_str());
    return;
  }
  const TestFolder folder;
  const std::filesystem::path own = "/proc/self/exe", here = std::filesystem::canonical(own);
  const std::filesystem::path moved = moved_program(folder / "another installation");
  ASSERT_FALSE(moved.empty());
  constexpr std::uint64_t seed = 2025;
  Random random(seed);
  const auto one_of = [&](std::vector<std::string> choices) { return choices[random.below(choices.size())]; };
  std::string first;
  for (int round = 0; round < 50; ++round) {
    const auto name = fmt::format("{:x}", random());
    const std::filesystem::path work = folder / one_of({"w", "with a blank", "Ünïcode", "deep/er/est"}) / name;
    std::filesystem::create_directories(work);
    std::vector<std::string> environment = {
        fmt::format("{}={}", child_variable, work.string()),
        "LC_ALL=" + one_of({"C", "C.UTF-8", "de_DE.UTF-8", "tr_TR.UTF-8", "nowhere"}),
        "LANG=" + one_of({"C", "en_US.UTF-8", "ja_JP.UTF-8"}),
        "HOME=" + one_of({work.string(), "/", "/nonexistent", ""}),
        "TMPDIR=" + one_of({work.string(), "/tmp", "/nonexistent"}),
        "XDG_CACHE_HOME=" + work.string(),
        "XDG_RUNTIME_DIR=" + work.string(),
        "USER=" + name,
        "LOGNAME=" + name,
        "HOSTNAME=host-" + name.substr(0, 6),
        "TZ=" + one_of({"UTC", "Asia/Kathmandu", "America/St_Johns", "nowhere"}),
        "OMP_NUM_THREADS=" + one_of({"1", "3", "64"}),
        "CUDA_PATH=" + one_of({"/usr/local/cuda", work.string()}),
        "CUDA_CACHE_PATH=" + work.string(),
        "SOURCE_DATE_EPOCH=" + one_of({"0", "1700000000"}),
        "STITCH_TEST_THREADS=" + one_of({"1", "2", "5"}),
    };
    if (random.below(2) == 0) environment.emplace_back("STITCH_TEST_COMMAS=1");
    if (random.below(3) == 0) environment.emplace_back("STITCH_TEST_ONE_PROCESSOR=1");
    const bool elsewhere = random.below(2) == 0;
    if (elsewhere) environment.emplace_back("STITCH_TEST_MOVED=1");
    const std::string keys = keys_in(elsewhere ? moved : here, environment);
    ASSERT_THAT(keys, testing::StartsWith(std::string(answer))) << "seed " << seed << ", round " << round;
    ASSERT_THAT(keys, testing::Not(testing::HasSubstr("error"))) << "seed " << seed << ", round " << round;
    if (round == 0) first = keys;
    ASSERT_EQ(keys, first) << "seed " << seed << ", round " << round << ", " << ::testing::PrintToString(environment);
  }
  EXPECT_THAT(first, testing::HasSubstr(" kernel "));
}

// A GPU is what its driver reports: who plans with another figure plans for another name.
TEST(KeyOfPlans, EveryFigureThatIsPlannedWithIsInTheNameOfTheClass) {
  int told_apart = 0;
  for (const ListedTraits& entry : listed_traits()) {
    const auto own = classify(entry.traits);
    ASSERT_TRUE(own.ok());
    graph::for_each_changed_field(entry.traits, [&](const std::string& path, const DeviceTraits& changed) {
      const auto other = classify(changed);
      if (!other) return;  // no GPU reports so
      if (other->spec.name == own->spec.name) {
        EXPECT_TRUE(fields_of(other->spec) == fields_of(own->spec)) << entry.device << ": " << path;
      } else {
        ++told_apart;
      }
    });
  }
  EXPECT_GE(told_apart, 5 * std::ssize(listed_traits()));
}

// And it holds all that the emitters read: what is told apart by a tuner, and by the plan that comes of it.
TEST(KeyOfPlansEmulated, EachFieldOfItCounts) {
  SystemClock clock;
  RealFileSystem files;
  const auto form = graph::canonicalise(samples::softmax(96, 200));
  struct Variant {
    std::string_view what;
    std::string target = "h100", architecture = "";
  };
  const Variant variants[] = {{"as it is"},
                              {"another entry", "h200"},
                              {"another class", "h100~sm114-l2.51200-gbs2039"},
                              {"one SM less", "h100~sm113-l2.51200-gbs2039"},
                              {"a slice", "h100~sm16-l2.6400-gbs419-mig1g.10gb"},
                              {"another architecture", "h100", "sm_90"},
                              {"another capability", "a100"}};
  std::set<db::Target> targets;
  std::set<Hash128> plans;
  for (const Variant& variant : variants) {
    TunerOptions options;
    options.target = variant.target;
    options.architecture = variant.architecture;
    const auto tuner = Tuner::create(options, shared_device(), nullptr, files, clock);
    ASSERT_TRUE(tuner.ok()) << variant.what << ": " << tuner.error().message;
    EXPECT_TRUE(targets.insert((*tuner)->target()).second) << variant.what;
    const auto plan = (*tuner)->predict({.fragment = form->graph});
    ASSERT_TRUE(plan.ok()) << variant.what << ": " << plan.error().message;
    EXPECT_TRUE(plans.insert(plan_id(plan->bundle.plan)).second) << variant.what;
    if (variant.what != "as it is") continue;
    // What no process can vary of itself.
    for (std::string db::Target::*const field :
         {&db::Target::device, &db::Target::architecture, &db::Target::toolkit, &db::Target::version}) {
      db::PlanRecord other = plan->bundle.plan;
      other.key.target.*field += "0";
      EXPECT_TRUE(plans.insert(plan_id(other)).second);
      EXPECT_TRUE(targets.insert(other.key.target).second);
    }
    for (const auto& change : std::initializer_list<void (*)(db::PlanRecord&)>{
             [](db::PlanRecord& p) { p.key.fragment = hash_bytes("another"); },
             [](db::PlanRecord& p) { p.steps[0].kernel = hash_bytes("another"); },
             [](db::PlanRecord& p) { p.steps[0].arguments = "[]"; }, [](db::PlanRecord& p) { p.document += " "; },
             [](db::PlanRecord& p) { p.bytes += 1; }}) {
      db::PlanRecord other = plan->bundle.plan;
      change(other);
      EXPECT_TRUE(plans.insert(plan_id(other)).second);
    }
  }
}

}  // namespace
}  // namespace stitch::tuning
