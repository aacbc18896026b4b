// Whole kernels, as the code generator and its users write them, against the same sums on the host
// (tests/data/emulator/elementwise.cu, reductions.cu). Every kernel must be free of findings, for any number of host
// threads and for a sample of the blocks.
#include <gmock/gmock.h>
#include <oneapi/tbb/global_control.h>

#include <cmath>
#include <numeric>
#include <set>

#include "tests/emulator/kernel_run.h"

namespace stitch::emulator {
namespace {

using test::get;
using test::load_kernel;
using test::make;
using test::noise;
using test::put;
using test::run;
using test::run_clean;
using test::shape;

void expect_near(const std::vector<float>& got, const std::vector<double>& wanted, double relative) {
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], wanted[i], relative * std::max(1.0, std::abs(wanted[i]))) << "element " << i;
  }
}

double total(const std::vector<float>& x, std::size_t begin, std::size_t end) {
  return std::accumulate(x.begin() + static_cast<std::ptrdiff_t>(begin), x.begin() + static_cast<std::ptrdiff_t>(end),
                         0.0);
}

LaunchOptions threads(int count) {
  LaunchOptions options;
  options.host_threads = count;
  return options;
}

/// More host threads than the machine has cores, so that they are interrupted anywhere.
class ManyHostThreads : public testing::Environment {
 public:
  void SetUp() override { control_.emplace(tbb::global_control::max_allowed_parallelism, 8); }
  void TearDown() override { control_.reset(); }

 private:
  std::optional<tbb::global_control> control_;
};
const testing::Environment* const many_host_threads = testing::AddGlobalTestEnvironment(new ManyHostThreads);

class SampleKernels : public testing::TestWithParam<int> {
 protected:
  Memory memory_;
  LaunchOptions options_ = threads(GetParam());
};
INSTANTIATE_TEST_SUITE_P(HostThreads, SampleKernels, testing::Values(1, 2, 5));

TEST_P(SampleKernels, GeluWithBias) {
  const std::vector<float> x = noise(4 * 1000, 1), b = noise(4 * 50, 2);
  const Buffer y = make(memory_, "y", x.size() * 4);
  ParameterBlock parameters;
  parameters.add(y).add(put(memory_, "x", x)).add(put(memory_, "b", b)).add(1000).add(50);
  const LaunchReport report =
      run_clean(load_kernel("elementwise", "gelu_bias"), shape(4, 256), parameters, memory_, options_);
  std::vector<double> wanted;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double t = static_cast<double>(x[i]) + b[i % b.size()];
    wanted.push_back(t / (1.0 + std::exp(-2.0 * 0.7978845608 * (t + 0.044715 * t * t * t))));
  }
  expect_near(get<float>(memory_, y), wanted, 1e-5);
  EXPECT_EQ(memory_.written_ranges(y), (std::vector<ByteRange>{{0, x.size() * 4}}));
  // 31 whole warps of 512 bytes and a last one of 8 lanes.
  EXPECT_EQ(report.counters.global_stores, (GlobalTraffic{32, 500, 500, 500}));
}

TEST_P(SampleKernels, ScaleBf16) {
  std::vector<std::uint16_t> x(8 * 100);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::uint16_t>(0x3f80 + i % 128);
  const Buffer y = make(memory_, "y", x.size() * 2);
  ParameterBlock parameters;
  parameters.add(y).add(put(memory_, "x", x)).add(2.0F).add(100);
  run_clean(load_kernel("elementwise", "scale_bf16"), shape(2, 64), parameters, memory_, options_);
  std::vector<std::uint16_t> wanted = x;
  for (std::uint16_t& bits : wanted) bits = static_cast<std::uint16_t>(bits + 0x80);  // the exponent's lowest bit
  EXPECT_EQ(get<std::uint16_t>(memory_, y), wanted);
}

struct Entry {
  std::uint64_t data;
  std::uint64_t gradient;
  int length;
  int first_block;
};
struct Table {
  int count = 0;
  int pad = 0;
  Entry entries[1300] = {};
};

TEST_P(SampleKernels, PackedUpdateOfManyTensors) {
  Table table;
  std::vector<Buffer> buffers;
  std::vector<std::vector<float>> data, gradients;
  std::uint32_t blocks = 0;
  for (int i = 0; i < 60; ++i) {
    const int length = 1 + i * 37 % 700;
    data.push_back(noise(static_cast<std::size_t>(length), static_cast<std::uint64_t>(i)));
    gradients.push_back(noise(static_cast<std::size_t>(length), static_cast<std::uint64_t>(i) + 1000));
    buffers.push_back(put(memory_, "data" + std::to_string(i), data.back()));
    const Buffer gradient = put(memory_, "gradient" + std::to_string(i), gradients.back());
    table.entries[table.count++] = {buffers.back().address, gradient.address, length, static_cast<int>(blocks)};
    blocks += (static_cast<std::uint32_t>(length) + 127) / 128;
  }
  ParameterBlock parameters;
  parameters.add(table).add(0.5F);
  run_clean(load_kernel("elementwise", "packed_update"), shape(blocks, 128), parameters, memory_, options_);
  for (std::size_t i = 0; i < data.size(); ++i) {
    std::vector<float> wanted = data[i];
    for (std::size_t k = 0; k < wanted.size(); ++k) wanted[k] = std::fma(-0.5F, gradients[i][k], wanted[k]);
    EXPECT_EQ(get<float>(memory_, buffers[i]), wanted) << "tensor " << i;
  }
}

template <class T>
void transpose(Memory& memory, const char* kernel, const LaunchOptions& options) {
  constexpr std::uint32_t rows = 70, columns = 45;
  std::vector<T> x(std::size_t{rows} * columns);
  std::iota(x.begin(), x.end(), T(1));
  const Buffer y = make(memory, "y", x.size() * sizeof(T));
  ParameterBlock parameters;
  parameters.add(y).add(put(memory, "x", x)).add(int{rows}).add(int{columns});
  LaunchConfig config = shape(2, 32);
  config.grid.y = 3;
  config.block.y = 8;
  const LaunchReport report = run_clean(load_kernel("elementwise", kernel), config, parameters, memory, options);
  std::vector<T> wanted(x.size());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) wanted[c * rows + r] = x[r * columns + c];
  }
  EXPECT_EQ(get<T>(memory, y), wanted);
  EXPECT_EQ(report.counters.shared_extra_wavefronts, 0U);
}
TEST_P(SampleKernels, TransposeF32) { transpose<std::uint32_t>(memory_, "transpose", options_); }
TEST_P(SampleKernels, TransposeBf16) { transpose<std::uint16_t>(memory_, "transpose_bf16", options_); }

TEST_P(SampleKernels, SoftmaxByWarps) {
  constexpr std::size_t rows = 13, columns = 77;
  const std::vector<float> x = noise(rows * columns, 3);
  const Buffer y = make(memory_, "y", x.size() * 4);
  ParameterBlock parameters;
  parameters.add(y).add(put(memory_, "x", x)).add(int{rows}).add(int{columns});
  run_clean(load_kernel("reductions", "softmax_warp"), shape(4, 128), parameters, memory_, options_);
  std::vector<double> wanted;
  for (std::size_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (std::size_t c = 0; c < columns; ++c) sum += std::exp(static_cast<double>(x[r * columns + c]));
    for (std::size_t c = 0; c < columns; ++c) wanted.push_back(std::exp(static_cast<double>(x[r * columns + c])) / sum);
  }
  expect_near(get<float>(memory_, y), wanted, 1e-6);
}

TEST_P(SampleKernels, LayerNormByBlocks) {
  constexpr std::size_t rows = 5, columns = 300;
  const std::vector<float> x = noise(rows * columns, 4), gamma = noise(columns, 5), beta = noise(columns, 6);
  const Buffer y = make(memory_, "y", x.size() * 4);
  ParameterBlock parameters;
  parameters.add(y).add(put(memory_, "x", x)).add(put(memory_, "gamma", gamma)).add(put(memory_, "beta", beta));
  parameters.add(int{columns}).add(1e-5F);
  const LaunchReport report =
      run_clean(load_kernel("reductions", "layer_norm"), shape(rows, 128, columns * 4), parameters, memory_, options_);
  std::vector<double> wanted;
  for (std::size_t r = 0; r < rows; ++r) {
    const double mean = total(x, r * columns, (r + 1) * columns) / columns;
    double square = 0;
    for (std::size_t c = 0; c < columns; ++c) square += (x[r * columns + c] - mean) * (x[r * columns + c] - mean);
    const double scale = 1 / std::sqrt(square / columns + 1e-5);
    for (std::size_t c = 0; c < columns; ++c) {
      wanted.push_back((x[r * columns + c] - mean) * scale * gamma[c] + beta[c]);
    }
  }
  expect_near(get<float>(memory_, y), wanted, 2e-6);
  EXPECT_EQ(report.counters.block_barriers, 4 * rows);
}

TEST_P(SampleKernels, ColumnSumsByTheLastBlock) {
  constexpr std::size_t rows = 100, columns = 64;
  const std::vector<float> x = noise(rows * columns, 7);
  std::vector<double> wanted(columns);
  for (std::size_t i = 0; i < x.size(); ++i) wanted[i % columns] += x[i];
  struct Row {
    const char* kernel;
    std::optional<Detector> expected;
    const char* message = "";
  };
  const Row table[] = {
      {"column_sum_acq_rel", {}},
      {"column_sum_fence", {}},
      {"column_sum_fence_before", {}},
      {"column_sum_unfenced", Detector::missing_fence,
       "are ordered only by relaxed atomics: a fence or .release/.acquire is missing"},
      {"column_sum_no_barrier", Detector::global_race, "are not ordered"},
  };
  for (const Row& row : table) {
    const Buffer y = make(memory_, "y", columns * 4), scratch = make(memory_, "scratch", 6 * columns * 4);
    ParameterBlock parameters;
    parameters.add(y).add(put(memory_, "x", x)).add(scratch).add(make(memory_, "counter", 4, Contents::zero()));
    parameters.add(int{rows}).add(int{columns});
    const LaunchReport report =
        run(load_kernel("reductions", row.kernel), shape(6, columns), parameters, memory_, options_);
    EXPECT_TRUE(report.completed);
    if (row.expected) {
      // What else goes wrong, and the result, depend on the interleaving.
      EXPECT_THAT(report.findings, testing::Contains(testing::Field(&Finding::detector, *row.expected))) << row.kernel;
      EXPECT_THAT(test::findings_text(report), testing::HasSubstr(row.message));
      continue;
    }
    EXPECT_TRUE(report.clean()) << row.kernel << "\n" << test::findings_text(report);
    expect_near(get<float>(memory_, y), wanted, 1e-5);
  }
}

TEST_P(SampleKernels, BarriersOfTheWholeGrid) {
  constexpr std::size_t n = 5000;
  constexpr std::uint32_t blocks = 12;
  const std::vector<float> x = noise(n, 8);
  for (const bool racy : {false, true}) {
    if (racy && GetParam() > 1) continue;  // whether a race happens is then a matter of the interleaving
    const Buffer data = put(memory_, "x", x);
    ParameterBlock parameters;
    parameters.add(data).add(make(memory_, "partial", blocks * 4)).add(make(memory_, "counter", 4, Contents::zero()));
    parameters.add(int{n}).add(3);
    const LaunchReport report = run(load_kernel("reductions", racy ? "grid_normalise_racy" : "grid_normalise"),
                                    shape(blocks, 64), parameters, memory_, options_);
    EXPECT_TRUE(report.completed);
    EXPECT_EQ(report.findings.empty(), !racy) << test::findings_text(report);
    for (const Finding& finding : report.findings) EXPECT_EQ(finding.detector, Detector::global_race);
    if (racy) continue;
    std::vector<double> wanted(x.begin(), x.end());
    for (double& value : wanted) value -= total(x, 0, n) / n;
    expect_near(get<float>(memory_, data), wanted, 1e-5);
  }
}

TEST_P(SampleKernels, MeanOverAClusterOfBlocks) {
  constexpr std::size_t rows = 3, columns = 512;
  const std::vector<float> x = noise(rows * columns, 9);
  const Buffer y = make(memory_, "y", x.size() * 4);
  ParameterBlock parameters;
  parameters.add(y).add(put(memory_, "x", x)).add(int{columns});
  LaunchConfig config = shape(4 * rows, 64);
  config.cluster.x = 4;
  const LaunchReport report =
      run_clean(load_kernel("reductions", "cluster_mean"), config, parameters, memory_, options_);
  std::vector<double> wanted;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t row = i / columns;
    wanted.push_back(x[i] - total(x, row * columns, (row + 1) * columns) / columns);
  }
  expect_near(get<float>(memory_, y), wanted, 1e-5);
  EXPECT_EQ(report.counters.cluster_barriers, 2 * rows);
  // Two warps of each block read from three others; the own block's memory is not another's.
  EXPECT_EQ(report.counters.distributed_shared_requests, rows * 4 * 2 * 3);
}

TEST_P(SampleKernels, ScanPassedFromBlockToBlock) {
  constexpr std::uint32_t n = 300;
  const std::vector<float> x = noise(n, 10);
  const Buffer y = make(memory_, "y", n * 4);
  ParameterBlock parameters;
  parameters.add(y).add(put(memory_, "x", x)).add(make(memory_, "carry", n * 4));
  parameters.add(make(memory_, "flags", n * 4, Contents::zero()));
  run_clean(load_kernel("reductions", "chained_scan"), shape(n, 64), parameters, memory_, options_);
  std::vector<double> wanted;
  double sum = 0;
  for (const float value : x) wanted.push_back(sum += value);
  expect_near(get<float>(memory_, y), wanted, 1e-5);
}

TEST_P(SampleKernels, SampledBlocksOfALargeGridTouchOnlyTheirPages) {
  constexpr std::uint64_t bytes = std::uint64_t{4} << 30;
  const Buffer x = make(memory_, "x", bytes, Contents::lazy([](std::uint64_t offset, std::span<std::byte> page) {
                          for (std::size_t i = 0; i < page.size(); i += 4) {
                            const float value = static_cast<float>((offset + i) / 4 % 1000) / 1000.0F;
                            std::memcpy(page.data() + i, &value, 4);
                          }
                        }));
  const Buffer y = make(memory_, "y", bytes);
  const std::vector<float> b(4, 0.0F);
  ParameterBlock parameters;
  const std::uint32_t vectors = bytes / 16;
  parameters.add(y).add(x).add(put(memory_, "b", b)).add(static_cast<int>(vectors)).add(1);
  const std::uint64_t last = vectors / 256 - 1;
  const std::vector<std::uint64_t> blocks = {0, 7, last / 2, last};
  options_.blocks = blocks;
  const LaunchReport report =
      run_clean(load_kernel("elementwise", "gelu_bias"), shape(vectors / 256, 256), parameters, memory_, options_);
  EXPECT_EQ(report.counters.blocks, blocks.size());
  std::vector<ByteRange> wanted;
  for (const std::uint64_t block : blocks) wanted.push_back({block * 4096, 4096});
  EXPECT_EQ(memory_.written_ranges(y), wanted);
  std::vector<float> values(1024);
  ASSERT_TRUE(memory_.read(y.address + last * 4096, std::as_writable_bytes(std::span(values))).ok());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double t = static_cast<float>((last * 1024 + i) % 1000) / 1000.0F;
    ASSERT_NEAR(values[i], t / (1.0 + std::exp(-2.0 * 0.7978845608 * (t + 0.044715 * t * t * t))), 1e-5);
  }
}

// Everything that a launch reports, except the counts of loops that wait, is the same for any number of host threads.
TEST(HostThreads, ReportsAreEqual) {
  std::optional<LaunchReport> first;
  std::vector<float> first_result;
  const std::vector<float> x = noise(40 * 300, 11), weights = noise(300, 12);
  for (const int count : {1, 2, 3, 8}) {
    Memory memory;
    const Buffer y = make(memory, "y", x.size() * 4);
    ParameterBlock parameters;
    parameters.add(y).add(put(memory, "x", x)).add(put(memory, "gamma", weights)).add(put(memory, "beta", weights));
    parameters.add(300).add(1e-5F);
    const LaunchReport report =
        run(load_kernel("reductions", "layer_norm"), shape(40, 96, 1200), parameters, memory, threads(count));
    if (!first) {
      first = report;
      first_result = get<float>(memory, y);
    }
    EXPECT_EQ(report.counters, first->counters) << to_text(report.counters);
    EXPECT_EQ(report.buffers, first->buffers);
    EXPECT_EQ(get<float>(memory, y), first_result);
  }
}

// With one host thread blocks take effect in the order in which they start.
TEST(ShuffledBlocks, StartInTheSeedsOrder) {
  const auto taken = [&](std::uint64_t seed, int count) {
    Memory memory;
    LaunchOptions options = threads(count);
    options.shuffle_seed = seed;
    const Buffer order = make(memory, "order", 4 * 64), next = make(memory, "next", 4, Contents::zero());
    ParameterBlock parameters;
    parameters.add(order).add(next);
    const Program program = *Program::load(R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry take_numbers(.param .u64 order, .param .u64 next) {
  .reg .u32 %r<4>; .reg .u64 %d<4>;
  ld.param.u64 %d0, [order]; ld.param.u64 %d1, [next];
  mov.u32 %r0, %ctaid.x;
  atom.global.add.u32 %r1, [%d1], 1;
  mul.wide.u32 %d2, %r1, 4;
  add.u64 %d2, %d0, %d2;
  st.global.u32 [%d2], %r0;
  ret;
})",
                                           "take_numbers");
    const LaunchReport report = run(program, shape(64, 1), parameters, memory, options);
    EXPECT_TRUE(report.clean()) << test::findings_text(report);
    return get<std::uint32_t>(memory, order);
  };
  std::vector<std::uint32_t> ascending(64);
  std::iota(ascending.begin(), ascending.end(), 0U);
  EXPECT_EQ(taken(0, 1), ascending);
  std::set<std::vector<std::uint32_t>> orders;
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    std::vector<std::uint32_t> drawn = taken(seed, 1);
    EXPECT_EQ(drawn, taken(seed, 1)) << "seed " << seed;
    EXPECT_TRUE(orders.insert(drawn).second) << "seed " << seed;
    std::ranges::sort(drawn);
    EXPECT_EQ(drawn, ascending) << "every block runs once";
  }
}

TEST(HostThreads, FindingsAreEqual) {
  std::optional<LaunchReport> first;
  const std::vector<float> x = noise(1000, 13);
  for (const int count : {1, 2, 8}) {
    Memory memory;
    ParameterBlock parameters;
    parameters.add(make(memory, "y", 4000)).add(put(memory, "x", x)).add(1000);
    const LaunchReport report =
        run(load_kernel("faults", "bounds_bad"), shape(40, 64), parameters, memory, threads(count));
    if (!first) first = report;
    EXPECT_FALSE(report.findings.empty());
    EXPECT_EQ(report.findings, first->findings);
    EXPECT_EQ(report.total_findings, first->total_findings);
  }
}

}  // namespace
}  // namespace stitch::emulator
