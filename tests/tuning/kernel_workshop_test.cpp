#include "tuning/kernels/kernel_workshop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <limits>
#include <map>
#include <numeric>
#include <regex>
#include <set>
#include <tuple>

#include "costmodel/analytical.h"
#include "costmodel/compiled_estimate.h"
#include "tests/base/test_folder.h"
#include "tests/tuning/sample_fragments.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/kernels/training_samples.h"

// In which order candidates are tried, once it is known what the compiler made of them. Kernels are really generated,
// compiled and verified; what the compiler reports is changed where a test needs it to be bad.
namespace stitch::tuning {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

/// NVRTC, each source once for all tests; reports what a test wants of it, and counts.
class AlteredCompiler final : public codegen::Compiler {
 public:
  Result<codegen::CompiledKernel> compile(const codegen::CompileRequest& request) override {
    {
      const std::lock_guard lock(mutex_);
      ++compiled_[request.source];
    }
    codegen::CompileRequest asked = request;
    // A few registers: ptxas does as it is told, whatever bound the source has.
    const std::string unbounded = std::regex_replace(request.source, std::regex("__launch_bounds__[(][^)]*[)]"), "");
    if (starves_all || starved.contains(unbounded)) {
      asked.source = unbounded;
      asked.options.push_back(fmt::format("--maxrregcount={}", registers));
    }
    Result<codegen::CompiledKernel> kernel = remembered(asked);
    if (kernel && alter) {
      if (const Status altered = alter(request.source, kernel->resources); !altered) return altered.error();
    }
    return kernel;
  }
  [[nodiscard]] Hash128 key(const codegen::CompileRequest& request) const override {
    return hash_bytes(request.source);
  }
  [[nodiscard]] std::vector<int> counts() const {
    std::vector<int> counts;
    for (const auto& [source, count] : compiled_) counts.push_back(count);
    return counts;
  }

  std::set<std::string> starved;  ///< sources, without bounds, that get so many registers
  bool starves_all = false;       ///< all do
  int registers = 0;
  /// Changes what is reported of a source, or refuses it.
  std::function<Status(const std::string& source, codegen::ResourceUsage& used)> alter;

 private:
  static Result<codegen::CompiledKernel> remembered(const codegen::CompileRequest& request) {
    static std::mutex mutex;
    static std::map<std::pair<std::string, std::vector<std::string>>, Result<codegen::CompiledKernel>> known;
    static const auto nvrtc = codegen::NvrtcCompiler::create();
    if (!nvrtc) return nvrtc.error();
    {
      const std::lock_guard lock(mutex);
      if (const auto found = known.find({request.source, request.options}); found != known.end()) return found->second;
    }
    auto kernel = (*nvrtc)->compile(request);
    const std::lock_guard lock(mutex);
    return known.emplace(std::pair(request.source, request.options), std::move(kernel)).first->second;
  }
  std::mutex mutex_;
  std::map<std::string, int> compiled_;
};

/// Every candidate takes 10 µs, or what a test says.
class EvenTimer final : public KernelTimer {
 public:
  EvenTimer() {
    identity_.key = "GPU-even";
    identity_.kind = "gpu";
  }
  [[nodiscard]] const profiler::DeviceIdentity& identity() const override { return identity_; }
  Result<profiler::Measurement> measure_kernel(const BuiltKernel&) override {
    profiler::Measurement measurement;
    measurement.samples.assign(20, 10.0);
    profiler::summarise(measurement, profiler::Verdict::precise);
    return measurement;
  }
  Result<std::vector<profiler::Measurement>> measure_plans(std::span<const RunnablePlan>) override {
    return make_error(ErrorKind::unsupported, "kernels only");
  }

 private:
  profiler::DeviceIdentity identity_;
};

std::vector<int> candidates_of(const std::vector<Trial>& trials) {
  std::vector<int> candidates;
  for (const Trial& trial : trials) candidates.push_back(trial.candidate.place);
  return candidates;
}

std::vector<int> candidates_of(const Attempts& attempts) { return candidates_of(attempts.all()); }

class KernelWorkshopEmulated : public testing::Test {
 protected:
  KernelWorkshopEmulated() {
    static const costmodel::AnalyticalScorer scorer(device_);
    static search::KernelCache cache(scorer, {.keep = 8});
    kernel_ = std::make_shared<search::ExploredKernel>(
        *cache.explore(samples::softmax(64, 512))->kernel);  // a copy: tests change its predictions
    options_.architecture = "sm_90a";
    options_.verify.distributions.resize(1);
    options_.measured_candidates = 3;
    options_.machine_code = false;
  }

  std::unique_ptr<KernelWorkshop> workshop(bool measures = true) {
    return std::make_unique<KernelWorkshop>(compiler_, shared_device(), measures ? &timer_ : nullptr, device_,
                                            options_);
  }
  /// The source of a candidate, by which the compiler tells candidates apart.
  const std::string& source_of(int candidate) {
    if (sources_.empty()) {
      AlteredCompiler plain;
      KernelWorkshop all(plain, shared_device(), nullptr, device_, options_);
      for (int c = 0; c < std::ssize(kernel_->candidates); ++c)
        sources_.push_back(all.build_candidate({kernel_, c}).built->generated.source);
    }
    return sources_[candidate];
  }
  /// A source without the bound on registers, which may be dropped.
  static std::string without_bounds(const std::string& source) {
    return std::regex_replace(source, std::regex("__launch_bounds__[(][^)]*[)]"), "");
  }
  /// These take all registers that there are, and spill.
  void fatten(std::vector<int> candidates) {
    std::set<std::string> fat;
    for (const int c : candidates) fat.insert(without_bounds(source_of(c)));
    compiler_.alter = [fat](const std::string& source, codegen::ResourceUsage& used) -> Status {
      if (fat.contains(without_bounds(source))) {
        used.registers = 128;
        used.spill_store_bytes = used.spill_load_bytes = 4096;
      }
      return {};
    };
  }
  void refuse(std::vector<int> candidates) {
    std::set<std::string> bad;
    for (const int c : candidates) bad.insert(source_of(c));
    compiler_.alter = [bad](const std::string& source, codegen::ResourceUsage&) -> Status {
      if (bad.contains(source)) return make_error(ErrorKind::compile, "refused");
      return {};
    };
  }

  const DeviceSpec device_ = *find_device("h100");
  std::shared_ptr<search::ExploredKernel> kernel_;
  WorkshopOptions options_;
  AlteredCompiler compiler_;
  EvenTimer timer_;

 private:
  std::vector<std::string> sources_;
};

TEST_F(KernelWorkshopEmulated, CandidatesAreTriedInTheOrderOfTheirEstimates) {
  ASSERT_EQ(kernel_->candidates.size(), 8U);
  fatten({0, 1});
  const auto shop = workshop();
  const std::vector<Trial> ahead = shop->build_ahead(kernel_);
  ASSERT_EQ(ahead.size(), 6U) << "twice as many as are measured";
  for (std::size_t i = 0; i < ahead.size(); ++i) {
    ASSERT_TRUE(ahead[i].built);
    const BuiltKernel& built = *ahead[i].built;
    const search::StitchCandidate& candidate = kernel_->candidates[built.candidate.place];
    EXPECT_EQ(built.candidate.place, ahead[i].candidate.place);
    // With the analytical scorer the estimate is the analytical time of what was compiled.
    EXPECT_NEAR(built.estimated_us,
                costmodel::compiled_us(costmodel::kernel_quantities(kernel_->graph, candidate.program, device_),
                                       compiled_facts(built.compiled.resources, built.generated.shared_bytes), device_),
                1e-9);
    if (i > 0) {
      EXPECT_LE(ahead[i - 1].built->estimated_us, built.estimated_us);
    }
    int overtaken = 0;
    for (std::size_t j = i + 1; j < ahead.size(); ++j)
      overtaken += ahead[j].candidate.place < ahead[i].candidate.place ? 1 : 0;
    EXPECT_EQ(built.overtaken, overtaken);
  }
  std::vector<int> last = {ahead[4].candidate.place, ahead[5].candidate.place};
  EXPECT_THAT(last, UnorderedElementsAre(0, 1)) << "what the compiler spoilt";
  EXPECT_GE(ahead.front().built->overtaken, 2);

  // Verified and measured in this order: of equal times the first is taken.
  const Attempts verified = shop->verify(kernel_);
  EXPECT_THAT(candidates_of(verified), ElementsAre(ahead[0].candidate.place));
  EXPECT_TRUE(verified.best->built->verification->correct);
  const Attempts measured = shop->measure(kernel_);
  EXPECT_THAT(candidates_of(measured),
              ElementsAre(ahead[1].candidate.place, ahead[2].candidate.place, ahead[0].candidate.place));
  EXPECT_TRUE(measured.best->built->measurement);
  EXPECT_EQ(measured.best->built->estimated_us, ahead[0].built->estimated_us);
}

TEST_F(KernelWorkshopEmulated, ABoundOnRegistersIsDroppedWhereItSpills) {
  const std::string& bounded = source_of(0);
  ASSERT_TRUE(std::regex_search(bounded, std::regex("__launch_bounds__[(][0-9]+, [0-9]+[)]")));
  for (const bool spills_without : {false, true}) {
    compiler_.alter = [&](const std::string& source, codegen::ResourceUsage& used) -> Status {
      if (source == bounded || spills_without) used.spill_store_bytes = used.spill_load_bytes = 64;
      return {};
    };
    const Trial trial = workshop()->build_candidate({kernel_, 0});
    ASSERT_TRUE(trial.built);
    EXPECT_EQ(trial.built->generated.source == bounded, spills_without) << "no better without";
    EXPECT_EQ(without_bounds(trial.built->generated.source), without_bounds(bounded));
    EXPECT_EQ(trial.built->compiled.resources.spill_store_bytes, spills_without ? 64 : 0);
  }
}

TEST_F(KernelWorkshopEmulated, EqualEstimatesKeepTheOrderOfThePredictions) {
  for (search::StitchCandidate& candidate : kernel_->candidates) candidate.predicted_us = 10;
  compiler_.alter = [](const std::string&, codegen::ResourceUsage& used) -> Status {
    used.registers = 0;  // nothing is known: the estimate is the prediction
    return {};
  };
  const std::vector<Trial> ahead = workshop()->build_ahead(kernel_);
  EXPECT_THAT(candidates_of(ahead), ElementsAre(0, 1, 2, 3, 4, 5));
  for (const Trial& trial : ahead) {
    EXPECT_EQ(trial.built->estimated_us, 10);
    EXPECT_EQ(trial.built->overtaken, 0);
  }
}

TEST_F(KernelWorkshopEmulated, WhatAScorerLearnedStaysInTheEstimate) {
  kernel_->candidates[3].predicted_us /= 100;  // whatever compiling changes, it is not that much
  EXPECT_EQ(workshop()->build_ahead(kernel_).front().candidate.place, 3);
}

TEST_F(KernelWorkshopEmulated, FailedBuildsAreTrials) {
  refuse({1, 3});
  const auto shop = workshop();
  const std::vector<Trial> ahead = shop->build_ahead(kernel_);
  ASSERT_EQ(ahead.size(), 6U);
  EXPECT_EQ(ahead[0].candidate.place, 1);
  EXPECT_EQ(ahead[1].candidate.place, 3);
  const Attempts measured = shop->measure(kernel_);
  ASSERT_EQ(measured.size(), 5) << "two failures, three measurements";
  ASSERT_TRUE(measured.best);
  EXPECT_FALSE(measured.best->failure);
  std::vector<int> failed;
  for (const Trial& trial : measured.all()) {
    if (!trial.failure) continue;
    failed.push_back(trial.candidate.place);
    EXPECT_EQ(trial.failure->kind, ErrorKind::compile);
    EXPECT_FALSE(trial.built);
  }
  EXPECT_THAT(failed, ElementsAre(1, 3));
}

TEST_F(KernelWorkshopEmulated, WhereAllThatWereBuiltAheadFailTheOthersFollow) {
  refuse({0, 1});
  options_.compiled_candidates = 2;
  const auto shop = workshop(false);
  EXPECT_THAT(candidates_of(shop->build_ahead(kernel_)), ElementsAre(0, 1));
  const Attempts verified = shop->verify(kernel_);
  EXPECT_THAT(candidates_of(verified), ElementsAre(0, 1, 2));
  ASSERT_TRUE(verified.best);
  EXPECT_FALSE(verified.best->failure);
  EXPECT_THAT(candidates_of(shop->build(kernel_)), ElementsAre(0, 1, 2));
  refuse({0, 1, 2, 3, 4, 5, 6, 7});
  const auto hopeless = workshop();
  EXPECT_EQ(hopeless->measure(kernel_).size(), 8);
  EXPECT_FALSE(hopeless->measure(kernel_).best);
  EXPECT_TRUE(hopeless->measure(kernel_).all().back().failure);
}

TEST_F(KernelWorkshopEmulated, NothingIsBuiltTwice) {
  refuse({0});
  const auto shop = workshop();
  EXPECT_THAT(candidates_of(shop->build(kernel_)), ElementsAre(0, 1)) << "the first that compiles, and no more";
  EXPECT_THAT(compiler_.counts(), ElementsAre(1, 1));
  (void)shop->build_ahead(kernel_);
  (void)shop->build(kernel_);
  (void)shop->verify(kernel_);
  (void)shop->measure(kernel_);
  (void)shop->build_ahead(kernel_);
  EXPECT_EQ(shop->build(kernel_).best->candidate.place, shop->verify(kernel_).best->candidate.place);
  EXPECT_THAT(compiler_.counts(), ElementsAre(1, 1, 1, 1, 1, 1));
}

TEST_F(KernelWorkshopEmulated, WithoutATimerThreeAreBuilt) {
  const auto shop = workshop(false);
  EXPECT_EQ(shop->build_ahead(kernel_).size(), 3U);
  EXPECT_EQ(shop->measure(kernel_).size(), 1);
}

TEST_F(KernelWorkshopEmulated, TheOrderDoesNotDependOnTheThreads) {
  const tbb::global_control parallelism(tbb::global_control::max_allowed_parallelism, 4);
  fatten({0, 2});
  std::vector<std::vector<int>> orders;
  std::vector<std::vector<double>> estimates;
  for (const int threads : {1, 4}) {
    tbb::task_arena arena(threads);
    const auto shop = workshop();
    const std::vector<Trial> trials = arena.execute([&] { return shop->build_ahead(kernel_); });
    orders.push_back(candidates_of(trials));
    std::vector<double>& us = estimates.emplace_back();
    for (const Trial& trial : trials) us.push_back(trial.built->estimated_us);
  }
  EXPECT_EQ(orders[0], orders[1]);
  EXPECT_EQ(estimates[0], estimates[1]);
}

class WorkshopMachineCodeEmulated : public KernelWorkshopEmulated {
 protected:
  WorkshopMachineCodeEmulated() { options_.machine_code = true; }
};

// Whether or not anything is measured: the estimates that choose between candidates see the code.
TEST_F(WorkshopMachineCodeEmulated, IsReadOfAllThatIsBuilt) {
  for (const bool measured : {true, false}) {
    const std::vector<Trial> trials = workshop(measured)->build_ahead(kernel_);
    ASSERT_GE(trials.size(), 3U);
    for (const Trial& trial : trials) {
      ASSERT_TRUE(trial.built && trial.built->machine_code) << trial.candidate.place;
      EXPECT_GT(trial.built->machine_code->loads, 0);
      EXPECT_EQ(trial.built->machine_code->by_pipe[costmodel::Pipe::other], 0) << "every operation is known";
    }
    EXPECT_TRUE(std::ranges::is_sorted(trials, {}, [](const Trial& trial) { return trial.built->estimated_us; }));
  }
}

TEST_F(WorkshopMachineCodeEmulated, EstimatesFollowIt) {
  const Trial with = workshop()->build_candidate({kernel_, 0});
  options_.machine_code = false;
  const Trial without = workshop()->build_candidate({kernel_, 0});
  ASSERT_TRUE(with.built && without.built);
  EXPECT_FALSE(without.built->machine_code);
  EXPECT_NE(with.built->estimated_us, without.built->estimated_us);
}

// NVRTC really spills: these kernels are compiled for fewer registers than their rows in a loop need.
class WorkshopSpillsEmulated : public KernelWorkshopEmulated {
 protected:
  WorkshopSpillsEmulated() {
    options_.machine_code = true;
    options_.compiled_candidates = 2;
    // Rows of which each thread of a block holds many elements, several to a block: a loop around them.
    graph::Builder b;
    const graph::Dims dims = {2048, 2048};
    const graph::Value x = b.parameter(graph::DType::f32, dims), y = b.parameter(graph::DType::f32, dims);
    const graph::Value product = b.binary(graph::Op::multiply, x, y);
    const graph::Value sum = b.reduce(graph::ReduceKind::sum, product, {1});
    const graph::Value scaled = b.binary(graph::Op::multiply, x, b.broadcast(sum, dims, {0}));
    const graph::Graph graph = *b.finish({scaled, b.reduce(graph::ReduceKind::sum, scaled, {0})});
    static const costmodel::AnalyticalScorer scorer(device_);
    static search::KernelCache cache(scorer, {.keep = 8});
    kernel_ = std::make_shared<search::ExploredKernel>(*cache.explore(graph)->kernel);
  }
  /// Compiles these, with or without bounds, for at most so many registers.
  void starve(std::vector<int> candidates, int registers = 24) {
    for (const int c : candidates) compiler_.starved.insert(without_bounds(source_of(c)));
    compiler_.registers = registers;
  }
};

TEST_F(WorkshopSpillsEmulated, WhatSpillsInALoopIsDropped) {
  starve({0, 1});
  const Trial spilling = workshop()->build_candidate({kernel_, 0});
  ASSERT_TRUE(spilling.built);
  EXPECT_GT(spilling.built->compiled.resources.spill_store_bytes, 0);
  EXPECT_TRUE(spills_in_loop(*spilling.built)) << spilling.built->compiled.resources.describe();
  EXPECT_FALSE(spills_in_loop(*workshop()->build_candidate({kernel_, 2}).built));

  for (const bool ahead : {false, true}) {
    const auto shop = workshop(false);
    const Attempts found = ahead ? (shop->build_ahead(kernel_), shop->build(kernel_)) : shop->build(kernel_);
    EXPECT_THAT(candidates_of(found), ElementsAre(0, 1, 2));
    ASSERT_TRUE(found.best);
    for (const Trial& dropped : found.others) {
      ASSERT_TRUE(dropped.failure);
      EXPECT_EQ(dropped.failure->kind, ErrorKind::constraint);
      EXPECT_THAT(dropped.failure->message, testing::HasSubstr("spilled"));
    }
  }
  const Attempts verified = workshop(false)->verify(kernel_);
  ASSERT_TRUE(verified.best);
  EXPECT_EQ(verified.best->candidate.place, 2);
}

TEST_F(WorkshopSpillsEmulated, WhereAllSpillTheFirstIsTaken) {
  starve({});
  compiler_.starves_all = true;
  options_.beyond_spills = 1;
  const auto shop = workshop(false);
  EXPECT_THAT(candidates_of(shop->build(kernel_)), ElementsAre(0));
  EXPECT_EQ(shop->build_ahead(kernel_).size(), 3U) << "two, and one beyond them";
  EXPECT_TRUE(shop->verify(kernel_).best);
  options_.beyond_spills = 8;
  const std::vector<Trial> all = workshop(false)->build_ahead(kernel_);
  EXPECT_GT(all.size(), kernel_->candidates.size()) << "all of its own, and what is made of them";
  for (const Trial& trial : all) EXPECT_TRUE(trial.built && spills_in_loop(*trial.built)) << trial.candidate.place;
}

// Where all of the kernel's candidates spill, what is made of them with more registers for a thread's turn does not.
TEST_F(WorkshopSpillsEmulated, WhereAllSpillOneWithMoreRegistersIsMade) {
  const int own = std::ssize(kernel_->candidates);
  std::vector<int> all(own);
  std::iota(all.begin(), all.end(), 0);
  starve(all);
  for (const bool ahead : {false, true}) {
    const auto shop = workshop(false);
    if (ahead) {
      EXPECT_TRUE(shop->build_ahead(kernel_).back().built) << "what failed comes first";
    }
    const Attempts built = shop->build(kernel_);
    ASSERT_TRUE(built.best);
    EXPECT_GE(built.best->candidate.place, own);
    EXPECT_FALSE(spills_in_loop(*built.best->built));
    EXPECT_FALSE(built.best->candidate.scheduled->schedule == kernel_->candidates[0].schedule);
    EXPECT_GT(built.best->candidate.scheduled->predicted_us, 0);
    for (const Trial& dropped : built.others) EXPECT_EQ(dropped.failure->kind, ErrorKind::constraint);
    const Attempts verified = shop->verify(kernel_);
    ASSERT_TRUE(verified.best) << verified.why_none().message;
    EXPECT_TRUE(verified.best->built->verification->correct);
    EXPECT_EQ(verified.best->candidate.place, built.best->candidate.place);
    // Another workshop finds it by its code.
    const BuiltKernel& best = *verified.best->built;
    const Attempts again = workshop(false)->made_of(kernel_, {sha256(best.compiled.ptx), sha256(best.compiled.cubin)});
    ASSERT_TRUE(again.best);
    EXPECT_EQ(again.best->candidate.scheduled->schedule, best.candidate.scheduled->schedule);
  }
  // Those that are measured are the kernel's own candidates and what was made of them, each once.
  options_.measured_candidates = 12;
  std::vector<int> measured = candidates_of(workshop()->measure(kernel_));
  std::ranges::sort(measured);
  EXPECT_EQ(std::ranges::adjacent_find(measured), measured.end());
  EXPECT_GE(std::ssize(measured), own + 1);
}

TEST_F(WorkshopSpillsEmulated, WithoutTheCodeNothingIsKnown) {
  options_.machine_code = false;
  starve({0, 1});
  EXPECT_THAT(candidates_of(workshop(false)->build(kernel_)), ElementsAre(0));
}

// Estimates of one kernel's schedules that differ by less than they may be off: the one whose blocks wait for nobody.
TEST_F(KernelWorkshopEmulated, OfEqualEstimatesTheSimplerOneIsTried) {
  static const costmodel::AnalyticalScorer scorer(device_);
  static search::KernelCache cache(scorer, {.keep = 8});
  kernel_ = std::make_shared<search::ExploredKernel>(*cache.explore(samples::softmax(64, 32768))->kernel);
  options_.compiled_candidates = 8;
  const std::vector<Trial> ahead = workshop()->build_ahead(kernel_);
  ASSERT_GE(ahead.size(), 2U);
  const auto effort = [](const Trial& trial) {
    const kernel::KernelProgram& program = trial.candidate.scheduled->program;
    return std::tuple(program.blocks_wait(), program.phases.size(), program.schedule.cluster);
  };
  double best = std::numeric_limits<double>::infinity();
  for (const Trial& trial : ahead) best = std::min(best, trial.built->estimated_us);
  const BuiltKernel& first = *ahead.front().built;
  EXPECT_EQ(first.equal_within_us > 0, first.estimated_us > best);
  for (const Trial& trial : ahead) {
    const bool equal = trial.built->estimated_us <= best + first.equal_within_us;
    if (first.equal_within_us > 0 && equal) {
      EXPECT_LE(effort(ahead.front()), effort(trial)) << trial.candidate.place;
    }
  }
}

}  // namespace
}  // namespace stitch::tuning
