// Attention kernels on the emulated device, beside the float64 reference.
#include "codegen/contraction/attention_kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "base/random.h"
#include "tests/codegen/attention_run.h"

namespace stitch::codegen::test {
namespace {

class AttentionEmulated : public testing::TestWithParam<AttentionCase> {};

TEST_P(AttentionEmulated, IsRight) {
  const AttentionProblem problem = problem_of(GetParam());
  const AttentionSchedule schedule = schedule_of(problem);
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
  const KernelCase each = case_of(problem, schedule);
  expect_attention(each, inputs_of(*each.graph));
}

AttentionCase lines_of_keys(AttentionCase each) {
  each.lines_of_keys = true;
  return each;
}

const std::vector<AttentionCase> cases = {

    AttentionCase{"f16", {2}, 64, 128, 64, 64},
    AttentionCase{"bf16", {1, 3}, 96, 96, 32, 32, DType::bf16},
    AttentionCase{"f32", {2}, 48, 80, 32, 32, DType::f32},
    AttentionCase{"odd", {3}, 37, 53, 40, 24},
    AttentionCase{"odd_f32", {2}, 21, 45, 19, 33, DType::f32},
    AttentionCase{"causal", {2}, 80, 80, 64, 64, DType::bf16, Mask::causal},
    AttentionCase{"causal_f32", {2}, 48, 48, 16, 16, DType::f32, Mask::causal},
    AttentionCase{"window", {1, 2}, 72, 72, 32, 32, DType::f16, Mask::window},
    AttentionCase{"masked_keys", {2, 2}, 40, 72, 64, 64, DType::f16, Mask::keys},
    AttentionCase{"bias", {2, 2}, 40, 56, 64, 64, DType::f32, Mask::bias},
    AttentionCase{"empty_rows", {2, 2}, 24, 40, 32, 32, DType::f16, Mask::empty_rows},
    AttentionCase{"nan_rows", {2, 2}, 24, 40, 32, 32, DType::f16, Mask::nan_rows},
    AttentionCase{"nan_rows_f32", {2, 2}, 24, 40, 32, 32, DType::f32, Mask::nan_rows},
    AttentionCase{"shared_heads", {2, 8}, 40, 40, 32, 32, DType::bf16, Mask::causal, 4},
    AttentionCase{"keys_turned", {2}, 64, 64, 32, 32, DType::f16, Mask::none, 1, true},
    AttentionCase{"keys_turned_f32", {2}, 20, 36, 32, 32, DType::f32, Mask::none, 1, true},
    AttentionCase{"heads_inside", {2, 3}, 40, 40, 32, 32, DType::f16, Mask::causal, 1, false, true},
    AttentionCase{"heads_inside_f32", {2, 3}, 40, 24, 32, 32, DType::f32, Mask::none, 1, false, true},
    AttentionCase{"divided", {2}, 32, 64, 64, 64, DType::f16, Mask::none, 1, false, false, false},
    AttentionCase{"weights_right", {2}, 32, 64, 32, 48, DType::f16, Mask::none, 1, false, false, true, true},
    AttentionCase{"narrow_logits", {2}, 32, 64, 32, 32, DType::bf16, Mask::none, 1, false, false, true, false, true},
    AttentionCase{"one_row", {4}, 1, 300, 64, 64, DType::bf16},
    AttentionCase{"one_key", {2}, 16, 1, 16, 16},
    AttentionCase{"wide", {1}, 32, 48, 128, 128, DType::bf16},
    AttentionCase{"deep_80", {1, 2}, 40, 64, 80, 80, DType::f16, Mask::none, 1, false, true},
    lines_of_keys({"lines_of_keys", {2}, 72, 136, 64, 32, DType::f16, Mask::causal}),
    with_dropout({"dropout", {2, 2}, 72, 96, 64, 64, DType::f16, Mask::causal}, Dropout::selected),
    with_dropout({"dropout_by_a_factor", {3}, 40, 64, 32, 32, DType::bf16}, Dropout::multiplied),
    with_dropout({"narrow_dropout", {2}, 64, 64, 32, 32, DType::f16, Mask::keys}, Dropout::narrow),
    with_dropout({"dropout_f32", {2}, 48, 80, 32, 32, DType::f32}, Dropout::selected),
    with_dropout({"odd_dropout", {3}, 37, 53, 40, 24}, Dropout::multiplied),
    with_dropout({"dropout_of_shared_heads", {2, 8}, 4, 72, 32, 32, DType::bf16, Mask::none, 4}, Dropout::selected),
    with_dropout(
        {"dropout_of_turned_weights", {2}, 32, 64, 32, 48, DType::f16, Mask::none, 1, false, false, true, true},
        Dropout::selected)};

std::string name_of(const testing::TestParamInfo<AttentionCase>& each) { return each.param.name; }

INSTANTIATE_TEST_SUITE_P(Of, AttentionEmulated, testing::ValuesIn(cases), name_of);

// ---- wgmma

class WarpgroupAttentionEmulated : public testing::TestWithParam<AttentionCase> {};

TEST_P(WarpgroupAttentionEmulated, IsRight) {
  const AttentionProblem problem = problem_of(GetParam());
  for (const bool overlaps : {false, true}) {
    const auto schedule = warpgroup_schedule(problem, overlaps);
    ASSERT_TRUE(schedule.has_value());
    SCOPED_TRACE(to_string(problem) + "\n" + to_string(*schedule));
    const KernelCase each = case_of(problem, *schedule);
    EXPECT_THAT(each.kernel.source, testing::HasSubstr("wgmma.mma_async"));
    expect_attention(each, inputs_of(*each.graph));
  }
}

std::vector<AttentionCase> small_types() {
  std::vector<AttentionCase> found;
  std::ranges::copy_if(cases, std::back_inserter(found),
                       [](const AttentionCase& each) { return each.dtype != DType::f32; });
  return found;
}

INSTANTIATE_TEST_SUITE_P(Of, WarpgroupAttentionEmulated, testing::ValuesIn(small_types()), name_of);

// ---- lengths and pages

/// Parameters of s32, which say lengths, segments or pages, have these values one after the other.
std::vector<Bytes> inputs_with(const graph::Graph& graph, const std::vector<double>& integers) {
  std::vector<Bytes> inputs = inputs_of(graph);
  for (std::size_t p = 0; p < inputs.size(); ++p) {
    const graph::TensorType& type = graph.node(graph.parameters()[p]).type();
    if (type.dtype != DType::s32) continue;
    std::vector<double> values(type.elements());
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = integers[i % integers.size()];
    inputs[p] = bytes_of(type.dtype, values);
  }
  return inputs;
}

std::vector<AttentionSchedule> schedules_with(const AttentionProblem& problem, int rows, int keys, int split) {
  AttentionSchedule plain = schedule_of(problem);
  plain.block_rows = rows;
  plain.warp_rows = 16;
  plain.block_keys = keys;
  plain.split = split;
  kernel::fit_accesses(problem, plain);
  std::vector<AttentionSchedule> all = {plain};
  for (const bool overlaps : {false, true}) {
    all.push_back(together_of(problem, [&](AttentionSchedule& s) {
      s.block_rows = 64;
      s.block_keys = keys;
      s.split = split;
      s.overlaps = overlaps;
    }));
  }
  return all;
}

/// Lengths that end within a tile, at its end, before the first key and beyond the last one.
TEST(AttentionKernelEmulated, LengthsEndWhatIsWalked) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const Mask mask : {Mask::lengths, Mask::causal_lengths}) {
    for (const double hidden : {-infinity, -1e9}) {
      AttentionCase attention{"", {5, 2}, 64, 128, 32, 32, DType::f16, mask};
      attention.hidden = hidden;
      const AttentionProblem problem = problem_of(attention);
      for (const int split : {1, 2}) {
        for (const AttentionSchedule& schedule : schedules_with(problem, 64, 32, split)) {
          SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
          const KernelCase each = case_of(problem, schedule);
          EXPECT_THAT(each.kernel.source, testing::HasSubstr("shown_keys("));
          expect_right(each, inputs_with(*each.graph, {33, 64, hidden == -infinity ? 1.0 : 0, 200, 128}));
        }
      }
    }
  }
}

/// What is behind a length is not read: no pages of it are asked for, and NaN there stays there.
TEST(AttentionKernelEmulated, NothingBehindALengthIsRead) {
  const AttentionProblem problem = problem_of({"", {1, 1}, 64, 256, 32, 32, DType::f16, Mask::lengths});
  for (const AttentionSchedule& schedule : schedules_with(problem, 64, 32, 1)) {
    SCOPED_TRACE(to_string(schedule));
    const KernelCase each = case_of(problem, schedule);
    std::vector<Bytes> inputs = inputs_with(*each.graph, {40});
    std::vector<Bytes> poisoned = inputs;
    std::vector<double> values(256 * 32, 0.5);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 7) / 8;
    inputs[2] = bytes_of(DType::f16, values);
    std::fill(values.begin() + 64 * 32, values.end(), std::numeric_limits<double>::quiet_NaN());
    poisoned[2] = bytes_of(DType::f16, values);
    EXPECT_EQ(run(each, inputs).results, run(each, poisoned).results);
  }
}

/// A row may see nothing of what is before the length, and then counts all keys alike: they are walked.
TEST(AttentionKernelEmulated, LengthsOfRowsThatMaySeeNothingEndNothing) {
  AttentionCase attention{"", {2, 1}, 64, 128, 32, 32, DType::f16, Mask::window_lengths};
  attention.hidden = -1e9;
  const AttentionProblem problem = problem_of(attention);
  for (AttentionSchedule schedule : schedules_with(problem, 64, 32, 1)) {
    schedule.skips = false;  // what positions hide counts for nothing, whatever lengths hide besides (visible_keys.h)
    const KernelCase each = case_of(problem, schedule);
    EXPECT_THAT(each.kernel.source, testing::Not(testing::HasSubstr("shown_keys(")));
    expect_right(each, inputs_with(*each.graph, {20, 64}));
  }
}

TEST(AttentionKernelEmulated, SegmentsAreComparedOnTheWay) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    AttentionCase attention{"", {2, 2}, 64, 64, 32, 32, dtype, Mask::segments};
    const AttentionProblem problem = problem_of(attention);
    const KernelCase each = case_of(problem, schedule_of(problem));
    expect_attention(each, inputs_with(*each.graph, {0, 0, 0, 1, 1, 2, 2, 2}));
  }
}

TEST(AttentionKernelEmulated, PagesAreReadWhereTheTableSays) {
  using kernel::test::with_pages;
  for (const AttentionCase& attention : {with_pages({"", {2, 2}, 64, 128, 32, 32, DType::f16}, 16),
                                         with_pages({"", {2, 8}, 1, 128, 64, 64, DType::bf16, Mask::lengths, 4}, 32),
                                         with_pages({"", {2, 2}, 40, 96, 32, 64, DType::f16, Mask::causal}, 8),
                                         with_pages({"", {2, 2}, 24, 64, 32, 32, DType::f32}, 16),
                                         with_pages({"", {2, 2}, 8, 40, 32, 32, DType::f16}, 1)}) {
    const AttentionProblem problem = problem_of(attention);
    ASSERT_TRUE(problem.paged_keys && problem.paged_values);
    std::vector<AttentionSchedule> schedules = {schedule_of(problem)};
    AttentionSchedule split = schedules[0];
    split.split = 2;
    if (kernel::check_legality(problem, split, *find_device("h100"))) schedules.push_back(split);
    if (const auto together = warpgroup_schedule(problem, true)) schedules.push_back(*together);
    for (const AttentionSchedule& schedule : schedules) {
      SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
      const KernelCase each = case_of(problem, schedule);
      // Pages in no order, one of them twice, and numbers beyond the cache on either side.
      expect_attention(each, inputs_with(*each.graph, {5, 0, 3, 9, 1, 3, 70, -2, 4}));
    }
  }
}

struct Together {
  std::string name;
  AttentionCase attention;
  int rows, keys, warp_rows, stages, split;
};
void PrintTo(const Together& each, std::ostream* out) { *out << each.name; }

/// More warpgroups, rows, stages and parts than the table of problems has, and every way that a tile lies.
class WarpgroupTilesEmulated : public testing::TestWithParam<Together> {};

TEST_P(WarpgroupTilesEmulated, AreRight) {
  const auto& [name, attention, rows, keys, warp_rows, stages, split] = GetParam();
  const AttentionProblem problem = problem_of(attention);
  for (const bool overlaps : {false, true}) {
    const AttentionSchedule schedule = together_of(problem, [&](AttentionSchedule& s) {
      s.block_rows = GetParam().rows;
      s.block_keys = GetParam().keys;
      s.warp_rows = GetParam().warp_rows;
      s.stages = GetParam().stages;
      s.split = GetParam().split;
      s.overlaps = overlaps;
    });
    SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
    const KernelCase each = case_of(problem, schedule);
    expect_attention(each, inputs_of(*each.graph));
  }
}

constexpr auto f16 = DType::f16, bf16 = DType::bf16;
INSTANTIATE_TEST_SUITE_P(
    Of, WarpgroupTilesEmulated,
    testing::Values(Together{"three", {"", {1}, 192, 256, 64, 64, f16, Mask::causal}, 192, 64, 16, 2, 1},
                    Together{"four", {"", {1}, 250, 250, 64, 64, bf16, Mask::causal}, 256, 64, 16, 2, 1},
                    Together{"taller", {"", {1}, 256, 192, 64, 64, f16, Mask::causal}, 128, 64, 32, 2, 1},
                    Together{"stages", {"", {1}, 64, 512, 64, 64, f16}, 64, 64, 16, 4, 1},
                    Together{"parts", {"", {1}, 128, 448, 32, 32, bf16, Mask::causal}, 64, 64, 16, 2, 3},
                    Together{"hidden_parts", {"", {1}, 256, 256, 32, 32, f16, Mask::window}, 64, 32, 16, 2, 4},
                    Together{"long_lines", {"", {1}, 128, 160, 128, 128, f16, Mask::causal}, 128, 64, 16, 2, 1},
                    Together{"longest_lines", {"", {1}, 64, 96, 256, 64, bf16}, 64, 32, 16, 2, 1},
                    Together{"widest", {"", {1}, 64, 96, 64, 256, bf16}, 64, 32, 16, 2, 1},
                    Together{"lines_of_keys", lines_of_keys({"", {2}, 64, 260, 128, 128, f16, Mask::causal}), 64, 128,
                             16, 2, 1},
                    Together{"window", {"", {1}, 256, 256, 64, 64, f16, Mask::window}, 64, 64, 16, 3, 1},
                    Together{"bias", {"", {1, 2}, 128, 192, 64, 64, f16, Mask::bias}, 128, 64, 16, 2, 1},
                    Together{"all_masked", {"", {2, 2}, 64, 128, 64, 64, f16, Mask::empty_rows}, 64, 64, 16, 2, 2}),
    [](const auto& each) { return each.param.name; });

AttentionCase hiding_by(double hidden, AttentionCase attention) {
  attention.hidden = hidden;
  return attention;
}

/// Rows that meet tiles, or parts, of which they see nothing: what hides is a constant that is far below all else, as
/// frameworks write it, and every score of such a tile is that constant.
TEST(AttentionKernelEmulated, FiniteMasksHideWholeTiles) {
  for (const double hidden : {-1e9, -1e10, -3e38}) {
    for (const Mask mask : {Mask::window, Mask::causal}) {
      const AttentionProblem problem = problem_of(hiding_by(hidden, {"", {2}, 128, 128, 64, 64, f16, mask}));
      for (const int split : {1, 2}) {
        AttentionSchedule plain = schedule_of(problem);
        plain.block_rows = 64;
        plain.warp_rows = 16;
        plain.block_keys = 32;
        plain.split = split;
        kernel::fit_accesses(problem, plain);
        const AttentionSchedule together = together_of(problem, [&](AttentionSchedule& s) {
          s.block_rows = 64;
          s.block_keys = 32;
          s.split = split;
        });
        for (const AttentionSchedule& schedule : {plain, together}) {
          SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule) + fmt::format("\n{}", hidden));
          const KernelCase each = case_of(problem, schedule);
          expect_right(each, inputs_of(*each.graph));
        }
      }
    }
  }
}

/// Every row's logits are near 0, 5, 10 and 20, tile by tile: what was summed before must follow.
TEST(AttentionKernelEmulated, SumsFollowMaximaThatGrow) {
  for (const DType dtype : {f16, bf16}) {
    const AttentionProblem problem = problem_of({"", {1}, 64, 128, 64, 64, dtype});
    AttentionSchedule plain = schedule_of(problem);
    plain.block_rows = 64;
    plain.warp_rows = 16;
    plain.block_keys = 32;
    kernel::fit_accesses(problem, plain);
    const auto together = [&](bool overlaps) {
      return together_of(problem, [&](AttentionSchedule& s) {
        s.block_rows = 64;
        s.block_keys = 32;
        s.overlaps = overlaps;
      });
    };
    for (const AttentionSchedule& schedule : {plain, together(false), together(true)}) {
      SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
      const KernelCase each = case_of(problem, schedule);
      std::vector<Bytes> inputs = inputs_of(*each.graph);
      Random random(7);
      std::vector<double> queries(64 * 64, 0.25), keys;
      constexpr double logits[] = {0, 5, 10, 20};  // of 64 · 0.25 · key · 0.125
      for (int key = 0; key < 128; ++key) {
        for (int d = 0; d < 64; ++d)
          keys.push_back(logits[key / 32] / 2 + (static_cast<double>(random.below(9)) - 4) / 16);
      }
      inputs[0] = bytes_of(dtype, queries);
      inputs[1] = bytes_of(dtype, keys);
      if (dtype == f16) expect_attention(each, inputs);  // of bf16 the bounds are wider
      expect_right(each, inputs);
      KernelCase lagging = each;
      const std::string follow = "if (grows) scale_rows(product, scale);";
      const std::size_t at = lagging.kernel.source.find(follow);
      if (at == std::string::npos) continue;  // in a header
      lagging.kernel.source.replace(at, follow.size(), "");
      EXPECT_NE(run(lagging, inputs).results, run(each, inputs).results) << "nothing had to follow";
    }
  }
}

/// Without one of its waits the loop reads what is not there yet, or overwrites what others still read; without the
/// fence what threads stored by themselves is not wgmma's to read.
TEST(WarpgroupAttentionKernelEmulated, EveryWaitIsNeeded) {
  for (const bool overlaps : {false, true}) {
    const auto small = [&](const AttentionCase& attention) {
      const AttentionProblem problem = problem_of(attention);
      return case_of(problem, together_of(problem, [&](AttentionSchedule& s) {
                       s.block_rows = 128;
                       s.block_keys = 32;
                       s.stages = 2;
                       s.overlaps = overlaps;
                     }));
    };
    const auto without = [](KernelCase each, const std::string& text, std::size_t from) {
      const std::size_t at = each.kernel.source.find(text, from);
      if (at == std::string::npos) throw std::runtime_error("no " + text);
      each.kernel.source.replace(at, text.size(), "");
      return launch(each, inputs_of(*each.graph)).findings;
    };
    const KernelCase each = small({"", {1}, 128, 256, 64, 64, f16});
    EXPECT_THAT(launch(each, inputs_of(*each.graph)).findings, testing::IsEmpty());
    const std::size_t loop = each.kernel.source.find("for (int j = 0");
    std::vector<std::string> waits = {"wait_for_groups<0>();", "__syncthreads();", "wait_for_products<0>();"};
    if (overlaps) waits.emplace_back("wait_for_products<1>();");
    for (const std::string& wait : waits)
      EXPECT_THAT(without(each, wait, loop), testing::Not(testing::IsEmpty())) << wait << " overlaps " << overlaps;
    // Copies of two bytes go through registers.
    const KernelCase stored = small({"", {1}, 128, 256, 63, 63, f16});
    EXPECT_THAT(launch(stored, inputs_of(*stored.graph)).findings, testing::IsEmpty());
    KernelCase unfenced = stored;
    const std::string fence = "share_with_wgmma();";
    for (std::size_t at = 0; (at = unfenced.kernel.source.find(fence)) != std::string::npos;)
      unfenced.kernel.source.replace(at, fence.size(), "");
    EXPECT_THAT(launch(unfenced, inputs_of(*unfenced.graph)).findings, testing::Not(testing::IsEmpty()));
  }
}

/// A tile that no mask hides anything of is not asked about: of a long causal square half as many comparisons.
TEST(WarpgroupAttentionKernelEmulated, MasksAreEvaluatedWhereTheyHide) {
  const AttentionProblem problem = problem_of({"", {1}, 512, 512, 64, 64, f16, Mask::causal});
  const KernelCase each = case_of(problem, together_of(problem, [](AttentionSchedule&) {}));
  const std::vector<Bytes> inputs = inputs_of(*each.graph);
  KernelCase asking = each;
  const std::string seen = "j >= first_seen && j < end_of_seen";
  const std::size_t at = asking.kernel.source.find(seen);
  ASSERT_NE(at, std::string::npos);
  asking.kernel.source.replace(at, seen.size(), "false");
  const auto instructions = [&](const KernelCase& kernel) {
    double all = 0;
    for (const auto& kind : run(kernel, inputs).counters.instructions) all += static_cast<double>(kind.warps);
    return all;
  };
  expect_right(each, inputs);
  expect_right(asking, inputs);
  EXPECT_LT(instructions(each), 0.85 * instructions(asking));
}

/// A lane has two neighbouring keys of each row, and reads what a bias has for them at once.
TEST(AttentionKernelEmulated, BiasesAreReadTwoKeysAtOnce) {
  const auto requests = [](Mask mask, bool together) {
    const AttentionProblem problem = problem_of({"", {1}, 128, 256, 64, 64, f16, mask});
    const AttentionSchedule schedule = together ? *warpgroup_schedule(problem, true) : schedule_of(problem);
    const KernelCase each = case_of(problem, schedule);
    return run(each, inputs_of(*each.graph)).counters.global_loads.requests;
  };
  for (const bool together : {false, true})
    EXPECT_EQ(requests(Mask::bias, together) - requests(Mask::none, together), 128 * 256 / 32 / 2) << together;
}

/// Of a batch whose keys are all masked: NaN, or 0 where the graph says so.
TEST(AttentionKernelEmulated, RowsThatSeeNothing) {
  for (const DType dtype : {DType::f16, DType::f32}) {
    for (const Mask mask : {Mask::empty_rows, Mask::nan_rows}) {
      const AttentionProblem problem = problem_of({"", {2, 2}, 24, 40, 32, 32, dtype, mask});
      const KernelCase each = case_of(problem, schedule_of(problem));
      const KernelOutcome outcome = run(each, inputs_of(*each.graph));
      const graph::TensorType& type = each.graph->type(each.graph->results()[0]);
      const graph::Tensor got = graph::tensor_from_bytes(type, graph::Box::whole(type.dims), outcome.results[0]);
      for (std::int64_t i = got.elements() / 2; i < got.elements(); ++i) ASSERT_EQ(got.at(i), 0) << i;
      EXPECT_NE(got.at(0), 0);
    }
  }
}

struct Pipelined {
  int stages, split;
  DType dtype;
  Mask mask;
};

class AttentionPipelinesEmulated : public testing::TestWithParam<Pipelined> {
 protected:
  AttentionPipelinesEmulated() {
    schedule.block_rows = 32;
    schedule.block_keys = 16;
    schedule.stages = GetParam().stages;
    schedule.split = GetParam().split;
    kernel::fit_accesses(problem, schedule);
  }
  const AttentionProblem problem = problem_of({"", {2}, 96, 112, 32, 32, GetParam().dtype, GetParam().mask});
  AttentionSchedule schedule = schedule_of(problem);
};

TEST_P(AttentionPipelinesEmulated, AreRight) {
  const KernelCase each = case_of(problem, schedule);
  expect_attention(each, inputs_of(*each.graph));
}

/// Without one of its waits the loop reads what is not there yet, or overwrites what others still read.
TEST_P(AttentionPipelinesEmulated, EveryWaitIsNeeded) {
  const KernelCase each = case_of(problem, schedule);
  const std::string& source = each.kernel.source;
  const std::string barrier = "__syncthreads();";
  const std::size_t wait = source.find("wait_for_groups<");
  KernelCase early = each;
  early.kernel.source.replace(wait, source.find('\n', wait) - wait, "");
  EXPECT_THAT(launch(early, inputs_of(*each.graph)).findings, testing::Not(testing::IsEmpty())) << early.kernel.source;
  KernelCase unordered = each;
  unordered.kernel.source.replace(source.rfind(barrier, source.find("attend<")), barrier.size(), "");
  EXPECT_THAT(launch(unordered, inputs_of(*each.graph)).findings, testing::Not(testing::IsEmpty()))
      << unordered.kernel.source;
}

INSTANTIATE_TEST_SUITE_P(
    Stages, AttentionPipelinesEmulated,
    testing::Values(Pipelined{1, 1, DType::f16, Mask::none}, Pipelined{2, 1, DType::f16, Mask::causal},
                    Pipelined{3, 1, DType::bf16, Mask::window}, Pipelined{2, 3, DType::f16, Mask::none},
                    Pipelined{3, 2, DType::bf16, Mask::causal}, Pipelined{2, 1, DType::f32, Mask::causal},
                    Pipelined{2, 2, DType::f32, Mask::window}),
    [](const auto& each) {
      return fmt::format("stages_{}_split_{}_{}_{}", each.param.stages, each.param.split,
                         graph::to_string(each.param.dtype), static_cast<int>(each.param.mask));
    });

/// Of a causal mask about half of the tiles are not walked, of a window most.
TEST(AttentionKernelEmulated, HiddenKeysAreNotRead) {
  const auto reads = [](Mask mask, bool skips) {
    const AttentionProblem problem = problem_of({"", {1}, 256, 256, 32, 32, DType::f16, mask});
    AttentionSchedule schedule = schedule_of(problem);
    schedule.block_rows = schedule.block_keys = 32;
    schedule.skips = skips;
    const KernelCase each = case_of(problem, schedule);
    const std::vector<Bytes> inputs = inputs_of(*each.graph);
    expect_right(each, inputs);
    return run(each, inputs).counters.async_copy_bytes;
  };
  EXPECT_LT(reads(Mask::causal, true) * 100, reads(Mask::causal, false) * 65);
  EXPECT_LT(reads(Mask::window, true) * 100, reads(Mask::window, false) * 40);
}

/// The last rows of a window see the last tile alone: the prologue's copies reach beyond the keys, where nothing is
/// read.
TEST(AttentionKernelEmulated, AWalkThatBeginsLateCopiesNothingBehindTheKeys) {
  const AttentionProblem problem = problem_of({"", {2}, 192, 192, 32, 32, DType::f16, Mask::window});
  AttentionSchedule schedule = schedule_of(problem);
  schedule.block_rows = 32;
  schedule.warp_rows = 16;
  schedule.block_keys = 64;
  schedule.stages = 3;
  kernel::fit_accesses(problem, schedule);
  const KernelCase each = case_of(problem, schedule);
  expect_attention(each, inputs_of(*each.graph));
}

/// Shapes, layouts, masks and schedules drawn by a seed; STITCH_ATTENTIONS: how many.
TEST(AttentionKernelEmulated, RandomProblemsAreRight) {
  constexpr DType dtypes[] = {DType::f16, DType::bf16, DType::f32};
  constexpr Mask masks[] = {Mask::none, Mask::causal,     Mask::window,   Mask::keys,
                            Mask::bias, Mask::empty_rows, Mask::nan_rows, Mask::unguarded_rows};
  Random random(20261126);
  const auto among = [&](auto&& choices) { return choices[random.below(std::size(choices))]; };
  const auto extent = [&](int most) { return 1 + static_cast<std::int64_t>(random.below(most)); };
  const auto maybe = [&] { return random.below(2) == 0; };
  const char* const asked = std::getenv("STITCH_ATTENTIONS");
  const int count = asked != nullptr ? std::atoi(asked) : 30;
  for (int i = 0; i < count; ++i) {
    AttentionCase c{"", {extent(2), 4}, extent(100), extent(140), extent(70), extent(70)};
    c.dtype = among(dtypes);
    c.mask = among(masks);
    if (c.mask == Mask::window) c.rows = c.keys = std::min(c.rows, c.keys);
    constexpr std::int64_t groups[] = {1, 2, 4};
    c.group = among(groups);
    c.keys_turned = maybe();
    c.heads_inside = maybe();
    c.reciprocal = maybe();
    c.weights_right = maybe();
    c.lines_of_keys = random.below(4) == 0;
    const bool guarded = c.mask == Mask::empty_rows || c.mask == Mask::nan_rows;
    for (const graph::ReduceKind kind : {graph::ReduceKind::max, graph::ReduceKind::sum}) {
      if (!guarded && maybe()) c.statistics.push_back(kind);
    }
    c.statistics_kept = maybe();
    c.statistics_first = maybe();
    const AttentionProblem problem = problem_of(c);
    AttentionSchedule schedule = schedule_of(problem), drawn = schedule;
    constexpr int stages[] = {1, 2, 3}, splits[] = {1, 1, 2, 3}, tiles[] = {16, 32, 64}, warps[] = {16, 32};
    drawn.stages = among(stages);
    drawn.split = among(splits);
    drawn.block_rows = among(tiles);
    drawn.block_keys = among(tiles);
    drawn.warp_rows = among(warps);
    drawn.skips = random.below(4) != 0;
    const auto together = kernel::warpgroup_instruction_for(problem, *find_device("h100"));
    if (together && maybe()) {
      drawn.instruction = *together;
      constexpr int rows[] = {64, 128, 192}, keys[] = {32, 64, 128};
      drawn.block_rows = among(rows);
      drawn.block_keys = among(keys);
      drawn.warp_rows = drawn.block_rows == 128 ? among(warps) : 16;
      drawn.stages = 2 + static_cast<int>(random.below(2));
      drawn.overlaps = maybe();
    }
    kernel::fit_accesses(problem, drawn);
    if (kernel::check_legality(problem, drawn, *find_device("h100"))) schedule = drawn;
    SCOPED_TRACE(fmt::format("{}: {} mask {} group {}\n{}", i, to_string(problem), static_cast<int>(c.mask), c.group,
                             to_string(schedule)));
    const KernelCase each = case_of(problem, schedule);
    expect_attention(each, inputs_of(*each.graph));
    if (testing::Test::HasFailure()) return;
  }
}

/// Those that are predicted to be best: everything stays in registers, and nothing is in the way of products that run
/// by themselves, or else ptxas serialises them.
TEST(WarpgroupAttentionKernel, ProductsOverlapAndNothingSpills) {
  const auto compiler = NvrtcCompiler::create();
  ASSERT_TRUE(compiler.ok());
  struct Tile {
    std::int64_t depth;
    int rows, keys, blocks;
    bool overlaps;
  };
  for (const auto& [depth, rows, keys, blocks, overlaps] :
       {Tile{64, 192, 128, 1, true}, Tile{64, 192, 128, 1, false}, Tile{64, 128, 128, 1, true},
        Tile{64, 128, 64, 2, true}, Tile{128, 128, 128, 1, true}, Tile{128, 192, 64, 1, true}}) {
    AttentionCase plain{"", {4, 8}, 1536, 1536, depth, depth, f16}, causal = plain;
    causal.mask = Mask::causal;
    const std::vector<graph::ReduceKind> both = {graph::ReduceKind::max, graph::ReduceKind::sum};
    for (const AttentionCase& attention :
         {plain, causal, with_statistics(plain, both), with_statistics(causal, both)}) {
      const AttentionProblem problem = problem_of(attention);
      const AttentionSchedule schedule =
          together_of(problem, [&, r = rows, k = keys, b = blocks, o = overlaps](auto& s) {
            s.block_rows = r;
            s.block_keys = k;
            s.blocks_per_sm = b;
            s.overlaps = o;
          });
      SCOPED_TRACE(to_string(problem) + " " + to_string(schedule));
      CompileRequest request;
      request.source = case_of(problem, schedule).kernel.source;
      request.architecture = "sm_90a";
      const auto compiled = (*compiler)->compile(request);
      ASSERT_TRUE(compiled.ok()) << compiled.error().message;
      EXPECT_FALSE(compiled->resources.spills()) << compiled->resources.describe();
      EXPECT_THAT(compiled->log, testing::Not(testing::HasSubstr("serialized"))) << compiled->log;
    }
  }
}

/// What the schedule counts on: everything stays in registers.
TEST(AttentionKernelEmulated, DefaultSchedulesDoNotSpill) {
  const auto compiler = NvrtcCompiler::create();
  ASSERT_TRUE(compiler.ok());
  for (const char* target : {"a100", "l4", "h100"}) {
    for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
      for (const std::int64_t depth : {64, 128}) {
        const AttentionProblem problem = problem_of({"", {4, 8}, 1024, 1024, depth, depth, dtype, Mask::causal});
        const DeviceSpec device = *find_device(target);
        const auto schedule = kernel::default_schedule(problem, device);
        ASSERT_TRUE(schedule.ok()) << schedule.error().message;
        SCOPED_TRACE(fmt::format("{} {}", target, to_string(*schedule)));
        const auto kernel = generate_attention(problem, *schedule, {});
        ASSERT_TRUE(kernel.ok());
        CompileRequest request;
        request.source = kernel->source;
        request.architecture = device.architecture();
        const auto compiled = (*compiler)->compile(request);
        ASSERT_TRUE(compiled.ok()) << compiled.error().message;
        EXPECT_FALSE(compiled->resources.spills()) << compiled->resources.describe();
        RecordProperty(std::string(target), compiled->resources.describe());
      }
    }
  }
}

}  // namespace
}  // namespace stitch::codegen::test
