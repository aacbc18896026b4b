// Kernels of chained products on the emulated device, beside the float64 reference.
#include "codegen/contraction/chain_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "base/random.h"
#include "tests/codegen/kernel_run.h"
#include "tests/kernel/chain_graph.h"

namespace stitch::codegen::test {
namespace {

using graph::DType;
using kernel::ChainSchedule;
using kernel::ProductChain;
using kernel::test::ChainCase;
using Kind = ChainCase::Kind;

ProductChain chain_of(const ChainCase& each) {
  auto chain = kernel::derive_chain(kernel::test::chain_graph(each));
  if (!chain) throw std::runtime_error(each.name + ": " + chain.error().message);
  return *std::move(chain);
}

ChainSchedule schedule_of(const ProductChain& chain) {
  const auto schedule = kernel::default_schedule(chain, *find_device("h100"));
  if (!schedule) throw std::runtime_error(schedule.error().message);
  return *schedule;
}

KernelCase case_of(const ProductChain& chain, const ChainSchedule& schedule) {
  const auto legal = kernel::check_legality(chain, schedule, *find_device("h100"));
  if (!legal) throw std::runtime_error(legal.error().message);
  auto kernel = generate_chain(chain, schedule, {.name = "chain", .comment = ""});
  if (!kernel) throw std::runtime_error(kernel.error().message);
  KernelCase made;
  made.graph = chain.graph;
  made.kernel = *std::move(kernel);
  return made;
}

/// Maxima of rows are above their logits, so that weights are at most 1.
std::vector<Bytes> inputs_of(const graph::Graph& graph) {
  Random random(5);
  std::vector<Bytes> inputs;
  int row_values = 0;
  for (const graph::NodeId id : graph.parameters()) {
    const graph::TensorType& type = graph.node(id).type();
    const bool of_rows = type.dtype == DType::f32 && graph.parameters().size() > 4 && type.dims.size() < 4 &&
                         graph.node(graph.parameters()[0]).type().dims.size() == type.dims.size() + 1;
    row_values += of_rows ? 1 : 0;
    std::vector<double> values(type.elements());
    for (double& value : values) {
      value = (static_cast<double>(random.below(33)) - 16) / 16;
      if (of_rows && row_values == 1) value = 2 + std::abs(value);
      if (of_rows && row_values == 2) value = 0.25 + std::abs(value) / 4;
      if (type.dtype == DType::s32) value = static_cast<double>(random.below(type.elements() * 30));  // lengths
    }
    inputs.push_back(bytes_of(type.dtype, values));
  }
  return inputs;
}

const std::vector<ChainCase> cases = {
    ChainCase{"dq", Kind::queries, {2}, 64, 128, 64, 64},
    ChainCase{"dkv", Kind::keys_and_values, {2}, 64, 128, 64, 64},
    ChainCase{"dk", Kind::keys, {2}, 64, 64, 32, 32},
    ChainCase{"dv", Kind::values, {2}, 64, 64, 32, 32},
    ChainCase{"dq_bf16_causal", Kind::queries, {1, 3}, 96, 96, 32, 32, DType::bf16, true},
    ChainCase{"dkv_bf16_causal", Kind::keys_and_values, {1, 3}, 96, 96, 32, 32, DType::bf16, true},
    ChainCase{"dq_f32", Kind::queries, {2}, 48, 80, 32, 32, DType::f32},
    ChainCase{"dkv_f32", Kind::keys_and_values, {2}, 48, 80, 32, 32, DType::f32},
    ChainCase{"dkv_f32_causal", Kind::keys_and_values, {2}, 64, 64, 16, 16, DType::f32, true},
    ChainCase{"dq_odd", Kind::queries, {3}, 37, 53, 40, 24},
    ChainCase{"dkv_odd", Kind::keys_and_values, {3}, 37, 53, 40, 24},
    ChainCase{"dq_odd_f32", Kind::queries, {2}, 21, 45, 19, 33, DType::f32},
    ChainCase{"dkv_odd_f32", Kind::keys_and_values, {2}, 21, 45, 19, 33, DType::f32},
    ChainCase{"dq_bias", Kind::queries, {2, 2}, 40, 56, 64, 64, DType::f16, false, true},
    ChainCase{"dkv_bias_f32", Kind::keys_and_values, {2, 2}, 40, 56, 16, 16, DType::f32, false, true},
    ChainCase{"dq_heads_inside", Kind::queries, {2, 3}, 40, 40, 32, 32, DType::f16, true, false, true},
    ChainCase{"dkv_heads_inside", Kind::keys_and_values, {2, 3}, 40, 24, 32, 32, DType::f32, false, false, true},
    ChainCase{"dkv_shared_heads", Kind::keys_and_values, {2, 8}, 40, 40, 32, 32, DType::bf16, true, false, false, 4},
    ChainCase{"dq_shared_heads", Kind::queries, {2, 8}, 40, 40, 32, 32, DType::bf16, true, false, false, 4},
    ChainCase{"dq_dropout", Kind::queries, {2}, 64, 96, 64, 64, DType::f16, false, false, false, 1, true},
    ChainCase{"dkv_dropout", Kind::keys_and_values, {2}, 64, 96, 64, 64, DType::bf16, true, false, false, 1, true},
    ChainCase{"dkv_dropout_odd", Kind::keys_and_values, {2}, 37, 53, 32, 32, DType::f32, false, false, true, 1, true},
    ChainCase{"dv_dropout", Kind::values, {2}, 64, 64, 32, 32, DType::f16, false, false, false, 1, true},
    ChainCase{"dq_lengths", Kind::queries, {3}, 64, 128, 32, 32, DType::f16, true, false, false, 1, false, true},
    ChainCase{
        "dkv_lengths", Kind::keys_and_values, {3}, 64, 128, 32, 32, DType::bf16, false, false, false, 1, false, true},
    ChainCase{
        "dkv_lengths_f32", Kind::keys_and_values, {3}, 40, 70, 32, 32, DType::f32, true, false, true, 1, true, true},
    ChainCase{"gelu", Kind::gelu, {2}, 70, 200, 64, 48},
    ChainCase{"gelu_f32", Kind::gelu, {1}, 33, 90, 40, 24, DType::f32},
    ChainCase{"dq_wide", Kind::queries, {1}, 32, 48, 128, 128, DType::bf16},
    ChainCase{"dq_shallow_f32", Kind::queries, {2}, 78, 67, 1, 36, DType::f32},
    ChainCase{"dkv_shallow", Kind::keys_and_values, {2}, 70, 67, 1, 1, DType::f16},
    ChainCase{"dkv_one_key", Kind::keys_and_values, {2}, 16, 1, 16, 16}};

class ChainEmulated : public testing::TestWithParam<ChainCase> {};

TEST_P(ChainEmulated, IsRight) {
  const ProductChain chain = chain_of(GetParam());
  const ChainSchedule schedule = schedule_of(chain);
  SCOPED_TRACE(to_string(chain) + "\n" + to_string(schedule));
  const KernelCase each = case_of(chain, schedule);
  expect_right(each, inputs_of(*each.graph));
}

INSTANTIATE_TEST_SUITE_P(Of, ChainEmulated, testing::ValuesIn(cases), [](const auto& each) { return each.param.name; });

/// Tiles of keys behind a length are walked by nobody.
TEST(ChainEmulated, LengthsEndWhatIsWalked) {
  for (const Kind kind : {Kind::queries, Kind::keys_and_values}) {
    const ProductChain chain =
        chain_of({"", kind, {2}, 128, 256, 32, 32, DType::f16, false, false, false, 1, false, true});
    const KernelCase each = case_of(chain, schedule_of(chain));
    std::vector<Bytes> inputs = inputs_of(*each.graph);
    const auto with_length = [&](double length) {
      for (std::size_t p = 0; p < inputs.size(); ++p) {
        const graph::TensorType& type = each.graph->node(each.graph->parameters()[p]).type();
        if (type.dtype == DType::s32) inputs[p] = bytes_of(type.dtype, std::vector<double>{length, length});
      }
      expect_right(each, inputs);
      return run(each, inputs).counters.total().warps;
    };
    const auto all = with_length(256), few = with_length(30);
    EXPECT_LT(2 * few, all);
    EXPECT_GE(10 * with_length(0), 9 * all) << "where none is shown all count alike";
  }
}

/// The first of some small schedules by wgmma that is legal; nothing: none is.
std::optional<ChainSchedule> warpgroup_schedule(const ProductChain& chain, int rows, int stages) {
  const DeviceSpec h100 = *find_device("h100");
  const auto instruction = kernel::warpgroup_instruction_for(chain, h100);
  if (!instruction) return std::nullopt;
  for (const int columns : {32, 64, 128}) {
    const ChainSchedule s{*instruction, rows, columns, 16, stages, 1};
    if (kernel::check_legality(chain, s, h100)) return s;
  }
  return std::nullopt;
}

TEST(WarpgroupChainEmulated, AreRight) {
  int made = 0;
  for (const ChainCase& each : cases) {
    for (const auto& [rows, stages] : {std::pair{64, 2}, std::pair{128, 2}, std::pair{64, 3}}) {
      const ProductChain chain = chain_of(each);
      const auto schedule = warpgroup_schedule(chain, rows, stages);
      if (!schedule) continue;
      SCOPED_TRACE(each.name + " " + to_string(chain) + "\n" + to_string(*schedule));
      const KernelCase kernel = case_of(chain, *schedule);
      EXPECT_THAT(kernel.kernel.source, testing::HasSubstr("wgmma.mma_async"));
      expect_right(kernel, inputs_of(*kernel.graph));
      ++made;
    }
  }
  EXPECT_GE(made, 15);
}

/// Without one of its waits the loop reads what is not there yet, or overwrites what others still read.
TEST(WarpgroupChainEmulated, EveryWaitIsNeeded) {
  const ProductChain chain = chain_of({"", Kind::keys_and_values, {1}, 256, 128, 64, 64, DType::bf16});
  const auto schedule = warpgroup_schedule(chain, 128, 2);
  ASSERT_TRUE(schedule);
  const KernelCase each = case_of(chain, *schedule);
  const std::vector<Bytes> inputs = inputs_of(*each.graph);
  EXPECT_THAT(launch(each, inputs).findings, testing::IsEmpty());
  const std::size_t loop = each.kernel.source.find("for (int j = 0");
  std::size_t from = loop;
  for (const std::string wait :
       {"wait_for_groups<0>();", "__syncthreads();", "wait_for_products<0>();", "wait_for_products<0>();"}) {
    KernelCase without = each;
    const std::size_t at = without.kernel.source.find(wait, from);
    ASSERT_NE(at, std::string::npos);
    without.kernel.source.replace(at, wait.size(), "");
    EXPECT_THAT(launch(without, inputs).findings, testing::Not(testing::IsEmpty())) << wait;
    if (wait.starts_with("wait_for_products")) from = at + wait.size();
  }
}

/// Tiles, warps and stages that the default schedule does not have.
struct Tiles {
  int rows, columns, warp_rows, stages;
};
class ChainTilesEmulated : public testing::TestWithParam<std::tuple<Tiles, DType, Kind>> {};

TEST_P(ChainTilesEmulated, AreRight) {
  const auto& [tiles, dtype, kind] = GetParam();
  const ProductChain chain = chain_of({"", kind, {2}, 112, 144, 32, 32, dtype, true});
  ChainSchedule schedule = schedule_of(chain);
  schedule.block_rows = tiles.rows;
  schedule.block_columns = tiles.columns;
  schedule.warp_rows = tiles.warp_rows;
  schedule.stages = tiles.stages;
  SCOPED_TRACE(to_string(chain) + "\n" + to_string(schedule));
  const KernelCase each = case_of(chain, schedule);
  expect_right(each, inputs_of(*each.graph));
}

INSTANTIATE_TEST_SUITE_P(Of, ChainTilesEmulated,
                         testing::Combine(testing::Values(Tiles{64, 16, 32, 3}, Tiles{32, 64, 16, 2},
                                                          Tiles{128, 32, 16, 1}, Tiles{16, 32, 16, 3}),
                                          testing::Values(DType::bf16, DType::f32),
                                          testing::Values(Kind::queries, Kind::keys_and_values)));

/// Without one of its waits the loop reads what is not there yet, or overwrites what others still read.
TEST(ChainKernelEmulated, EveryWaitIsNeeded) {
  for (const int stages : {1, 2, 3}) {
    for (const DType dtype : {DType::f16, DType::f32}) {
      const ProductChain chain = chain_of({"", Kind::keys_and_values, {1}, 160, 64, 16, 32, dtype});
      ChainSchedule schedule = schedule_of(chain);
      schedule.block_rows = 32;
      schedule.block_columns = 16;
      schedule.stages = stages;
      const KernelCase each = case_of(chain, schedule);
      const std::vector<Bytes> inputs = inputs_of(*each.graph);
      EXPECT_THAT(launch(each, inputs).findings, testing::IsEmpty());
      const std::string& source = each.kernel.source;
      const std::string barrier = "__syncthreads();";
      const std::size_t wait = source.find("wait_for_groups<");
      KernelCase early = each;
      early.kernel.source.replace(wait, source.find('\n', wait) - wait, "");
      EXPECT_THAT(launch(early, inputs).findings, testing::Not(testing::IsEmpty())) << early.kernel.source;
      KernelCase unordered = each;
      unordered.kernel.source.replace(source.rfind(barrier, source.find("multiply_tiles<")), barrier.size(), "");
      EXPECT_THAT(launch(unordered, inputs).findings, testing::Not(testing::IsEmpty())) << unordered.kernel.source;
      // The second result's strips lie where other warps' of the first one are.
      KernelCase mixed = each;
      mixed.kernel.source.replace(source.rfind(barrier), barrier.size(), "");
      EXPECT_THAT(launch(mixed, inputs).findings, testing::Not(testing::IsEmpty())) << mixed.kernel.source;
    }
  }
}

/// Of a causal mask about half of the tiles are not walked, from either side.
TEST(ChainKernelEmulated, HiddenTilesAreNotRead) {
  for (const Kind kind : {Kind::queries, Kind::keys_and_values}) {
    const auto reads = [&](bool causal) {
      const ProductChain chain = chain_of({"", kind, {1}, 256, 256, 32, 32, DType::f16, causal});
      ChainSchedule schedule = schedule_of(chain);
      schedule.block_rows = schedule.block_columns = 32;
      const KernelCase each = case_of(chain, schedule);
      const std::vector<Bytes> inputs = inputs_of(*each.graph);
      expect_right(each, inputs);
      return run(each, inputs).counters.async_copy_bytes;
    };
    EXPECT_LT(reads(true) * 100, reads(false) * 65);
  }
}

/// Queries, keys, values and gradients come once: what scores and second products share is one tile.
TEST(ChainKernelEmulated, WhatProductsShareIsCopiedOnce) {
  const ProductChain chain = chain_of({"", Kind::keys_and_values, {1}, 128, 64, 32, 32, DType::bf16});
  ASSERT_EQ(chain.shared_operand(0), 0);
  ASSERT_EQ(chain.shared_operand(1), 1);
  ChainSchedule schedule = schedule_of(chain);
  schedule.block_rows = 64;
  const KernelCase each = case_of(chain, schedule);
  EXPECT_EQ(run(each, inputs_of(*each.graph)).counters.async_copy_bytes, 2 * (64 + 128) * 32 * 2);
}

/// Shapes, layouts and schedules drawn by a seed; STITCH_CHAINS: how many.
TEST(ChainKernelEmulated, RandomChainsAreRight) {
  constexpr DType dtypes[] = {DType::f16, DType::bf16, DType::f32};
  constexpr Kind kinds[] = {Kind::queries, Kind::keys_and_values, Kind::keys, Kind::values, Kind::gelu};
  Random random(20261128);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  const auto extent = [&](int most) { return 1 + static_cast<std::int64_t>(random.below(most)); };
  const auto maybe = [&] { return random.below(2) == 0; };
  const char* const asked = std::getenv("STITCH_CHAINS");
  const int count = asked != nullptr ? std::atoi(asked) : 30;
  for (int i = 0; i < count; ++i) {
    ChainCase c{"", among(kinds), {extent(2), 4}, extent(100), extent(120), extent(70), extent(70)};
    c.dtype = among(dtypes);
    c.causal = maybe();
    c.bias = random.below(4) == 0;
    c.heads_inside = maybe();
    constexpr std::int64_t groups[] = {1, 2, 4};
    c.group = c.kind == Kind::gelu ? 1 : among(groups);
    const ProductChain chain = chain_of(c);
    const auto sound = kernel::default_schedule(chain, *find_device("h100"));
    if (!sound) {  // two results of f32 wider than this have no registers
      ASSERT_EQ(sound.error().kind, ErrorKind::constraint) << sound.error().message;
      ASSERT_TRUE(c.dtype == DType::f32 && chain.products.size() == 2 && std::max(c.depth, c.width) > 64)
          << to_string(chain) << ": " << sound.error().message;
      continue;
    }
    ChainSchedule schedule = *sound, drawn = schedule;
    constexpr int stages[] = {1, 2, 3}, tiles[] = {16, 32, 64}, warps[] = {16, 32};
    drawn.stages = among(stages);
    drawn.block_rows = among(tiles);
    drawn.block_columns = among(tiles);
    drawn.warp_rows = among(warps);
    const auto together = kernel::warpgroup_instruction_for(chain, *find_device("h100"));
    if (together && maybe()) {
      constexpr int rows[] = {64, 128, 192}, columns[] = {32, 64, 128};
      drawn = {*together, among(rows), among(columns), 16, 2 + static_cast<int>(random.below(2)), 1};
    }
    if (kernel::check_legality(chain, drawn, *find_device("h100"))) schedule = drawn;
    SCOPED_TRACE(fmt::format("{}: {} causal {} bias {} group {}\n{}", i, to_string(chain), c.causal, c.bias, c.group,
                             to_string(schedule)));
    const KernelCase each = case_of(chain, schedule);
    expect_right(each, inputs_of(*each.graph));
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace stitch::codegen::test
