#include "kernel/program/legality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <list>

#include "search/schedule/stitch_explorer.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::kernel::test {
namespace {

/// A kernel of two phases with a barrier between, which every rule accepts.
KernelProgram legal_program() {
  static const Graph graph = row_and_column_sums(4096, 256);
  const auto candidates = search::explore_stitches(graph, RoughScorer(), {1000, false});
  for (const search::StitchCandidate& candidate : *candidates) {
    const KernelProgram& program = candidate.program;
    if (program.schedule.syncs == std::vector{Sync::barrier} && program.schedule.threads == 256) return program;
  }
  throw std::runtime_error("no program has a barrier");
}

/// The same of a table that atomics add floats to, which is asked to be deterministic only when it is planned.
KernelProgram summed_by_atomics(const graph::Constraints& constraints, DType dtype) {
  static std::list<Graph> graphs;
  Graph& graph = graphs.emplace_back(scattered(4096, 8, 1024, dtype));
  const auto candidates = search::explore_stitches(graph, RoughScorer(), {1000, false});
  graph.constraints = constraints;
  for (const search::StitchCandidate& candidate : *candidates) {
    for (const PhaseProgram& phase : candidate.program.phases) {
      if (phase.groups[0].structure.anchors[0].kind == Anchor::Kind::atomic) return candidate.program;
    }
  }
  throw std::runtime_error("no program has atomics");
}

struct Example {
  std::string name;
  std::string rule;  ///< that is broken; empty: none
  std::function<void(KernelProgram&, const DeviceSpec&)> change;
  std::string device = "h100";
  std::string message = {};
};

void PrintTo(const Example& example, std::ostream* out) { *out << example.name; }

void small(KernelProgram& p) { p.registers = 16, p.shared_bytes = 0, p.blocks = 1; }

std::vector<Example> examples() {
  const auto with = [](auto set) {
    return [=](KernelProgram& p, const DeviceSpec& d) {
      small(p);
      set(p, d);
    };
  };
  return {
      {"as_found", "", [](KernelProgram&, const DeviceSpec&) {}},
      {"most_threads", "", with([](auto& p, auto&) { p.schedule.threads = 1024; })},
      {"threads", "threads", with([](auto& p, auto&) { p.schedule.threads = 1056; }), "h100",
       "threads: 1056 threads per block, at most 1024"},
      {"half_a_warp", "whole-warps", with([](auto& p, auto&) { p.schedule.threads = 48; })},
      {"most_shared_memory", "", with([](auto& p, auto& d) { p.shared_bytes = d.shared_per_block - 32; })},
      {"shared_memory", "shared-memory", with([](auto& p, auto& d) {
         p.shared_bytes = d.shared_per_block - 31;
         p.schedule.syncs = {Sync::last_block};  // a barrier could not be resident either
       })},
      {"most_registers", "", with([](auto& p, auto&) { p.registers = 255; })},
      {"registers", "registers",
       with([](auto& p, auto&) { p.registers = 256, p.schedule.syncs = {Sync::last_block}; })},
      {"registers_of_all_threads", "registers",
       with([](auto& p, auto&) { p.registers = 65, p.schedule.threads = 1024, p.schedule.syncs = {Sync::last_block}; }),
       "h100", "registers: about 65 registers a thread, at most 64"},
      {"largest_cluster", "", with([](auto& p, auto&) { p.schedule.cluster = 8; })},
      {"cluster", "clusters", with([](auto& p, auto&) { p.schedule.cluster = 16; })},
      {"cluster_where_there_are_none", "clusters", with([](auto& p, auto&) { p.schedule.cluster = 2; }), "a100",
       "clusters: a100 has no clusters"},
      {"no_blocks", "grid", with([](auto& p, auto&) { p.blocks = 0; })},
      {"too_many_blocks", "grid",
       with([](auto& p, auto&) { p.blocks = std::int64_t{1} << 31, p.schedule.syncs = {Sync::last_block}; })},
      {"all_blocks_resident", "", with([](auto& p, auto&) { p.blocks = 8 * 132; })},
      {"barrier_over_waiting_blocks", "barrier-residency", with([](auto& p, auto&) { p.blocks = 8 * 132 + 1; }), "h100",
       "barrier-residency: a grid barrier over 1057 blocks, of which 1056 are resident"},
      {"last_block_may_wait", "",
       with([](auto& p, auto&) { p.blocks = 8 * 132 + 1, p.schedule.syncs = {Sync::last_block}; })},
      {"slabs_behind_a_barrier", "", with([](auto& p, auto&) { p.schedule.slabs.count = 4; })},
      {"slabs_behind_the_last_block", "slabs",
       with([](auto& p, auto&) { p.schedule.slabs.count = 4, p.schedule.syncs = {Sync::last_block}; }), "h100",
       "slabs: only the last block would go on to the next of 4 slabs"},
      {"floats_in_any_order", "", [](auto& p, auto&) { p = summed_by_atomics({}, DType::f32); }},
      {"floats_in_a_fixed_order", "fixed-order",
       [](auto& p, auto&) { p = summed_by_atomics({.deterministic = true}, DType::f32); }, "h100",
       "adds floats by atomics, in the order in which they arrive"},
      {"floats_of_any_batch", "fixed-order",
       [](auto& p, auto&) { p = summed_by_atomics({.batch_invariant = true}, DType::f32); }},
      {"integers_in_a_fixed_order", "",
       [](auto& p, auto&) { p = summed_by_atomics({.deterministic = true}, DType::s32); }},
      {"stages_of_copies", "", with([](auto& p, auto&) { p.phases[0].groups[0].mapping.shared_stages = true; }),
       "a100"},
      {"stages_without_copies", "stages",
       with([](auto& p, auto&) { p.phases[0].groups[0].mapping.shared_stages = true; }), "t4",
       "copies nothing to shared memory by itself"},
      {"bulk_copies", "", with([](auto& p, auto&) { p.phases[0].groups[0].mapping.bulk_stages = true; }), "h100"},
      {"stages_without_bulk_copies", "bulk-stages",
       with([](auto& p, auto&) { p.phases[0].groups[0].mapping.bulk_stages = true; }), "a100",
       "has no bulk copies that a barrier counts"},
      {"tensor_cores", "", with([](auto& p, auto&) { p.phases[0].groups[0].mapping.tensor_cores = true; }), "a100"},
      {"no_tensor_cores", "tensor-cores",
       with([](auto& p, auto&) { p.phases[0].groups[0].mapping.tensor_cores = true; }), "t4",
       "has no mma.sync of 16 columns and 8 rows"},
      {"table_of_parameters", "parameters",
       with([](auto& p, auto&) { p.phases[0].groups.resize(1000, p.phases[0].groups[0]); })},
  };
}

class Legality : public testing::TestWithParam<Example> {};

TEST_P(Legality, OneRuleDecides) {
  const DeviceSpec device = *find_device(GetParam().device);
  KernelProgram program = legal_program();
  GetParam().change(program, device);
  std::vector<std::string> broken;
  for (const LegalityRule& rule : legality_table()) {
    if (!rule.violation(program, device).empty()) broken.emplace_back(rule.name);
  }
  EXPECT_EQ(broken, GetParam().rule.empty() ? std::vector<std::string>{} : std::vector{GetParam().rule});
  const Status status = check_legality(program, device);
  EXPECT_EQ(status.ok(), GetParam().rule.empty());
  if (!status) {
    EXPECT_EQ(status.error().kind, ErrorKind::constraint);
    EXPECT_THAT(status.error().message, testing::StartsWith(GetParam().rule + ": "));
    EXPECT_THAT(status.error().message, testing::HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(Programs, Legality, testing::ValuesIn(examples()),
                         [](const auto& each) { return each.param.name; });

TEST(LegalityTable, EveryRuleIsBrokenByAnExample) {
  std::set<std::string> broken;
  for (const Example& example : examples()) broken.insert(example.rule);
  for (const LegalityRule& rule : legality_table()) {
    EXPECT_TRUE(broken.contains(std::string(rule.name))) << rule.name;
    EXPECT_FALSE(rule.why.empty()) << rule.name;
  }
}

struct Residency {
  std::string device;
  int threads, registers;
  std::int64_t shared;
  int blocks;
};

// Worked out from the technical specifications in the CUDA C++ Programming Guide: registers by warp in units of 256,
// shared memory in units of 128 bytes with 1 KB a block reserved from sm_80 on.
TEST(ResidentBlocks, FollowTheOccupancyRules) {
  for (const Residency& each : std::vector<Residency>{{"h100", 256, 32, 0, 8},   // 2,048 threads
                                                      {"h100", 256, 33, 0, 6},   // 1,280 registers a warp
                                                      {"h100", 256, 255, 0, 1},  // 8,192 a warp, 65,536 a block
                                                      {"h100", 1024, 64, 0, 1},
                                                      {"h100", 1024, 32, 0, 2},
                                                      {"h100", 32, 16, 0, 32},          // block slots
                                                      {"h100", 1024, 65, 0, 0},         // does not fit at all
                                                      {"h100", 256, 16, 100 << 10, 2},  // 228 KB
                                                      {"h100", 256, 16, 227 << 10, 1},
                                                      {"h100", 256, 16, 56 << 10, 4},  // 57 KB with what is reserved
                                                      {"h100", 256, 16, (56 << 10) + 1, 3},
                                                      {"l4", 256, 32, 0, 6},  // 1,536 threads
                                                      {"l4", 32, 16, 0, 24}}) {
    EXPECT_EQ(resident_blocks(each.threads, each.registers, each.shared, *find_device(each.device)), each.blocks)
        << each.device << " " << each.threads << " " << each.registers << " " << each.shared;
  }
}

/// Of an H100's GPCs, with 16 or 18 SMs, clusters of 4 leave two of 18 over.
TEST(ResidentBlocks, ClustersStandInAGpc) {
  const DeviceSpec h100 = *find_device("h100");
  for (const auto [cluster, of_sm, blocks] : {std::array{1, 1, 132},
                                              {2, 1, 132},
                                              {2, 2, 264},
                                              {3, 1, 120},
                                              {4, 1, 128},
                                              {4, 2, 256},
                                              {6, 1, 96},
                                              {6, 3, 384},
                                              {8, 1, 128},
                                              {16, 1, 128}})
    EXPECT_EQ(blocks_in_clusters(cluster, of_sm, h100), blocks) << cluster << " " << of_sm;
}

}  // namespace
}  // namespace stitch::kernel::test
