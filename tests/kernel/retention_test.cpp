#include "kernel/program/retention.h"
#include "kernel/program/program_builder.h"
#include "kernel/structure/structure_builder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernel/program/legality.h"
#include "search/schedule/stitch_explorer.h"
#include "tests/profiler/kernel_case.h"
#include "tests/profiler/sample_graphs.h"

namespace stitch::kernel::test {
namespace {

using profiler::test::centred_columns, profiler::test::centred_rows, profiler::test::divided_by_norm,
    profiler::test::GridScorer, profiler::test::scanned_share, profiler::test::softmax;

const DeviceSpec& h100() {
  static const DeviceSpec device = *find_device("h100");
  return device;
}

/// All kernels of a graph's space that retain something.
std::vector<KernelProgram> retaining(const Result<graph::Graph>& graph) {
  const auto space = search::explore_space(*graph, GridScorer(), {.keep = 10'000});
  if (!space) {
    throw std::runtime_error(space.error().message);
  }
  std::vector<KernelProgram> kernels;
  for (const search::StitchCandidate& candidate : space->candidates) {
    if (candidate.schedule.retained > 0) kernels.push_back(candidate.program);
  }
  return kernels;
}

struct Loads {
  std::vector<RetainedLoad> left, found;
};

Loads loads_of(const KernelProgram& kernel) {
  Loads loads;
  for (const PhaseProgram& phase : kernel.phases) {
    for (const GroupProgram& group : phase.groups) {
      for (const RetainedLoad& load : group.retained) (load.fills ? loads.left : loads.found).push_back(load);
    }
  }
  return loads;
}

TEST(Retention, EveryPhaseFindsWhatTheFirstOneLeft) {
  for (const auto& graph : {divided_by_norm(3'000'000), centred_columns(20'000, 128), centred_rows(3'000, 1'000)}) {
    const std::vector<KernelProgram> kernels = retaining(graph);
    ASSERT_FALSE(kernels.empty());
    for (const KernelProgram& kernel : kernels) {
      const Loads loads = loads_of(kernel);
      ASSERT_FALSE(loads.left.empty());
      ASSERT_GE(loads.found.size(), loads.left.size());
      std::int64_t bytes = 0;
      for (const RetainedLoad& left : loads.left) {
        EXPECT_EQ(left.shared_offset, bytes) << "side by side";
        EXPECT_EQ(left.shared_offset % 16, 0);
        bytes += left.rounds * left.round_bytes;
        EXPECT_GT(left.share, 0);
        EXPECT_LE(left.share, 1);
        EXPECT_GE(std::ranges::count_if(loads.found,
                                        [&](const RetainedLoad& found) {
                                          return found.shared_offset == left.shared_offset &&
                                                 found.rounds == left.rounds && found.share == left.share &&
                                                 found.round_bytes == left.round_bytes;
                                        }),
                  1);
      }
      EXPECT_EQ(kernel.retained_bytes(), bytes);
      EXPECT_EQ(kernel.schedule.retained, bytes);
      EXPECT_GE(kernel.shared_bytes, resident_offset(kernel) + bytes);
      EXPECT_TRUE(check_legality(kernel, h100()));
    }
  }
}

// The schedule says it all: deriving it again gives the same kernel.
TEST(Retention, FollowsFromTheSchedule) {
  const auto graph = centred_columns(20'000, 128);
  const std::vector<KernelProgram> kernels = retaining(graph);
  ASSERT_FALSE(kernels.empty());
  for (const KernelProgram& kernel : kernels) {
    StructureOptions options{kernel.schedule.tile_axes, {}};
    options.gathered = kernel.schedule.gathered;
    const auto structure = derive_structure(*graph, AxisAnalysis(*graph), options);
    ASSERT_TRUE(structure);
    const auto again = derive_program(*graph, *structure, kernel.schedule);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(again->shared_bytes, kernel.shared_bytes);
    const Loads first = loads_of(kernel), second = loads_of(*again);
    ASSERT_EQ(first.found.size(), second.found.size());
    for (std::size_t i = 0; i < first.found.size(); ++i) {
      EXPECT_EQ(first.found[i].rounds, second.found[i].rounds);
      EXPECT_EQ(first.found[i].shared_offset, second.found[i].shared_offset);
    }
  }
}

TEST(Retention, TakesWhatThereIsAndNoMore) {
  const auto graph = divided_by_norm(16'000'000);
  std::vector<KernelProgram> kernels = retaining(graph);
  ASSERT_FALSE(kernels.empty());
  KernelProgram& kernel = kernels.front();
  const RetainedLoad whole = loads_of(kernel).left.at(0);
  ASSERT_GT(whole.rounds, 1);
  retain(kernel, (whole.rounds - 1) * whole.round_bytes + 16);
  EXPECT_EQ(loads_of(kernel).left.at(0).rounds, whole.rounds - 1);
  EXPECT_LT(loads_of(kernel).left.at(0).share, whole.share);
  const std::int64_t before = kernel.shared_bytes;
  retain(kernel, whole.round_bytes - 1);
  EXPECT_TRUE(loads_of(kernel).left.empty()) << "not even a round";
  EXPECT_LT(kernel.shared_bytes, before);
  EXPECT_EQ(kernel.retained_bytes(), 0);
  // No more rounds than a block has, however much room there is.
  retain(kernel, std::int64_t{1} << 40);
  EXPECT_DOUBLE_EQ(loads_of(kernel).left.at(0).share, 1);
}

// A block an SM, two and four: all that is left is used, and 512 bytes more would cost one of them its place.
TEST(Retention, LeavesRoomForAsManyBlocksAsAreLaunched) {
  const auto graph = divided_by_norm(64'000'000);
  std::vector<KernelProgram> kernels = retaining(graph);
  ASSERT_FALSE(kernels.empty());
  KernelProgram& kernel = kernels.front();
  for (const int per_sm : {1, 2, 4}) {
    kernel.blocks = per_sm * h100().sm_count;
    kernel.registers = 32;
    retain(kernel, 0);
    const std::int64_t room = room_to_retain(kernel, h100());
    kernel.shared_bytes = resident_offset(kernel) + room;
    EXPECT_EQ(resident_blocks(kernel, h100()), per_sm);
    EXPECT_TRUE(check_legality(kernel, h100()));
    kernel.shared_bytes += 512;
    EXPECT_TRUE(resident_blocks(kernel, h100()) < per_sm || !check_legality(kernel, h100())) << per_sm;
  }
}

// A thread finds only what it has left itself: under another mapping nothing is where it would look.
TEST(Retention, NeedsTheSameMapping) {
  std::vector<KernelProgram> kernels = retaining(divided_by_norm(16'000'000));
  ASSERT_FALSE(kernels.empty());
  KernelProgram& kernel = kernels.front();
  AxisMapping& axis = kernel.phases.back().groups[0].mapping.axes[0];
  std::swap(axis.at(Level::lane), axis.at(Level::warp));
  retain(kernel, kernel.schedule.retained);
  EXPECT_EQ(kernel.retained_bytes(), 0);
}

TEST(Retention, FollowersLoadTheSameAlike) {
  const auto followers_of = [](const Result<graph::Graph>& graph, std::size_t leader) {
    return followers(*derive_structure(*graph, AxisAnalysis(*graph), {{}, {}}), leader);
  };
  // Maximum, sum of exponentials, quotients; what is combined between them is small and read once.
  EXPECT_EQ(followers_of(softmax(2048, 1024), 0), (std::vector<std::size_t>{2, 4}));
  EXPECT_EQ(followers_of(softmax(2048, 1024), 2), (std::vector<std::size_t>{4}));
  EXPECT_TRUE(followers_of(softmax(2048, 1024), 1).empty());
  EXPECT_TRUE(followers_of(softmax(2048, 1024), 4).empty());
  EXPECT_TRUE(followers_of(softmax(128, 1024), 0).empty()) << "small: L2 has it anyway";
  EXPECT_TRUE(followers_of(scanned_share(512, 1024), 0).empty()) << "a scan has loops of its own";
}

}  // namespace
}  // namespace stitch::kernel::test
