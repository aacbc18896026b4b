#include "profiler/verify/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/measure/counted_device.h"
#include "profiler/verify/block_sample.h"
#include "tests/profiler/forwarding_session.h"
#include "tests/profiler/kernel_case.h"
#include "tests/profiler/sample_graphs.h"

namespace stitch::profiler::test {
namespace {

using graph::ReduceKind;
using kernel::Sync;

/// The last block finishes the partial results tile by tile, its warps exchanging theirs in each.
bool finished_in_a_loop(const kernel::KernelProgram& p) {
  return phases(2, Sync::last_block)(p) && p.phases[1].tiles > 1 && p.phases[1].groups[0].exchange_bytes > 0;
}

/// So many slabs, of which all or a part stays on chip.
Wish slabs(std::int64_t count, double least_share, double most_share) {
  return [=](const kernel::KernelProgram& p) {
    const auto& kept = p.phases[0].groups[0].retained;
    return p.schedule.slabs.count == count && !kept.empty() && kept[0].share >= least_share &&
           kept[0].share <= most_share;
  };
}

struct Example {
  std::string name;
  std::function<Result<Graph>()> graph;
  Wish wish = any;
  bool can_be_sampled = true;
  std::int64_t shared_per_sm = 0;  ///< 0: an H100's
};

/// An H100 with less shared memory, of which less is enough to meet its limits.
DeviceSpec small_chip(std::int64_t shared_per_sm) {
  DeviceSpec device = *find_device("h100");
  device.shared_per_sm = shared_per_sm;
  device.shared_per_block = shared_per_sm - device.shared_reserved_per_block;
  return device;
}

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

bool gated(const kernel::KernelProgram& p) { return std::ranges::count(p.schedule.syncs, Sync::gate) > 0; }

/// Partial results of blocks that walk together, the second time from the end.
bool walking_together_and_back(const kernel::KernelProgram& p) {
  const auto together = [&](std::size_t phase) {
    return p.phases.size() > phase && p.phases[phase].tiles > 8 && !p.is_looped(phase) &&
           std::ranges::any_of(p.phases[phase].groups[0].mapping.axes, [](const kernel::AxisMapping& axis) {
             return axis.interleaved && axis.at(kernel::Level::grid) > 1;
           });
  };
  return together(0) && together(2) && p.phases[2].backwards;
}

/// Blocks keep a part of what the first phase loads, and find it in `users` later ones.
Wish retaining(int users, double least_share, double most_share) {
  return [=](const kernel::KernelProgram& p) {
    int found = 0;
    for (std::size_t phase = 1; phase < p.phases.size(); ++phase) {
      for (const kernel::GroupProgram& group : p.phases[phase].groups)
        found += static_cast<int>(std::ranges::count(group.retained, false, &kernel::RetainedLoad::fills));
    }
    const auto& kept = p.phases[0].groups[0].retained;
    return found == users && kept.size() == 1 && kept[0].share >= least_share && kept[0].share <= most_share;
  };
}

std::vector<Example> examples() {
  return {
      {"element_wise", [] { return scaled_sum({100003}); }},
      {"element_wise_bf16",
       [] {
         return scaled_sum({300, 257}, DType::bf16);
       }},
      {"softmax", [] { return softmax(257, 300); }, one_phase},
      {"softmax_cluster", [] { return softmax(40, 8192); }, clustered},
      {"norm_backward_last_block_loops", [] { return norm_backward(2048, 250); }, finished_in_a_loop},
      {"norm_backward_barrier", [] { return norm_backward(2048, 250); }, phases(2, Sync::barrier)},
      {"channel_sum",
       [] {
         return channel_reduction(ReduceKind::sum, {256, 8, 100});
       },
       phases(2, Sync::last_block)},
      {"channel_max",
       [] {
         return channel_reduction(ReduceKind::max, {256, 8, 100});
       },
       phases(2, Sync::barrier)},
      {"channel_product",
       [] {
         return channel_reduction(ReduceKind::product, {256, 8, 100});
       },
       phases(2, Sync::last_block)},
      {"channel_min_s32",
       [] {
         return channel_reduction(ReduceKind::min, {256, 8, 100}, DType::s32);
       },
       phases(2, Sync::last_block)},
      {"gate", [] { return divided_by_norm(192'000); }, gated},
      {"gathered_behind_a_gate", [] { return divided_by_norms(700, 1000); },
       [](const kernel::KernelProgram& p) { return gated(p) && p.schedule.gathered > 0 && p.schedule.retained == 0; },
       false},
      // Beyond a megabyte the second walk goes the other way round.
      {"backwards", [] { return divided_by_norm(2'000'000); },
       [](const kernel::KernelProgram& p) {
         return gated(p) && p.phases[2].backwards && p.phases[2].tiles > p.blocks;
       }},
      // What is stored is in nobody's way in L2.
      {"passing", [] { return divided_by_norm(4'200'001); },
       [](const kernel::KernelProgram& p) { return gated(p) && !p.phases[2].passing.buffers.empty(); }},
      {"walking_together_and_back", [] { return centred_columns(10'001, 100); }, walking_together_and_back},
      {"retained_whole", [] { return divided_by_norm(300'003); }, retaining(1, 1, 1)},
      {"retained_in_part", [] { return divided_by_norm(2'000'001); }, retaining(1, 0.1, 0.9), true, 1 << 15},
      {"retained_for_two", [] { return centred_columns(10'001, 100); }, retaining(2, 0.1, 0.9), true, 1 << 14},
      {"retained_two_inputs", [] { return divided_products(1'300'001); },
       [](const kernel::KernelProgram& p) {
         const auto& kept = p.phases[0].groups[0].retained;
         return kept.size() == 2 && kept[0].share == 1 && kept[1].share > 0.1 && kept[1].share < 0.9;
       },
       true, 88 << 10},
      {"retained_rows", [] { return centred_rows(2'001, 500); }, retaining(1, 0.1, 0.9), false, 1 << 15},
      {"retained_rows_bf16", [] { return centred_rows(2'001, 500, DType::bf16); }, retaining(1, 0.1, 0.9), false,
       1 << 14},
      {"slabs", [] { return centred_columns(20'002, 96); }, slabs(3, 1, 1), true, 1 << 15},
      {"slabs_kept_in_part", [] { return centred_columns(10'001, 96); }, slabs(2, 0.1, 0.9), true, 1 << 14},
      {"slabs_across_memory",
       [] {
         return centred_channels({100, 24, 1'001});
       },
       slabs(4, 0.4, 0.8), true, 1 << 15},
      {"slabs_bf16",
       [] {
         return centred_channels({500, 4, 1'000}, DType::bf16);
       },
       slabs(2, 0.1, 1), true, 1 << 15},
      {"slabs_of_two_tensors", [] { return weighted_columns(16'000, 64); },
       [](const kernel::KernelProgram& p) {
         const auto& kept = p.phases[0].groups[0].retained;
         return p.schedule.slabs.count > 1 && kept.size() == 2 && kept[0].share == 1 && kept[1].share == 1;
       },
       true, 1 << 15},
      {"slabs_of_a_channel",
       [] {
         return centred_channels({120, 6, 4'000});
       },
       [](const kernel::KernelProgram& p) { return p.schedule.slabs.count == 6; }, true, 1 << 15},
      {"slabs_and_packed_results",
       [] {
         return centred_channels_and_squares({120, 6, 4'000});
       },
       [](const kernel::KernelProgram& p) { return p.schedule.slabs.count == 6; }, true, 1 << 15},
      {"scan", [] { return scanned(300, 100); }, any, false},
      {"scan_behind_a_sum", [] { return scanned_share(512, 1024); }, gated},
      {"transpose",
       [] {
         return transposed({300, 700}, {1, 0});
       }},
      {"transpose_3d_bf16",
       [] {
         return transposed({20, 70, 96}, {2, 0, 1}, DType::bf16);
       }},
      {"rotated_pairs", [] { return rotated_pairs(300, 48); }},
      {"gather", [] { return looked_up(500, 96, 300); }},
      {"picked", [] { return picked(3000, 100); }},
      {"scatter", [] { return scattered(300, 64, 40); }},
      {"packed", [] { return packed(5); }},
  };
}

/// A cluster's exchange in a group that leaves threads of its blocks idle.
bool idle_in_a_cluster(const kernel::KernelProgram& p) {
  for (const kernel::PhaseProgram& phase : p.phases) {
    for (const kernel::GroupProgram& group : phase.groups) {
      const bool crosses = std::ranges::any_of(
          group.reductions, [](const kernel::ReductionPlan& plan) { return plan.cluster > 1 && plan.exchange > 1; });
      if (crosses && group.threads < p.schedule.threads) return true;
    }
  }
  return false;
}

// A group that needs fewer threads than another one of its kernel: those that are idle have digits like the others'.
TEST(VerifyClustersEmulated, IdleThreadsKeepOutOfTheExchange) {
  search::StitchOptions space;
  space.keep = 20'000;
  space.combinations = 8;
  const KernelCase each = make_case(norm_backward(24, 64), idle_in_a_cluster, space);
  const Verification verification = verify(each);
  EXPECT_TRUE(verification.correct) << verification.failure << "\n" << each.kernel.source;
}

/// Likes rows that are copied to shared memory and held there between sweeps, as few as may be at a time.
class CopyingScorer final : public search::Scorer {
 public:
  [[nodiscard]] double predict_us(const graph::Graph&, const kernel::KernelProgram& program) const override {
    const kernel::GroupProgram& group = program.phases[0].groups[0];
    const double held = static_cast<double>(group.held_bytes) / 1e6;
    return group.sweeps.size() == 1 || !group.sweeps[0].copied.empty() ? 1 + held : 2;
  }
  [[nodiscard]] search::Score explain(const graph::Graph&, const kernel::KernelProgram&) const override { return {}; }
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }

 private:
  DeviceSpec device_ = small_chip(1 << 16);
};

// Rows that are walked by an inner loop lie in the same place for the sweeps of their own phase, and for the next
// phase, whose loop over the row is an outer one.
TEST(VerifyRetainedEmulated, RowsHeldBetweenSweepsAreFoundByALaterPhase) {
  const auto copied_and_retained = [](const kernel::KernelProgram& p) {
    const kernel::GroupProgram& group = p.phases[0].groups[0];
    return retaining(1, 0.05, 0.9)(p) && !group.sweeps[0].copied.empty() && !group.inner_loops.empty() &&
           p.phases.back().groups[0].outer_loops != group.outer_loops;
  };
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const KernelCase each =
        make_case(centred_rows(300, 4'004, dtype), copied_and_retained, {.keep = 1000}, CopyingScorer());
    const Verification verification = verify(each);
    EXPECT_TRUE(verification.correct) << verification.failure << "\n" << each.kernel.source;
  }
}

// A sample compares what was written; that a slab was left out is seen all the same.
TEST(VerifySlabsEmulated, ASampleMissesNoSlab) {
  const KernelCase each =
      mutated(make_case(centred_columns(20'002, 96), slabs(3, 1, 1), {.keep = 1000}, GridScorer(small_chip(1 << 15))),
              "slab < 3", "slab < 2");
  VerifyOptions options;
  options.work_budget = kernel_work(each.program) / 8;
  const Verification verification = verify(each, options);
  EXPECT_FALSE(verification.correct);
  EXPECT_THAT(verification.failure, testing::HasSubstr("were written"));
}

/// A softmax of scores beside a mask of the type's lowest number, of which half is left in a row.
Result<Graph> masked_softmax(std::int64_t rows, std::int64_t columns, DType dtype, DType computed) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value kept = b.compare(graph::Comparison::gt, b.parameter(dtype, dims), b.filled(dtype, dims, 0));
  const Value mask = b.select(kept, b.filled(dtype, dims, 0), b.filled(dtype, dims, -graph::largest_finite(dtype)));
  const Value x = b.convert(b.binary(Op::add, b.parameter(dtype, dims), mask), computed);
  const Value e =
      b.unary(Op::exp, b.binary(Op::subtract, x, b.broadcast(b.reduce(ReduceKind::max, x, {1}), dims, {0})));
  const Value y = b.binary(Op::divide, e, b.broadcast(b.reduce(ReduceKind::sum, e, {1}), dims, {0}));
  return b.finish({b.convert(b.select(b.unary(Op::is_nan, y), b.filled(computed, dims, 0), y), dtype)});
}

TEST(VerifyMasksEmulated, SoftmaxesMaskedByTheLowestNumberAreCompared) {
  for (const auto& [dtype, computed] :
       {std::pair{DType::f32, DType::f32}, {DType::bf16, DType::f32}, {DType::f16, DType::f16}}) {
    const KernelCase each = make_case(masked_softmax(64, 300, dtype, computed));
    VerifyOptions options;
    options.distributions = {Distribution::mixed};
    const Verification verification = verify(each, options);
    EXPECT_TRUE(verification.correct) << verification.failure << "\n" << each.kernel.source;
    EXPECT_GT(verification.share, 0.9 * verification.blocks_run / verification.blocks) << to_string(dtype);
  }
}

// Of bits that rounding decides the reference says nothing: nothing is found against the kernel, nor for it.
TEST(VerifyNothingEmulated, OfWhichTheReferenceSaysNothingTheShareIsNone) {
  Builder b;
  const Value bits = b.bitcast(b.unary(Op::tanh, b.parameter(DType::f32, {100})), DType::s32);
  const Verification verification = verify(make_case(b.finish({bits})));
  EXPECT_TRUE(verification.correct) << verification.failure;
  EXPECT_EQ(verification.share, 0);
  EXPECT_EQ(verification.compared, 0);
}

class VerifyEmulated : public testing::TestWithParam<Example> {};

// The whole grid and a sample of it come to the same verdict, and the sample stands by itself: had it failed and been
// judged again whole, all blocks would be on record.
TEST_P(VerifyEmulated, SampledAndWholeAgree) {
  const KernelCase each = GetParam().shared_per_sm == 0 ? make_case(GetParam().graph(), GetParam().wish)
                                                        : make_case(GetParam().graph(), GetParam().wish, {.keep = 1000},
                                                                    GridScorer(small_chip(GetParam().shared_per_sm)));
  const std::int64_t work = kernel_work(each.program);
  VerifyOptions options;
  options.work_budget = work;
  options.total_budget = 8 * work;
  const Verification whole = verify(each, options);
  EXPECT_TRUE(whole.correct) << whole.failure << "\n" << each.kernel.source;
  EXPECT_EQ(whole.blocks_run, each.kernel.blocks);
  EXPECT_EQ(whole.distributions, default_distributions());
  EXPECT_LE(whole.worst, 1.0);

  options.work_budget = work / 8;
  const Verification sampled = verify(each, options);
  EXPECT_TRUE(sampled.correct) << sampled.failure << "\n" << each.kernel.source;
  if (GetParam().can_be_sampled) {
    EXPECT_LT(sampled.blocks_run, each.kernel.blocks);
    EXPECT_GT(sampled.share, 0);
  } else {
    EXPECT_EQ(sampled.blocks_run, each.kernel.blocks);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, VerifyEmulated, testing::ValuesIn(examples()),
                         [](const auto& each) { return each.param.name; });

TEST(VerifySamplesEmulated, EqualSeedsAndAnyThreadsGiveTheSameRecord) {
  const KernelCase each = make_case(norm_backward(2048, 128), phases(2, Sync::barrier));
  VerifyOptions options;
  options.work_budget = kernel_work(each.program) / 4;
  const auto record = [&](std::uint64_t seed, int threads) {
    options.seed = seed;
    const Verification v = verify(each, options, EmulatedOptions{threads, std::uint64_t{1} << 36});
    return std::tuple(v.correct, v.failure, v.share, v.compared, v.worst, v.blocks_run);
  };
  const auto one = record(7, 1);
  EXPECT_TRUE(std::get<0>(one));
  EXPECT_EQ(one, record(7, 1));
  EXPECT_EQ(one, record(7, 3));
  EXPECT_NE(std::get<4>(one), std::get<4>(record(8, 1)));
}

/// An emulated device that answers as a GPU does: all blocks run, and nobody knows what was written.
class WholeDevice final : public Device {
 public:
  [[nodiscard]] const DeviceIdentity& identity() const override { return inner_.identity(); }
  Result<std::unique_ptr<Session>> session() override {
    STITCH_ASSIGN(auto inner, inner_.timed_session());
    return std::unique_ptr<Session>(std::make_unique<WholeSession>(std::move(inner)));
  }

 private:
  class WholeSession final : public ForwardingSession {
   public:
    using ForwardingSession::ForwardingSession;
    [[nodiscard]] bool samples_blocks() const override { return false; }
    [[nodiscard]] std::vector<WrittenRange> written(BufferHandle) const override { return {}; }
  };
  CountedDevice inner_{{}, true};
};

TEST(VerifySamplesEmulated, WhereAllBlocksRunPartsOfTheirResultsAreCompared) {
  const KernelCase each = make_case(scaled_sum({100003}), any);
  WholeDevice device;
  const auto verified = [&](const KernelCase& kernel, std::int64_t most) {
    VerifyOptions options;
    options.distributions = {Distribution::mixed};
    options.most_compared = most;
    return verify_kernel(device, *kernel.graph, kernel.program, kernel.kernel, compile(kernel.kernel), options);
  };
  const auto part = verified(each, 20000), all = verified(each, 1 << 20);
  ASSERT_TRUE(part && all);
  EXPECT_TRUE(part->correct) << part->failure;
  EXPECT_GE(part->compared, 4096 + 100003 % 4096) << "the first run of elements and the last";
  EXPECT_LE(part->compared, 7 * 4096) << "a fifth of 25 runs, the first and the last";
  EXPECT_NEAR(part->share, static_cast<double>(part->compared) / 100003, 1e-9);
  EXPECT_EQ(all->compared, 100003);
  EXPECT_EQ(all->share, 1);
}

TEST(VerifySamplesEmulated, CostlyKernelsUseTheDistributionsTheyCanAfford) {
  const KernelCase each = make_case(scanned(64, 100));
  VerifyOptions options;
  options.work_budget = 1;
  std::set<std::vector<Distribution>> sets;
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    options.seed = seed;
    options.total_budget = 3 * kernel_work(each.program);
    const Verification v = verify(each, options);
    EXPECT_TRUE(v.correct) << v.failure;
    EXPECT_EQ(v.distributions.size(), 3U);
    EXPECT_EQ(v.distributions.front(), Distribution::mixed);
    sets.insert(v.distributions);
  }
  EXPECT_GT(sets.size(), 1U);
  options.total_budget = 0;
  EXPECT_EQ(verify(each, options).distributions.size(), 2U);
}

// ---- wrong kernels --------------------------------------------------------------------------------------------

struct Damage {
  std::string name;
  std::function<KernelCase()> kernel;
  std::string from, to;  ///< in the source
  std::string reason;    ///< that the failure names
};

KernelCase element_wise() { return make_case(scaled_sum({5003}), one_phase); }
KernelCase integers() { return make_case(scaled_sum({5003}, DType::s32), one_phase); }
KernelCase softmax_block() {
  return make_case(softmax(37, 1000), [](const kernel::KernelProgram& p) {
    return p.phases.size() == 1 && p.schedule.cluster == 1 && p.phases[0].groups[0].exchange_bytes > 0;
  });
}
KernelCase channels(Sync sync) { return make_case(channel_reduction(ReduceKind::sum, {256, 8, 100}), phases(2, sync)); }

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

std::vector<Damage> damages() {
  return {
      {"constant", element_wise, "3.0f", "3.0001f", "result 0 at ["},
      {"integer", integers, "result_0[v] = ", "result_0[v] = 1073741824 ^ ", "result 0 at ["},
      {"guard", element_wise, "result_0, 5003", "result_0, 5002", "result 0: 5002 of 5003 elements were written"},
      {"past_the_end", element_wise, "result_0, 5003", "result_0, 5004", "out_of_bounds"},
      {"missing_barrier", softmax_block, "__syncthreads();", "", "uninitialised_read: read of shared memory"},
      {"identity", [] { return channels(Sync::last_block); }, "= 0.0f", "= 0.5f", "result "},
      {"early_finish", [] { return channels(Sync::last_block); }, "gridDim.x", "gridDim.x - 1", ""},
      {"skipped_wait", element_wise, "await_predecessor(", "if (in0 == nullptr) await_predecessor(",
       "early_access: reads "},
      {"late_wait", element_wise, "await_predecessor(",
       "const f32 early = __ldg(in0); asm volatile(\"\" ::\"f\"(early)); await_predecessor(", "early_access: reads "},
      {"no_grid_barrier", [] { return channels(Sync::barrier); }, "grid_barrier(", "if (false) grid_barrier(", ""},
  };
}

class WrongKernelsEmulated : public testing::TestWithParam<Damage> {};

TEST_P(WrongKernelsEmulated, AreFoundWithTheirReason) {
  const KernelCase right = GetParam().kernel();
  const Verification before = verify(right);
  ASSERT_TRUE(before.correct) << before.failure;
  const KernelCase wrong = mutated(right, GetParam().from, GetParam().to);
  const Verification after = verify(wrong);
  EXPECT_FALSE(after.correct);
  EXPECT_THAT(after.failure, testing::HasSubstr("inputs mixed (seed 1): "));
  EXPECT_THAT(after.failure, testing::HasSubstr(GetParam().reason)) << right.kernel.source;
}

// Indices that lie outside are clamped, and verification draws some on either side.
TEST(WrongIndicesEmulated, AreFoundWhereTheyAreNotClamped) {
  const KernelCase right = make_case(looked_up(50, 16, 64), one_phase);
  const Verification before = verify(right);
  ASSERT_TRUE(before.correct) << before.failure;
  for (const auto& [from, to] : {std::pair(", 0), 49)", ", -50), 49)"), {", 0), 49)", ", 0), 99)"}}) {
    const Verification after = verify(mutated(right, from, to));
    EXPECT_FALSE(after.correct);
    EXPECT_THAT(after.failure, testing::HasSubstr("out_of_bounds")) << right.kernel.source;
  }
}

INSTANTIATE_TEST_SUITE_P(Damages, WrongKernelsEmulated, testing::ValuesIn(damages()),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::profiler::test
