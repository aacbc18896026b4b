// What the emulated device shows of kernels, shown again on a real one: random graphs and golden graphs are right
// there, and the same kernel leaves the same bits on both. Skipped, with the driver's own reason, where there is no
// GPU.
//
//   STITCH_TEST_DEVICE    device (default gpu:0); "emulated:counts" tries the suite itself out on any machine
//   STITCH_TEST_SOURCE    where tests/golden is, when the program was not built here
//   STITCH_TEST_RANDOM    how many random graphs (default 60)
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <span>

#include "graph/canonical.h"
#include "graph/print.h"
#include "profiler/device/emulated_device.h"
#include "profiler/verify/kernel_buffers.h"
#include "tests/base/test_folder.h"
#include "tests/graph/random_graph.h"
#include "tests/kernel/attention_graph.h"
#include "tests/kernel/example_graphs.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/devices/device_set.h"
#include "tuning/kernels/kernel_workshop.h"
#include "tuning/models/model_tuning.h"

namespace stitch::tuning {
namespace {

std::string from_environment(const char* name, const std::string& otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : otherwise;
}

class DeviceSuiteGpu : public testing::Test {
 protected:
  void SetUp() override {
    DeviceOptions where;
    where.name = from_environment("STITCH_TEST_DEVICE", "gpu:0");
    where.runner = from_environment("STITCH_RUNNER", STITCH_BINARY_DIR "/bin/stitch-runner");
    auto opened = DeviceSet::open(where, files_, clock_);
    if (!opened && opened.error().kind == ErrorKind::unavailable) GTEST_SKIP() << opened.error().message;
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    devices_ = *std::move(opened);
    TunerOptions options;
    options.stitch.keep = 3;
    options.artifact_folder = folder_ / "kernels";
    auto tuner = Tuner::create(options, devices_->verifier(), nullptr, files_, clock_);
    ASSERT_TRUE(tuner.ok()) << tuner.error().message;
    tuner_ = *std::move(tuner);
  }

  static std::vector<std::filesystem::path> golden_graphs() {
    std::vector<std::filesystem::path> graphs;
    const std::filesystem::path root = from_environment("STITCH_TEST_SOURCE", STITCH_SOURCE_DIR);
    for (const auto& folder : std::filesystem::directory_iterator(root / "tests/golden/kernels")) {
      for (const char* name : {"graph.hlo.txt", "graph.json"}) {
        if (std::filesystem::exists(folder.path() / name)) graphs.push_back(folder.path() / name);
      }
    }
    std::sort(graphs.begin(), graphs.end());
    return graphs;
  }

  TestFolder folder_;
  SystemClock clock_;
  RealFileSystem files_;
  std::unique_ptr<DeviceSet> devices_;
  std::unique_ptr<Tuner> tuner_;
};

/// Tunes one random graph per seed.
void tune_random_graphs(const Tuner& tuner, int first, int last) {
  int kernels = 0;
  for (int seed = first; seed <= last; ++seed) {
    graph::test::RandomGraphOptions options;
    options.seed = static_cast<std::uint64_t>(seed);
    options.operators = 6 + seed % 20;
    options.most_extent = seed % 3 == 0 ? 70 : 9;
    options.most_elements = seed % 3 == 0 ? 20000 : 600;
    options.arg_reduce = options.scan = 1;
    if (seed % 4 == 1) options.dtypes = {graph::DType::f32, graph::DType::bf16};
    if (seed % 4 == 2) options.dtypes = {graph::DType::f16, graph::DType::s32};
    const auto form = graph::canonicalise(graph::test::random_graph(options));
    ASSERT_TRUE(form.ok()) << form.error().message;
    const auto tuned = tuner.tune({.fragment = form->graph, .name = fmt::format("random {}", seed)});
    if (!tuned) {
      ADD_FAILURE() << "seed " << seed << ": " << tuned.error().message << "\n" << graph::to_text(form->graph);
      continue;
    }
    for (const db::Candidate& candidate : tuned->trials.candidates) {
      EXPECT_NE(candidate.outcome, db::Outcome::correctness) << "seed " << seed << ": " << candidate.detail;
      EXPECT_NE(candidate.outcome, db::Outcome::runtime) << "seed " << seed << ": " << candidate.detail;
    }
    kernels += static_cast<int>(tuned->kernels.size());
  }
  std::cout << last + 1 - first << " random graphs, " << kernels << " kernels right\n";
}

TEST_F(DeviceSuiteGpu, RandomGraphsAreRight) {
  tune_random_graphs(*tuner_, 1, std::stoi(from_environment("STITCH_TEST_RANDOM", "60")));
}

// The same graphs where there is no GPU, so that what a GPU's time is spent on is known to be right here.
class DeviceSuiteEmulated : public testing::TestWithParam<int> {};

TEST_P(DeviceSuiteEmulated, RandomGraphsAreRight) {
  const TestFolder folder;
  const SystemClock clock;
  RealFileSystem files;
  profiler::EmulatedDevice device;
  TunerOptions options;
  options.stitch.keep = 3;
  options.artifact_folder = folder / "kernels";
  const auto tuner = Tuner::create(options, device, nullptr, files, clock);
  ASSERT_TRUE(tuner.ok()) << tuner.error().message;
  tune_random_graphs(**tuner, GetParam(), GetParam() + 14);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DeviceSuiteEmulated, testing::Values(1, 16, 31, 46));

TEST_F(DeviceSuiteGpu, GoldenGraphsAreRight) {
  for (const auto& path : golden_graphs()) {
    const auto bytes = files_.read(path);
    ASSERT_TRUE(bytes.ok());
    const std::string name = path.parent_path().filename().string();
    const auto done = tune_model(*bytes, path.filename().string(), *tuner_, {}, {}, nullptr);
    ASSERT_TRUE(done.ok()) << name << ": " << done.error().message;
    EXPECT_EQ(done->report.wrong_kernels, 0) << name;
    EXPECT_TRUE(done->report.failures.empty()) << name << ": " << done->report.failures.front();
    std::cout << name << ": " << done->report.verified_kernels << " of " << done->report.kernels << " kernels right\n";
  }
}

/// Fragments that are one product or one attention: several schedules of each, on tensor cores and others, with and
/// without edges.
TEST_F(DeviceSuiteGpu, ProductsAndAttentionsAreRight) {
  using graph::DType;
  using kernel::test::AttentionCase;
  using kernel::test::Mask;
  std::vector<graph::Graph> graphs;
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    for (const bool turned : {false, true}) {
      graphs.push_back(kernel::test::matmul(dtype, 384, 256, 512, turned));
      graphs.push_back(kernel::test::matmul(dtype, 131, 77, 259, turned));
    }
    graphs.push_back(kernel::test::matmul(dtype, 64, 64, 4096, true));  // its depth is split
  }
  for (const AttentionCase& each : {AttentionCase{"", {2, 2}, 256, 256, 64, 64, DType::f16, Mask::causal},
                                    AttentionCase{"", {1, 8}, 300, 257, 128, 128, DType::bf16, Mask::none, 4},
                                    AttentionCase{"", {1, 8}, 1, 1024, 64, 64, DType::bf16, Mask::none, 8},
                                    AttentionCase{"", {2, 2}, 100, 130, 32, 32, DType::f32, Mask::bias}})
    graphs.push_back(kernel::test::attention_graph(each));
  int schedules = 0;
  for (const graph::Graph& each : graphs) {
    const auto form = graph::canonicalise(each);
    ASSERT_TRUE(form.ok());
    const int places[] = {0, 2, 3, 16};
    const auto judged = [&](const ProductKernels& kernels, const ProductTrial& trial) {
      ++schedules;
      EXPECT_FALSE(trial.failure) << kernels.best[trial.place].description << ", place " << trial.place << ": "
                                  << trial.failure->message;
    };
    const Status tried = tuner_->try_product(form->graph, places, judged);
    ASSERT_TRUE(tried.ok()) << tried.error().message;
  }
  std::cout << graphs.size() << " products and attentions, " << schedules << " schedules right\n";
}

/// What one launch leaves in the kernel's results.
std::vector<std::vector<std::byte>> results_on(profiler::Device& device, const search::ExploredKernel& kernel,
                                               const BuiltKernel& built) {
  std::vector<std::vector<std::byte>> results;
  const auto session = device.session();
  EXPECT_TRUE(session.ok()) << (session ? "" : session.error().message);
  if (!session) return results;
  const auto handle = (*session)->load(image_of(built));
  EXPECT_TRUE(handle.ok()) << (handle ? "" : handle.error().message);
  const auto inputs = profiler::make_inputs(kernel.graph, profiler::Distribution::mixed, 7);
  const auto buffers = profiler::KernelBuffers::allocate(**session, kernel.graph, built.generated, inputs);
  EXPECT_TRUE(buffers.ok()) << (buffers ? "" : buffers.error().message);
  if (!handle || !buffers) return results;
  const auto launched = (*session)->launch(*handle, buffers->shape(), buffers->arguments(true), {});
  EXPECT_TRUE(launched.ok()) << (launched ? "" : launched.error().message);
  for (std::size_t r = 0; r < kernel.graph.results().size(); ++r) {
    auto& bytes = results.emplace_back(static_cast<std::size_t>(kernel.graph.type(kernel.graph.results()[r]).bytes()));
    EXPECT_TRUE((*session)->read(buffers->output(r), 0, bytes).ok());
  }
  return results;
}

/// Largest difference of two results relative to the larger magnitude of the pair, or to an eighth of the largest
/// magnitude of all: what is left where large terms cancel (a norm's gradient) is off by units of those terms, not of
/// itself. Within 2^-17 it may then be off by 2^-20 of the largest, 8 units in its last place.
double relative_difference(const graph::TensorType& type, std::span<const std::byte> a, std::span<const std::byte> b) {
  const graph::Tensor left = graph::tensor_from_bytes(type, graph::Box::whole(type.dims), a);
  const graph::Tensor right = graph::tensor_from_bytes(type, graph::Box::whole(type.dims), b);
  double largest = 0, worst = 0;
  for (std::int64_t i = 0; i < left.elements(); ++i) {
    if (std::isfinite(left.at(i))) largest = std::max(largest, std::abs(left.at(i)));
  }
  for (std::int64_t i = 0; i < left.elements(); ++i) {
    const double x = left.at(i), y = right.at(i);
    if (x == y || (std::isnan(x) && std::isnan(y))) continue;
    worst = std::max(worst, std::abs(x - y) / std::max({std::abs(x), std::abs(y), largest / 8, 1e-300}));
  }
  return worst;
}

/// Whether what a GPU computes may differ from the emulator's in the last places: approximate instructions, of which
/// div.full does not say so, and products and sums without a rounding mode, which ptxas may fuse (PTX ISA, add and
/// mul).
bool is_approximate(const std::string& ptx) {
  const auto has = [&](const char* text) { return ptx.find(text) != std::string::npos; };
  const auto one_of = [&](const char* name) {
    return std::ranges::any_of(
        std::array{"f32 ", "f32\t", "f16 ", "f16\t", "f16x2 ", "f16x2\t", "ftz.f32 ", "ftz.f32\t"},
        [&](const char* type) { return has((std::string(name) + "." + type).c_str()); });
  };
  return has(".approx") || has("div.full.") || (one_of("mul") && (one_of("add") || one_of("sub")));
}

// The rule above, where there is no GPU.
TEST(DeviceSuite, SaysWhichKernelsMayDiffer) {
  EXPECT_FALSE(is_approximate("add.f32 \t%f1, %f2, %f3;\nfma.rn.f32 %f1, %f2, %f3, %f4;"));
  EXPECT_FALSE(is_approximate("mul.rn.f32 %f1, %f2, %f3;\nadd.rn.f32 %f1, %f2, %f3;\nmul.lo.s32 %r1, %r2, %r3;"));
  EXPECT_FALSE(is_approximate("add.f32 %f1, %f2, %f3;\nmul.wide.u32 %rd1, %r2, 4;"));
  EXPECT_TRUE(is_approximate("mul.f32 \t%f1, %f2, %f3;\nadd.ftz.f32 %f1, %f1, %f3;"));
  EXPECT_TRUE(is_approximate("div.full.f32 %f1, %f2, %f3;"));
  EXPECT_TRUE(is_approximate("rsqrt.approx.ftz.f32 %f1, %f2;"));
}

TEST(DeviceSuite, WhatCancelsIsComparedWithTheLargest) {
  const graph::TensorType type{graph::DType::f32, {3}};
  const auto difference = [&](std::array<float, 3> a, std::array<float, 3> b) {
    return relative_difference(type, std::as_bytes(std::span(a)), std::as_bytes(std::span(b)));
  };
  EXPECT_EQ(difference({8, 1, 0}, {8, 1, 0}), 0);
  EXPECT_DOUBLE_EQ(difference({8, 4, 0}, {8, 5, 0}), 0.2) << "relative to the larger of the pair";
  EXPECT_DOUBLE_EQ(difference({8, 0.25, 0}, {8, 0.125, 0}), 0.125) << "relative to an eighth of 8";
}

TEST_F(DeviceSuiteGpu, TheEmulatorAgreesBitForBit) {
  // ex2, rcp, rsqrt, sin, … of the hardware are within 2 units in the last place of f32 (CUDA C++ Programming Guide,
  // intrinsic functions), the emulator's are rounded from double: what follows them may differ by a few such units, and
  // by one of the result's own type.
  constexpr double approximate_bound = 0x1.0p-17;
  profiler::EmulatedDevice emulated;
  for (const auto& path : golden_graphs()) {
    const std::string name = path.parent_path().filename().string();
    const auto done = tune_model(*files_.read(path), path.filename().string(), *tuner_, {}, {}, nullptr);
    ASSERT_TRUE(done.ok()) << name << ": " << done.error().message;
    for (const TunedFragment& fragment : done->fragments) {
      const auto graph = graph::decode(fragment.fragment.graph, graph::Encoding::cbor);
      ASSERT_TRUE(graph.ok());
      const auto plan = tuner_->explore(*graph);
      ASSERT_TRUE(plan.ok()) << plan.error().message;
      for (const search::PlannedKernel& planned : plan->kernels) {
        const auto built = tuner_->built(planned.kernel);
        ASSERT_TRUE(built != nullptr) << name;
        const std::string& ptx = built->compiled.ptx;
        const bool unordered =
            ptx.find("red.") != std::string::npos || ptx.find("atom.global.add.f") != std::string::npos;
        if (unordered) continue;  // sums of floats in whatever order
        const auto here = results_on(emulated, *planned.kernel, *built);
        const auto there = results_on(devices_->verifier(), *planned.kernel, *built);
        ASSERT_EQ(here.size(), there.size());
        const bool approximate = is_approximate(ptx);
        for (std::size_t r = 0; r < here.size(); ++r) {
          if (here[r] == there[r]) continue;
          const graph::TensorType& type = planned.kernel->graph.type(planned.kernel->graph.results()[r]);
          const double unit = type.dtype == graph::DType::bf16  ? 0x1.0p-7
                              : type.dtype == graph::DType::f16 ? 0x1.0p-10
                                                                : 0;
          const double difference = relative_difference(type, here[r], there[r]);
          EXPECT_LE(difference, approximate ? approximate_bound + unit : 0) << name << ", result " << r;
          std::cout << name << ", result " << r << ": not the same bits, largest relative difference " << difference
                    << '\n';
        }
      }
    }
  }
}

}  // namespace
}  // namespace stitch::tuning
