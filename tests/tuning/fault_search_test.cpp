// Everything that can become of a bad candidate, in one search: a kernel that hangs, ones that write where nothing is
// and that trap (errors that take the device's context along), one that computes something else, and one whose
// compilation has no end. Kernels run in a real stitch-runner, on the emulated driver, whose contexts are lost as a
// GPU's are; compilers and database are real, times come from a law. The search goes on to a right plan, this process
// is untouched, and the log has a line for each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>

#include "db/sqlite_store.h"
#include "graph/canonical.h"
#include "profiler/runner/device.h"
#include "tests/base/test_folder.h"
#include "tests/base/test_variable.h"
#include "tests/profiler/forwarding_session.h"
#include "tests/profiler/ptx_kernels.h"
#include "tests/profiler/running_device.h"
#include "tests/tuning/breaking_device.h"
#include "tests/tuning/law_timer.h"
#include "tests/tuning/sample_fragments.h"
#include "tuning/plans/remembering_tuner.h"

namespace stitch::tuning {
namespace {

using profiler::KernelImage;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

enum class Fault { hang, illegal_address, trap, wrong_result };

/// What a kernel begins with instead.
std::string damage_of(Fault fault) {
  switch (fault) {
    case Fault::hang:
      // What it writes keeps it from being seen through.
      return R"({ .shared .align 4 .b32 stitch_word; .reg .b32 %turn; .reg .b64 %word;
mov.u64 %word, stitch_word; mov.u32 %turn, 0;
STITCH_AGAIN: add.u32 %turn, %turn, 1; st.volatile.shared.u32 [%word], %turn; bra STITCH_AGAIN; })";
    case Fault::illegal_address:
      return "{ .reg .b64 %nowhere; .reg .b32 %any; mov.u64 %nowhere, 64; mov.u32 %any, 1; "
             "st.global.u32 [%nowhere], %any; }";
    case Fault::trap: return "trap;";
    case Fault::wrong_result: break;
  }
  return {};
}

void damage(KernelImage& image, Fault fault) {
  if (fault == Fault::wrong_result) {
    EXPECT_TRUE(replace_all(image.ptx, "ex2.approx", "lg2.approx"));
    return;
  }
  const std::size_t body = image.ptx.find("\n{", image.ptx.find(".entry "));
  ASSERT_NE(body, std::string::npos) << image.ptx;
  image.ptx.insert(body + 2, "\n" + damage_of(fault) + "\n");
}

/// Damages the first kernels that are verified, one by one, and leaves all others to the device. Kernels are loaded
/// from their PTX, which is what the emulated driver runs of them anyway.
class DamagingDevice final : public profiler::Device {
 public:
  DamagingDevice(profiler::TimedDevice& inner, std::vector<Fault> faults) : inner_(inner), left_(std::move(faults)) {}
  [[nodiscard]] const profiler::DeviceIdentity& identity() const override { return inner_.identity(); }
  Result<std::unique_ptr<profiler::Session>> session() override {
    STITCH_ASSIGN(auto inner, inner_.timed_session());
    return std::unique_ptr<profiler::Session>(std::make_unique<DamagingSession>(*this, std::move(inner)));
  }
  [[nodiscard]] std::size_t left() const { return left_.size(); }

  std::function<void()> before_load;  ///< what happens on the device while a kernel is verified; may be empty

 private:
  class DamagingSession final : public profiler::test::ForwardingSession {
   public:
    DamagingSession(DamagingDevice& device, std::unique_ptr<profiler::TimedSession> inner)
        : ForwardingSession(std::move(inner)), device_(device) {}
    Result<profiler::KernelHandle> load(const KernelImage& image) override {
      KernelImage loaded = image;
      loaded.cubin.clear();
      if (const std::optional<Fault> fault = device_.fault_of(image.ptx)) damage(loaded, *fault);
      if (device_.before_load) device_.before_load();
      return ForwardingSession::load(loaded);
    }

   private:
    DamagingDevice& device_;
  };

  /// The same whenever it is asked about the same kernel.
  std::optional<Fault> fault_of(const std::string& ptx) {
    const std::lock_guard lock(mutex_);
    const auto known = faults_.find(ptx);
    if (known != faults_.end()) return known->second;
    std::optional<Fault> fault;
    if (!left_.empty()) {
      fault = left_.front();
      left_.erase(left_.begin());
    }
    faults_.emplace(ptx, fault);
    return fault;
  }

  profiler::TimedDevice& inner_;
  std::mutex mutex_;
  std::vector<Fault> left_;
  std::map<std::string, std::optional<Fault>> faults_;
};

/// Makes minutes of work of the first source that it is given, for a compiler that ends it after a second.
class SlowCompiler final : public codegen::Compiler {
 public:
  explicit SlowCompiler(codegen::Compiler& inner) : inner_(inner) {
    codegen::CompilerOptions options;
    options.timeout_seconds = 1;
    auto made = codegen::NvrtcCompiler::create_pool(options);
    EXPECT_TRUE(made.ok()) << (made ? "" : made.error().message);
    impatient_ = *std::move(made);
  }
  Result<codegen::CompiledKernel> compile(const codegen::CompileRequest& request) override {
    {
      const std::lock_guard lock(mutex_);
      if (slow_.empty()) slow_ = request.source;
    }
    if (request.source != slow_) return inner_.compile(request);
    codegen::CompileRequest longer = request;
    longer.source += "\n__global__ void stitch_slow(float* x) {\n  float v = *x;\n";
    for (int i = 0; i < 20'000; ++i) longer.source += "  v = tanhf(v);\n";
    longer.source += "  *x = v;\n}\n";
    return impatient_->compile(longer);
  }
  [[nodiscard]] Hash128 key(const codegen::CompileRequest& request) const override { return inner_.key(request); }

 private:
  codegen::Compiler& inner_;
  std::unique_ptr<codegen::Compiler> impatient_;
  std::mutex mutex_;
  std::string slow_;
};

class FaultSearchEmulated : public testing::Test {
 protected:
  FaultSearchEmulated() {
    db::SqliteOptions storage;
    storage.path = folder_ / "stitch.db";
    store_ = *db::open_sqlite_store(storage, clock_);
    profiler::RunnerOptions runner = profiler::test::runner_options(
        {"--device", "gpu:0", "--driver", STITCH_BINARY_DIR "/lib/emulated/libcuda.so.1"});
    runner.launch_seconds = 5;
    running_ = std::make_unique<profiler::test::RunningDevice>(runner, folder_ / "quarantine.json");
  }
  void SetUp() override {
    if (!std::filesystem::exists(STITCH_BINARY_DIR "/lib/emulated/libcuda.so.1"))
      GTEST_SKIP() << "built without the emulated driver";
    ASSERT_TRUE(running_->device) << running_->error.message;
  }

  std::unique_ptr<Tuner> tuner_on(profiler::Device& device, bool slow_compiler) {
    TunerOptions options;
    options.verify.distributions.resize(1);
    options.measured_candidates = 3;
    options.compiled_candidates = 8;
    options.complain = [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      log_.emplace_back(line);
    };
    if (slow_compiler) {
      options.around_compiler = [](codegen::Compiler& inner) { return std::make_unique<SlowCompiler>(inner); };
    }
    auto made = Tuner::create(options, device, &timer_, files_, clock_);
    EXPECT_TRUE(made.ok()) << (made ? "" : made.error().message);
    return *std::move(made);
  }
  /// How often each became of the candidates that the store knows.
  std::map<db::Outcome, int> outcomes() const {
    std::map<db::Outcome, int> counts;
    const auto listed = store_->list_candidates({}, {.limit = 1000});
    for (const db::Candidate& candidate : listed->items) ++counts[candidate.outcome];
    return counts;
  }
  [[nodiscard]] int lines_with(const std::string& text) const {
    return static_cast<int>(
        std::ranges::count_if(log_, [&](const std::string& line) { return line.find(text) != std::string::npos; }));
  }

  const TestVariable quiet_{"STITCH_EMULATED_QUIET", "1"};
  TestFolder folder_;
  SystemClock clock_;
  RealFileSystem files_;
  LawTimer timer_;
  std::unique_ptr<db::Store> store_;
  std::unique_ptr<profiler::test::RunningDevice> running_;
  std::mutex mutex_;
  std::vector<std::string> log_;
  const graph::Graph graph_ = graph::canonicalise(samples::softmax(16, 128))->graph;
};

TEST_F(FaultSearchEmulated, ASearchGoesOnPastEveryKindOfFault) {
  DamagingDevice device(*running_->device, {Fault::hang, Fault::illegal_address, Fault::trap, Fault::wrong_result});
  const int runners = running_->device->generation();
  const auto tuner = tuner_on(device, true);
  const auto memory = *RememberingTuner::open(*store_, *tuner, clock_);
  const auto tuned = memory->tune({.fragment = graph_, .name = "softmax"});
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  ASSERT_TRUE(memory->keep(*tuned).ok());

  ASSERT_EQ(tuned->kernels.size(), 1U) << "the fusion stays";
  ASSERT_TRUE(tuned->kernels[0].verification);
  EXPECT_TRUE(tuned->kernels[0].verification->correct);
  EXPECT_TRUE(memory->is_settled(graph::canonicalise(graph_)->key));
  EXPECT_EQ(device.left(), 0U);
  auto became = outcomes();
  EXPECT_EQ(became[db::Outcome::timeout], 2) << "one hung, one was not compiled";
  EXPECT_EQ(became[db::Outcome::runtime], 2);
  EXPECT_EQ(became[db::Outcome::correctness], 1);
  EXPECT_EQ(became[db::Outcome::correct], 3) << "as many as are measured";

  ASSERT_EQ(log_.size(), 5U) << testing::PrintToString(log_);
  for (const std::string& line : log_) {
    EXPECT_THAT(line, AllOf(HasSubstr("fragment " + graph::canonicalise(graph_)->key.hex() + ", schedule "),
                            Not(HasSubstr("\n"))));
  }
  EXPECT_EQ(lines_with("timeout: compilation of "), 1);
  EXPECT_EQ(lines_with(" gave no answer to launch within 5 s and was killed"), 1);
  EXPECT_EQ(lines_with("CUDA_ERROR_ILLEGAL_ADDRESS"), 1);
  EXPECT_EQ(lines_with("CUDA_ERROR_LAUNCH_FAILED"), 1);
  EXPECT_EQ(lines_with(" instead of "), 1);

  // Each of the three that took the runner along cost one, and none is run again.
  EXPECT_EQ(running_->device->generation(), runners + 3);
  EXPECT_EQ(running_->quarantine.entries().size(), 3U);
  const auto again = tuner_on(device, false)->tune({.fragment = graph_, .name = "softmax"});
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(running_->device->generation(), runners + 3);
  EXPECT_EQ(lines_with("is quarantined on "), 3);
}

// Sessions of other kernels go with the runner, too: these are verified again, and nothing is held against them.
TEST_F(FaultSearchEmulated, AKernelWhoseNeighbourFaultsIsNotBlamed) {
  DamagingDevice device(*running_->device, {});
  const int runners = running_->device->generation();
  int neighbours = 0;
  device.before_load = [&] {
    if (neighbours == 2) return;
    ++neighbours;
    const auto session = *running_->device->timed_session();
    KernelImage image = profiler::test::wild_kernel();
    image.ptx += fmt::format("// {}\n", neighbours);  // another one than was quarantined
    const auto kernel = *session->load(image);
    const std::vector<profiler::LaunchValue> arguments = {std::int64_t{0}, std::int64_t{0}};
    EXPECT_FALSE(session->launch(kernel, {1, 32, 1, 0, false}, arguments, {}).ok());
  };
  const auto tried = [](const TunedFragment& tuned) {
    std::vector<Hash128> schedules;
    for (const db::Candidate& candidate : tuned.trials.candidates) schedules.push_back(candidate.schedule_hash);
    return schedules;
  };
  const auto tuner = tuner_on(device, false);
  const auto memory = *RememberingTuner::open(*store_, *tuner, clock_);
  const auto tuned = memory->tune({.fragment = graph_, .name = "softmax"});
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  ASSERT_TRUE(memory->keep(*tuned).ok());
  const auto undisturbed = tuner_on(device, false)->tune({.fragment = graph_, .name = "softmax"});
  ASSERT_TRUE(undisturbed.ok()) << undisturbed.error().message;
  EXPECT_EQ(tried(*tuned), tried(*undisturbed)) << "none is passed over";
  EXPECT_EQ(neighbours, 2);
  EXPECT_EQ(running_->device->generation(), runners + 2);
  const auto became = outcomes();
  EXPECT_EQ(became.size(), 1U);
  EXPECT_EQ(became.at(db::Outcome::correct), 3);
  EXPECT_TRUE(log_.empty()) << log_.front();
}

}  // namespace
}  // namespace stitch::tuning
