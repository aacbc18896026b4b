#include "costmodel/compiled_estimate.h"

#include <gtest/gtest.h>

#include "costmodel/analytical.h"
#include "kernel/program/legality.h"
#include "tests/costmodel/example_kernels.h"

namespace stitch::costmodel::test {
namespace {

const DeviceSpec& h100() {
  static const DeviceSpec device = *find_device("h100");
  return device;
}

double plain_us(const KernelQuantities& kernel) { return analytical_us(kernel, h100(), {}); }

/// By hand: 1056 blocks of 128 threads, each of which reads 64 bytes a thread in each of `iterations`.
KernelQuantities one_group(double iterations = 1) {
  KernelQuantities kernel;
  kernel.blocks = 1056;
  kernel.threads = 128;
  kernel.resident = 8;
  PhaseQuantities& phase = kernel.phases.emplace_back();
  phase.tiles = 1056;
  GroupFeatures& group = phase.groups.emplace_back();
  const double warps = 1056 * 4;
  group.tiles = 1056;
  group.threads = 128;
  group.iterations = iterations;
  group.instructions = warps * 40 * iterations;
  group.load_lane_bytes = warps * 64 * iterations;
  group.dram_read_bytes = group.l2_bytes = group.requested_bytes = 32 * group.load_lane_bytes;
  group.bytes_in_flight = 64;
  group.latency_cycles = 600 * iterations;
  return kernel;
}

/// Code that does in one iteration what one_group says of it.
MachineCodeFeatures straight_code() {
  MachineCodeFeatures code;
  code.instructions = 40;
  code.loads = 4;
  code.load_bytes = 64;
  code.stall_cycles = 60;
  code.cycles = 660;
  code.loop.instructions = 40;
  code.loop.loads = 4;
  code.loop.load_bytes = 64;
  code.loop.stall_cycles = 60;
  code.loop.cycles = 660;
  code.loads_before_wait = 4;
  code.bytes_before_wait = 64;
  return code;
}

CompiledFacts with(const MachineCodeFeatures& code, int registers = 32) { return {registers, 0, 0, &code}; }

class CompiledKernels : public testing::TestWithParam<NamedGraph> {
 protected:
  CompiledKernels() {
    for (Kernel& kernel : candidates_of(GetParam().graph(), h100(), 4)) {
      quantities_.push_back(kernel_quantities(*kernel.graph, kernel.program, h100()));
      kernels_.push_back(std::move(kernel));
    }
  }
  std::vector<Kernel> kernels_;
  std::vector<KernelQuantities> quantities_;
};

// ---- registers and shared memory ------------------------------------------------------------------------------------

TEST_P(CompiledKernels, TakeWhatWasPredictedIfNothingElseIsKnown) {
  for (const KernelQuantities& kernel : quantities_) EXPECT_EQ(compiled_us(kernel, {}, h100()), plain_us(kernel));
}

TEST_P(CompiledKernels, AsPlannedTakeWhatWasPredicted) {
  for (std::size_t k = 0; k < kernels_.size(); ++k) {
    const kernel::KernelProgram& program = kernels_[k].program;
    const CompiledFacts planned{program.registers, program.shared_bytes, 0, nullptr};
    if (kernel::resident_blocks(program.schedule.threads, planned.registers, planned.shared_bytes, h100()) !=
        quantities_[k].resident)
      continue;  // static shared memory that the estimate adds
    EXPECT_EQ(compiled_us(quantities_[k], planned, h100()), plain_us(quantities_[k]));
  }
}

TEST_P(CompiledKernels, AreNotFasterWithMoreRegisters) {
  for (const KernelQuantities& kernel : quantities_) {
    double before = 0;
    for (int registers = 16; registers <= 255; registers += 8) {
      const double us = compiled_us(kernel, {registers, 1024, 0, nullptr}, h100());
      EXPECT_GE(us, before) << registers << " registers";
      before = us;
    }
  }
}

TEST_P(CompiledKernels, AreNotFasterWithMoreSharedMemory) {
  for (const KernelQuantities& kernel : quantities_) {
    double before = 0;
    for (std::int64_t bytes = 0; bytes <= 200 << 10; bytes += 8 << 10) {
      const double us = compiled_us(kernel, {32, bytes, 0, nullptr}, h100());
      EXPECT_GE(us, before) << bytes << " bytes";
      before = us;
    }
  }
}

// ---- spills ---------------------------------------------------------------------------------------------------------

TEST_P(CompiledKernels, PayForSpills) {
  for (const KernelQuantities& kernel : quantities_) {
    double before = compiled_us(kernel, {64, 4096, 0, nullptr}, h100());
    for (const std::int64_t bytes : {8, 64, 512, 4096}) {
      const double us = compiled_us(kernel, {64, 4096, bytes, nullptr}, h100());
      EXPECT_GT(us, before) << bytes << " bytes";
      before = us;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, CompiledKernels, testing::ValuesIn(kinds_of_kernel()),
                         [](const auto& each) { return each.param.name; });

TEST(CompiledEstimate, SpillsThatL1CannotHoldGoToL2) {
  const KernelQuantities kernel = one_group();
  // 8 blocks of 24 KB leave 28 KB of L1, 8 of 8 KB 156 KB; a frame of 64 bytes for 1,024 threads is 64 KB.
  const CompiledFacts much{32, 24 << 10, 128, nullptr}, little{32, 8 << 10, 128, nullptr};
  EXPECT_GT(compiled_us(kernel, much, h100()), compiled_us(kernel, little, h100()));
}

TEST(CompiledEstimate, SpillsInALoopArePaidAsOftenAsItTurns) {
  // Two sweeps that iterate: the code is not told apart, and what remains of it is where the spills stand.
  KernelQuantities kernel = one_group(8);
  kernel.phases[0].groups[0].sweeps = 2;
  const auto us = [&](std::vector<MachineCodeFeatures::LocalLoop> loops) {
    MachineCodeFeatures code;
    code.loop.loop = true;
    code.local_bytes = 256;
    code.local_loops = std::move(loops);
    EXPECT_FALSE(warp_work(kernel, code));
    return compiled_us(kernel, {32, 0, 256, &code}, h100());
  };
  const double once = us({});
  EXPECT_EQ(once, compiled_us(kernel, {32, 0, 256, nullptr}, h100()));
  EXPECT_EQ(us({{256, 512}}), once) << "a loop around the tiles: it loads all of one";
  const double half = us({{128, 64}}), all = us({{256, 64}});
  EXPECT_GT(half, once);
  EXPECT_GT(all, half);
  EXPECT_EQ(us({{256, 1}}), all) << "no more often than the schedule's loops turn";
  EXPECT_EQ(us({{256, 0}}), all) << "a loop over what is kept";
  // Of a recurrent kernel every turn is counted already.
  kernel.turns = 8;
  EXPECT_EQ(us({{256, 64}}), us({}));
}

// ---- machine code ---------------------------------------------------------------------------------------------------

TEST(CompiledEstimate, CodeWithoutLoopIsExecutedOnceATile) {
  const auto work = warp_work(one_group(), straight_code());
  ASSERT_TRUE(work);
  EXPECT_EQ(work->instructions, 40);
  EXPECT_EQ(work->stall_cycles, 60);
  EXPECT_EQ(work->cycles, 660);
  EXPECT_EQ(work->local_bytes, 0);
}

TEST(CompiledEstimate, AHotLoopIsExecutedAsOftenAsItsBytesSay) {
  MachineCodeFeatures code = straight_code();
  code.loop.loop = true;
  code.loops = 1;
  code.instructions = 70;
  code.stall_cycles = 100;
  code.cycles = 900;
  code.local_bytes = 24;
  code.loop.local_bytes = 8;
  const auto work = warp_work(one_group(8), code);
  ASSERT_TRUE(work);
  EXPECT_EQ(work->instructions, 70 + 7 * 40);
  EXPECT_EQ(work->stall_cycles, 100 + 7 * 60);
  EXPECT_EQ(work->cycles, 900 + 7 * 660);
  EXPECT_EQ(work->local_bytes, 24 + 7 * 8);
  // Unrolled by four by ptxas: a quarter of the iterations.
  code.loop.load_bytes = 256;
  code.loop.instructions = 120;
  code.instructions = 150;
  const auto unrolled = warp_work(one_group(8), code);
  ASSERT_TRUE(unrolled);
  EXPECT_EQ(unrolled->instructions, 150 + 120);
}

TEST(CompiledEstimate, CodeThatCannotBeToldApartSaysNothing) {
  MachineCodeFeatures loop = straight_code();
  loop.loop.loop = true;
  KernelQuantities sweeps = one_group(8);
  sweeps.phases[0].groups[0].sweeps = 2;
  EXPECT_FALSE(warp_work(sweeps, loop)) << "which sweep's loop is it?";
  EXPECT_TRUE(warp_work(sweeps, [] {
    MachineCodeFeatures unrolled = straight_code();
    unrolled.instructions = 320, unrolled.load_bytes = 512;
    return unrolled;
  }()));
  KernelQuantities groups = one_group();
  groups.phases[0].groups.push_back(groups.phases[0].groups[0]);
  EXPECT_FALSE(warp_work(groups, straight_code()));
  KernelQuantities phases = one_group();
  phases.phases.push_back(phases.phases[0]);
  EXPECT_FALSE(warp_work(phases, straight_code()));
  loop.loop.load_bytes = 0;
  EXPECT_FALSE(warp_work(one_group(8), loop)) << "a loop that does not load";
  MachineCodeFeatures twice = straight_code();
  twice.load_bytes = 128;
  EXPECT_FALSE(warp_work(one_group(), twice)) << "a tail's other way";
  MachineCodeFeatures large = straight_code();
  large.instructions = 161;
  EXPECT_FALSE(warp_work(one_group(), large)) << "more than four times what was planned";
}

TEST(CompiledEstimate, WithoutAnAnswerOfTheCodeItIsThatOfRegistersAndSpills) {
  KernelQuantities phases = one_group();
  phases.phases.push_back(phases.phases[0]);
  const MachineCodeFeatures code = straight_code();
  const CompiledFacts known{80, 2048, 64, nullptr}, seen{80, 2048, 64, &code};
  EXPECT_EQ(compiled_us(phases, seen, h100()), compiled_us(phases, known, h100()));
  EXPECT_NE(compiled_us(one_group(), seen, h100()), compiled_us(one_group(), known, h100()));
}

TEST(CompiledEstimate, WorseCodeIsSlower) {
  const MachineCodeFeatures code = straight_code();
  const double us = compiled_us(one_group(), with(code), h100());
  const auto slower = [&](void (*worsen)(MachineCodeFeatures&)) {
    MachineCodeFeatures worse = straight_code();
    worsen(worse);
    return compiled_us(one_group(), with(worse), h100()) - us;
  };
  EXPECT_GT(slower([](auto& c) { c.instructions = 120; }), 0);
  EXPECT_GT(slower([](auto& c) { c.cycles = 2400; }), 0) << "two waits in place of one";
  EXPECT_GT(slower([](auto& c) { c.bytes_before_wait = 4; }), 0);
  EXPECT_GT(slower([](auto& c) { c.local_bytes = 128; }), 0);
  EXPECT_EQ(slower([](auto& c) { c.bytes_before_wait = 640; }), 0) << "a tile has no more than that";
  EXPECT_EQ(slower([](auto& c) { c.stall_cycles = 200; }), 0) << "32 warps fill each other's stalls";
  // With one warp for each scheduler nothing fills them.
  MachineCodeFeatures stalled = straight_code();
  stalled.stall_cycles = 200;
  EXPECT_GT(compiled_us(one_group(), with(stalled, 255), h100()), compiled_us(one_group(), with(code, 255), h100()));
}

// ---- re-ranking -----------------------------------------------------------------------------------------------------

TEST(CompiledEstimate, RerankingKeepsWhatAScorerLearned) {
  const KernelQuantities kernel = one_group();
  const CompiledFacts facts{128, 4096, 32, nullptr};
  const double compiled = compiled_us(kernel, facts, h100());
  EXPECT_GT(compiled, plain_us(kernel));
  EXPECT_DOUBLE_EQ(reranked_us(plain_us(kernel), kernel, facts, h100()), compiled);
  EXPECT_DOUBLE_EQ(reranked_us(3 * plain_us(kernel), kernel, facts, h100()), 3 * compiled);
  EXPECT_EQ(reranked_us(7, kernel, {}, h100()), 7);
}

}  // namespace
}  // namespace stitch::costmodel::test
