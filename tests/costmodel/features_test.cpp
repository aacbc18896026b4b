#include "costmodel/features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "costmodel/operation_cost.h"
#include "kernel/program/group_deriver.h"
#include "kernel/rewrite/sorted_updates.h"
#include "search/partition/fusion_plan.h"
#include "tests/costmodel/example_kernels.h"
#include "tests/profiler/kernel_case.h"

namespace stitch::costmodel::test {
namespace {

using graph::Builder;
using graph::DType;
using graph::Op;
using graph::ReduceKind;
using graph::Value;
using kernel::KernelProgram;
using profiler::test::channel_reduction, profiler::test::looked_up, profiler::test::norm_backward,
    profiler::test::packed, profiler::test::scaled_sum, profiler::test::scattered, profiler::test::softmax,
    profiler::test::transposed;

/// The features of all groups of a kernel, added up.
GroupFeatures features_of(const graph::Graph& graph, const KernelProgram& program) {
  GroupFeatures sum;
  sum.tiles = 0;
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const kernel::GroupProgram& group : phase.groups) {
      const GroupFeatures f = group_features(graph, group, program, *find_device("h100"));
      sum.dram_read_bytes += f.dram_read_bytes;
      sum.dram_write_bytes += f.dram_write_bytes;
      sum.sector_bytes += f.sector_bytes;
      sum.l2_bytes += f.l2_bytes;
      sum.shared_bytes += f.shared_bytes;
      sum.instructions += f.instructions;
      sum.integer_instructions += f.integer_instructions;
      sum.f64_instructions += f.f64_instructions;
      sum.special_instructions += f.special_instructions;
      sum.barriers += f.barriers;
      sum.tiles += f.tiles;
    }
  }
  return sum;
}

// ---- device-memory bytes, by hand ---------------------------------------------------------------------------------

struct Traffic {
  std::string name;
  std::function<Result<graph::Graph>()> graph;
  double read, written;
};

void PrintTo(const Traffic& traffic, std::ostream* out) { *out << traffic.name; }

Result<graph::Graph> biased() {
  Builder b;
  const Value x = b.parameter(DType::bf16, {512, 256}), bias = b.parameter(DType::bf16, {256});
  return b.finish({b.binary(Op::add, x, b.broadcast(bias, {512, 256}, {1}))});
}

Result<graph::Graph> row_sums() {
  Builder b;
  return b.finish({b.reduce(ReduceKind::sum, b.parameter(DType::f32, {512, 256}), {1})});
}

Result<graph::Graph> doubled() {
  Builder b;
  const Value x = b.parameter(DType::f32, {1 << 16});
  return b.finish({b.binary(Op::add, b.binary(Op::multiply, x, x), x)});
}

Result<graph::Graph> sliced(const graph::Dims& dims, const graph::Dims& limits, const graph::Dims& strides) {
  Builder b;
  return b.finish({b.unary(Op::negate, b.slice(b.parameter(DType::f32, dims), {0, 0}, limits, strides))});
}

/// A thread's vector is a row of four.
bool whole_row_vectors(const KernelProgram& program) {
  return program.phases[0].groups[0].mapping.axes.back().at(kernel::Level::vector) == 4;
}

/// One tensor read along its columns for several that are written along their rows.
Result<graph::Graph> transposed_loads() {
  Builder b;
  const Value x = b.transpose(b.parameter(DType::f32, {256, 512}), {1, 0});
  return b.finish({b.unary(Op::negate, x), b.unary(Op::abs, x), b.binary(Op::add, x, x)});
}

std::vector<Traffic> traffics() {
  return {
      {"element_wise", [] { return scaled_sum({1 << 20}); }, 8.0 * (1 << 20), 4.0 * (1 << 20)},
      {"bf16", [] { return scaled_sum({1 << 20}, DType::bf16); }, 4.0 * (1 << 20), 2.0 * (1 << 20)},
      {"odd_length", [] { return scaled_sum({100003}); }, 8.0 * 100003, 4.0 * 100003},
      {"read_twice_is_read_once", doubled, 4.0 * (1 << 16), 4.0 * (1 << 16)},
      {"bias", biased, 2 * (512 * 256 + 256.0), 2 * 512 * 256.0},
      {"row_sums", row_sums, 4 * 512 * 256.0, 4 * 512.0},
      {"softmax", [] { return softmax(1024, 768); }, 4 * 1024 * 768.0, 4 * 1024 * 768.0},
      {"transpose",
       [] {
         return transposed({1000, 700}, {1, 0});
       },
       4 * 700e3, 4 * 700e3},
      {"gather", [] { return looked_up(50000, 96, 300); }, 4 * (300 * 96 + 300.0), 4 * 300 * 96.0},
      {"gather_of_more_than_there_is", [] { return looked_up(10, 96, 300); }, 4 * (10 * 96 + 300.0), 4 * 300 * 96.0},
      {"packed", [] { return packed(2); }, 4 * (4000 + 4004 + 64 * 300.0), 4 * (4000 + 4004 + 64.0)},
  };
}

class DramBytes : public testing::TestWithParam<Traffic> {};

TEST_P(DramBytes, AreThoseOfAHandCount) {
  const Kernel kernel = best_of(GetParam().graph());
  ASSERT_EQ(kernel.program.phases.size(), 1U);
  const GroupFeatures f = features_of(*kernel.graph, kernel.program);
  EXPECT_EQ(f.dram_read_bytes, GetParam().read);
  EXPECT_EQ(f.dram_write_bytes, GetParam().written);
}

INSTANTIATE_TEST_SUITE_P(Kernels, DramBytes, testing::ValuesIn(traffics()),
                         [](const auto& each) { return each.param.name; });

TEST(DramBytesOfPhases, PartialResultsGoOutAndBack) {
  for (const Kernel& kernel : candidates_of(channel_reduction(ReduceKind::sum, {256, 8, 100}), *find_device("h100"))) {
    if (kernel.program.phases.size() != 2) continue;
    const double sets = kernel.program.partial_count.at(0), partials = sets * 8 * 4;
    const auto of = [&](std::size_t phase) {
      return group_features(*kernel.graph, kernel.program.phases[phase].groups.at(0), kernel.program,
                            *find_device("h100"));
    };
    EXPECT_EQ(of(0).dram_read_bytes, 256 * 8 * 100 * 4.0);
    EXPECT_EQ(of(0).dram_write_bytes, partials);
    EXPECT_EQ(of(1).dram_read_bytes, partials);
    EXPECT_EQ(of(1).dram_write_bytes, 8 * 4.0);
  }
}

// ---- sectors and L1, by hand --------------------------------------------------------------------------------------

Result<graph::Graph> biased_floats() {
  Builder b;
  const Value x = b.parameter(DType::f32, {4096, 1024}), bias = b.parameter(DType::f32, {1024});
  return b.finish({b.binary(Op::add, x, b.broadcast(bias, {4096, 1024}, {1}))});
}

TEST(L2Bytes, ABiasIsLoadedOnceForTheRowsOfATile) {
  const double tensor = 4.0 * 4096 * 1024;
  std::set<std::int64_t> seen;
  for (const Kernel& kernel : candidates_of(biased_floats(), *find_device("h100"))) {
    const std::int64_t rows = kernel.program.phases[0].groups[0].mapping.axes[0].per_block();
    // A little more where the tile takes more than its block's part of L1.
    const double l2 = features_of(*kernel.graph, kernel.program).l2_bytes;
    const double least = (2 + 1.0 / static_cast<double>(rows)) * tensor;
    EXPECT_GE(l2, least);
    EXPECT_LE(l2, rows == 1 ? least : 1.05 * least);
    seen.insert(rows);
  }
  EXPECT_GT(seen.size(), 1U);
}

// ---- instructions -------------------------------------------------------------------------------------------------

TEST(SpecialInstructions, AreAWarpInstructionPerThirtyTwoElements) {
  Builder b;
  const Value x = b.parameter(DType::f32, {1 << 20});
  const Value y = b.binary(Op::add, b.unary(Op::exp, x), b.unary(Op::tanh, x));
  const Kernel kernel = best_of(b.finish({y}));
  EXPECT_EQ(features_of(*kernel.graph, kernel.program).special_instructions, 2.0 * (1 << 20) / 32);
  const Kernel plain = best_of(scaled_sum({1 << 20}));
  EXPECT_EQ(features_of(*plain.graph, plain.program).special_instructions, 0);
}

// Random bits: 51 of their instructions on the integer unit, by machine code, and once for both of their words.
TEST(IntegerInstructions, AreThoseOfTheOperatorsThatAreOnThatUnit) {
  const auto integer = [](Result<graph::Graph> graph) {
    const Kernel kernel = best_of(std::move(graph));
    return features_of(*kernel.graph, kernel.program).integer_instructions / ((1 << 20) / 32);
  };
  const double one = integer(dropout_mask(1 << 20, 1));
  EXPECT_GE(one, 51 + 1) << "random bits and a comparison";
  EXPECT_LT(one, 51 + 4) << "and a few for the counter";
  EXPECT_EQ(integer(dropout_mask(1 << 20, 2)), one + 1) << "their exclusive or";
  EXPECT_EQ(integer(scaled_sum({1 << 20})), 0);
}

TEST(F64Instructions, AreThoseOnThatType) {
  const Kernel wide = best_of(scaled_sum({1 << 20}, DType::f64)), narrow = best_of(scaled_sum({1 << 20}));
  EXPECT_EQ(features_of(*wide.graph, wide.program).f64_instructions, 2.0 * (1 << 20) / 32);
  EXPECT_EQ(features_of(*narrow.graph, narrow.program).f64_instructions, 0);
}

TEST(LaneEfficiency, IsTheUsefulShareOfWhatIsMapped) {
  for (const Kernel& kernel : candidates_of(softmax(37, 1000), *find_device("h100"))) {
    for (const kernel::PhaseProgram& phase : kernel.program.phases) {
      for (const kernel::GroupProgram& group : phase.groups) {
        const double efficiency =
            group_features(*kernel.graph, group, kernel.program, *find_device("h100")).lane_efficiency;
        EXPECT_GT(efficiency, 0);
        EXPECT_LE(efficiency, 1);
      }
    }
  }
  const Kernel whole = best_of(scaled_sum({1 << 22}));
  EXPECT_EQ(group_features(*whole.graph, whole.program.phases[0].groups[0], whole.program, *find_device("h100"))
                .lane_efficiency,
            1);
}

struct Cost {
  std::string name;
  kernel::Item::Kind kind;
  Op op;
  DType dtype;
  double low, high;
};

kernel::Item item_of(const Cost& cost) {
  kernel::Item item;
  item.kind = cost.kind;
  item.op = cost.op;
  item.dtype = cost.dtype;
  return item;
}

// Instructions that NVRTC makes of them: ranges, since they are counted in SASS and differ by release.
TEST(OperationCost, FollowsTheCodeThatIsGenerated) {
  using Kind = kernel::Item::Kind;
  for (const Cost& cost : std::vector<Cost>{{"literal", Kind::literal, Op::add, DType::f32, 0, 0},
                                            {"reduced", Kind::reduced, Op::add, DType::f32, 0, 0},
                                            {"add", Kind::compute, Op::add, DType::f32, 1, 1},
                                            {"wide integers", Kind::compute, Op::add, DType::s64, 2, 2},
                                            {"bits", Kind::compute, Op::bitcast_convert, DType::f32, 0, 0},
                                            {"rsqrt", Kind::compute, Op::rsqrt, DType::f32, 1, 3},
                                            {"exp", Kind::compute, Op::exp, DType::f32, 2, 4},
                                            {"tanh", Kind::compute, Op::tanh, DType::f32, 8, 20},
                                            {"float division", Kind::compute, Op::divide, DType::f32, 4, 12},
                                            {"integer division", Kind::compute, Op::divide, DType::s32, 15, 40},
                                            {"random bits", Kind::compute, Op::threefry2x32, DType::u32, 60, 120}}) {
    EXPECT_GE(operation_cost(item_of(cost)), cost.low) << cost.name;
    EXPECT_LE(operation_cost(item_of(cost)), cost.high) << cost.name;
  }
}

TEST(OperationCost, DoublesAreNeverCheaper) {
  for (const Op op : {Op::add, Op::exp, Op::log, Op::tanh, Op::sqrt, Op::rsqrt, Op::divide, Op::power, Op::sin, Op::erf,
                      Op::erfc, Op::cbrt, Op::log1p, Op::expm1, Op::logistic, Op::atan2}) {
    const auto cost = [&](DType dtype) {
      return operation_cost(item_of({"", kernel::Item::Kind::compute, op, dtype, 0, 0}));
    };
    EXPECT_GE(cost(DType::f64), cost(DType::f32)) << to_string(op);
  }
}

// ---- against the events that the emulated device counts -----------------------------------------------------------

struct Counted {
  std::string name;
  std::function<Result<graph::Graph>()> graph;
  profiler::test::Wish wish = profiler::test::any;
  double dram_factor = 1.05;    ///< device-memory bytes against distinct sectors
  double sector_factor = 1.25;  ///< requested bytes against sectors of all requests
};

void PrintTo(const Counted& counted, std::ostream* out) { *out << counted.name; }

std::vector<Counted> counted_kernels() {
  return {
      {"element_wise", [] { return scaled_sum({1 << 16}); }},
      {"element_wise_bf16",
       [] {
         return scaled_sum({300, 256}, DType::bf16);
       }},
      {"odd_rows",
       [] {
         return scaled_sum({100, 257});
       }},
      {"row_sums", [] { return row_sums(); }, profiler::test::one_phase},
      {"softmax", [] { return softmax(256, 512); }, profiler::test::one_phase},
      {"softmax_cluster", [] { return softmax(40, 8192); }, profiler::test::clustered},
      {"norm_backward", [] { return norm_backward(1024, 256); }, profiler::test::phases(2, kernel::Sync::barrier), 1.1,
       1.5},
      {"channels",
       [] {
         return channel_reduction(ReduceKind::sum, {256, 8, 128});
       },
       profiler::test::phases(2, kernel::Sync::barrier), 1.1, 1.5},
      // Read by two phases, by the second from where the first left it.
      {"retained", [] { return profiler::test::divided_by_norm(1 << 19); },
       [](const KernelProgram& p) { return p.schedule.retained > 0 && p.phases[0].groups[0].retained[0].share == 1; }},
      {"gather", [] { return looked_up(500, 96, 300); }, profiler::test::any, 1.5, 1.5},
      {"transpose",
       [] {
         return transposed({256, 512}, {1, 0});
       },
       profiler::test::any, 1.05, 1.5},
      {"bias", biased, profiler::test::any, 1.1, 1.5},
      // Sectors of which only a part is wanted.
      {"every_eighth",
       [] {
         return sliced({64, 2048}, {64, 2048}, {1, 8});
       },
       profiler::test::any, 8.1},
      {"half_of_every_sector",
       [] {
         return sliced({65536, 8}, {65536, 4}, {1, 1});
       },
       whole_row_vectors, 2.1},
      {"transposed_loads", transposed_loads, profiler::test::any, 1.05, 1.5},
      {"scatter", [] { return scattered(300, 64, 40); }, profiler::test::any, 1.2, 1.5},
  };
}

class FeaturesEmulated : public testing::TestWithParam<Counted> {};

TEST_P(FeaturesEmulated, AgreeWithTheSectorsThatAWholeRunTouches) {
  const profiler::test::KernelCase each = profiler::test::make_case(GetParam().graph(), GetParam().wish);
  profiler::VerifyOptions options;
  options.work_budget = options.total_budget = std::int64_t{1} << 40;
  options.distributions = {profiler::Distribution::mixed};
  const profiler::Verification run = profiler::test::verify(each, options);
  ASSERT_TRUE(run.correct) << run.failure;
  ASSERT_EQ(run.blocks_run, run.blocks);
  ASSERT_TRUE(run.counters);
  const GroupFeatures f = features_of(*each.graph, each.program);
  const auto& loads = run.counters->global_loads;
  const auto& stores = run.counters->global_stores;
  const double distinct = 32.0 * static_cast<double>(loads.unique_sectors + stores.unique_sectors);
  const double requested = 32.0 * static_cast<double>(loads.sectors + stores.sectors);
  const double dram = f.dram_read_bytes + f.dram_write_bytes;
  EXPECT_LE(dram, GetParam().dram_factor * distinct) << distinct << " bytes touched";
  EXPECT_GE(dram, distinct / GetParam().dram_factor) << distinct << " bytes touched";
  EXPECT_LE(f.sector_bytes, GetParam().sector_factor * requested) << requested << " bytes requested";
  EXPECT_GE(f.sector_bytes, requested / GetParam().sector_factor) << requested << " bytes requested";
  // What L1 passes on lies between what a perfect cache would and what is asked for.
  EXPECT_LE(f.l2_bytes, f.sector_bytes * (1 + 1e-9));
  EXPECT_GE(f.l2_bytes, distinct / GetParam().dram_factor) << distinct << " bytes touched";
}

// Both words of random bits come from one computation, in PTX as in the count.
TEST(InstructionsEmulated, OfRandomBitsAreExecutedOnce) {
  constexpr std::int64_t elements = 1 << 14;
  const profiler::test::KernelCase each = profiler::test::make_case(dropout_mask(elements));
  profiler::VerifyOptions options;
  options.work_budget = options.total_budget = std::int64_t{1} << 40;
  options.distributions.resize(1);
  const profiler::Verification run = profiler::test::verify(each, options);
  ASSERT_TRUE(run.correct) << run.failure;
  ASSERT_EQ(run.blocks_run, run.blocks);
  ASSERT_TRUE(run.counters);
  const double executed = run.counters->of(emulator::InstructionClass::integer).lanes;
  EXPECT_GE(executed, 69.0 * elements);
  EXPECT_LT(executed, 90.0 * elements);
  // Of PTX's integer instructions ptxas has some done by multiply-add, on the f32 unit.
  const double counted = features_of(*each.graph, each.program).integer_instructions * 32;
  EXPECT_LT(counted, executed);
  EXPECT_GT(counted, 0.6 * executed);
}

struct SearchRow {
  std::string name;
  std::int64_t rows, columns, updates, line;
};
void PrintTo(const SearchRow& row, std::ostream* out) { *out << row.name; }

class UpdateSearchEmulated : public testing::TestWithParam<SearchRow> {};

// Of updates that are found in sorted lines: the sort, the searches of all ways, and what they find.
TEST_P(UpdateSearchEmulated, ExecutesAboutWhatIsCounted) {
  const SearchRow& row = GetParam();
  const auto sorted = kernel::sort_updates(*scattered(row.rows, row.columns, row.updates), row.line);
  ASSERT_TRUE(sorted);
  std::set<std::string> seen;
  const auto fresh = [&](const KernelProgram& program) {
    const kernel::GroupProgram& group = program.phases.back().groups[0];
    std::string lay;
    for (const kernel::AxisMapping& axis : group.mapping.axes)
      lay += fmt::format("{}/{} ", axis.at(kernel::Level::lane), axis.at(kernel::Level::reg));
    return program.phases.size() == 2 && seen.insert(lay).second;
  };
  for (int lay = 0; lay < 3; ++lay) {
    const profiler::test::KernelCase each =
        profiler::test::make_case(*sorted, fresh, {.keep = 100'000, .wide = true, .combinations = 100});
    profiler::VerifyOptions options;
    options.work_budget = options.total_budget = std::int64_t{1} << 40;
    options.distributions.resize(1);
    const profiler::Verification run = profiler::test::verify(each, options);
    ASSERT_TRUE(run.correct) << run.failure;
    ASSERT_EQ(run.blocks_run, run.blocks);
    ASSERT_TRUE(run.counters);
    double executed = 0;
    for (const emulator::InstructionCount& of_class : run.counters->instructions)
      executed += static_cast<double>(of_class.warps);
    const double counted = features_of(*each.graph, each.program).instructions;
    EXPECT_LT(counted, 2 * executed) << *seen.rbegin();
    EXPECT_GT(counted, executed / 2) << *seen.rbegin();
  }
}

INSTANTIATE_TEST_SUITE_P(Of, UpdateSearchEmulated,
                         testing::Values(SearchRow{"rows", 2000, 64, 3000, 256},
                                         SearchRow{"long_lines", 2000, 64, 3000, 4096},
                                         SearchRow{"elements", 4000, 1, 4000, 1024},
                                         SearchRow{"few_elements", 128, 1, 4000, 1024}),
                         [](const auto& row) { return row.param.name; });

struct PairRow {
  std::string name;
  graph::Dims dims, along;
  DType dtype = DType::f32;
  std::size_t phases = 1;
  std::int64_t least_vector = 1;
  bool clustered = false;
};
void PrintTo(const PairRow& row, std::ostream* out) { *out << row.name; }

class MaxExpSumEmulated : public testing::TestWithParam<PairRow> {};

// Exponentials, and the instructions around them, of maxima and sums as one reduction: by vectors, element by element,
// in the exchanges between threads and between blocks.
TEST_P(MaxExpSumEmulated, ExecutesWhatIsCounted) {
  const PairRow& row = GetParam();
  Builder b;
  const Value both = b.add(Op::max_exp_sum, {b.parameter(row.dtype, row.dims)}, graph::MaxExpSumAttributes{row.along});
  const auto wish = [&](const KernelProgram& p) {
    const kernel::GroupProgram& group = p.phases[0].groups[0];
    return p.phases.size() == row.phases && group.vector_extent() >= row.least_vector &&
           group.threads == p.schedule.threads && (p.schedule.cluster > 1) == row.clustered;
  };
  const profiler::test::KernelCase each = profiler::test::make_case(
      b.finish({both, {both.node, 1}}), wish, {.keep = 100'000, .wide = true, .combinations = 100});
  profiler::VerifyOptions options;
  options.work_budget = options.total_budget = std::int64_t{1} << 40;
  options.distributions.resize(1);
  const profiler::Verification run = profiler::test::verify(each, options);
  ASSERT_TRUE(run.correct) << run.failure;
  ASSERT_EQ(run.blocks_run, run.blocks);
  ASSERT_TRUE(run.counters);
  const GroupFeatures f = features_of(*each.graph, each.program);
  const auto executed = [&](emulator::InstructionClass kind) {
    return static_cast<double>(run.counters->of(kind).warps);
  };
  if (row.dtype == DType::f32) {
    const double special = executed(emulator::InstructionClass::special_function);
    EXPECT_GT(f.special_instructions, 0.9 * special) << each.kernel.source;
    EXPECT_LT(f.special_instructions, 1.1 * special) << each.kernel.source;
    const double work = special + executed(emulator::InstructionClass::f32);
    EXPECT_GT(f.instructions, 0.8 * work);
  } else {
    const double work = executed(emulator::InstructionClass::f64);
    EXPECT_GT(f.f64_instructions, 0.5 * work);
    EXPECT_LT(f.f64_instructions, 2 * work);
  }
}

const PairRow pair_rows[] = {{"vectors", {64, 4096}, {1}, DType::f32, 1, 4},
                             {"elements", {64, 2047}, {1}},
                             {"columns", {512, 64}, {0}},
                             {"columns_of_clusters", {512, 64}, {0}, DType::f32, 1, 1, true},
                             {"rows_of_clusters", {8, 16384}, {1}, DType::f32, 1, 4, true},
                             {"partial_results", {65536}, {0}, DType::f32, 2},
                             {"f64", {64, 2048}, {1}, DType::f64}};
INSTANTIATE_TEST_SUITE_P(Kernels, MaxExpSumEmulated, testing::ValuesIn(pair_rows),
                         [](const auto& each) { return each.param.name; });

INSTANTIATE_TEST_SUITE_P(Kernels, FeaturesEmulated, testing::ValuesIn(counted_kernels()),
                         [](const auto& each) { return each.param.name; });

// ---- loads a turn ahead ---------------------------------------------------------------------------------------------

TEST(Features, ALoopWaitsOnceForLoadsMadeAhead) {
  const DeviceSpec device = *find_device("h100");
  const auto rows_of = [](const KernelProgram& program) {
    const kernel::GroupProgram& group = program.phases[0].groups[0];
    return group.inner_loops.empty() ? group.extent(0, kernel::Level::loop) : 1;
  };
  const auto staged = [](const KernelProgram& program, int stages, bool shared = false) {
    const kernel::GroupProgram& group = program.phases[0].groups[0];
    kernel::GroupMapping mapping = group.mapping;
    mapping.stages = stages;
    mapping.shared_stages = shared;
    return kernel::derive_group(group.structure, mapping, program.schedule, 1);
  };
  const auto made = profiler::test::make_case(norm_backward(8192, 256), [&](const KernelProgram& p) {
    return rows_of(p) > 3 && p.phases[0].groups[0].held_bytes == 0 && staged(p, 4, true);
  });
  const double rows = rows_of(made.program);
  const auto count = [&](int stages, bool shared = false) {
    const auto group = staged(made.program, stages, shared);
    return group_features(*made.graph, group.value(), made.program, device);
  };
  const GroupFeatures plain = count(1), ahead = count(2);
  EXPECT_EQ(plain.ahead_share, 0);
  EXPECT_EQ(ahead.ahead_share, 1);
  EXPECT_EQ(plain.bytes_in_flight, ahead.bytes_in_flight);
  EXPECT_EQ(plain.dram_read_bytes, ahead.dram_read_bytes);
  EXPECT_EQ(plain.latency_cycles - ahead.latency_cycles, (rows - 1) * device.dram_latency);
  // Stages in shared memory have several turns' loads under way, which pass through it and are read from it.
  for (const int stages : {2, 3, 4}) {
    const GroupFeatures staged = count(stages, true);
    EXPECT_EQ(staged.ahead_share, 1);
    EXPECT_EQ(staged.bytes_in_flight, (stages - 1) * plain.bytes_in_flight);
    EXPECT_EQ(staged.dram_read_bytes, plain.dram_read_bytes);
    EXPECT_EQ(staged.latency_cycles - ahead.latency_cycles, rows * device.shared_latency);
    EXPECT_EQ(staged.shared_bytes - plain.shared_bytes, 2 * plain.dram_read_bytes);
  }
}

// Bulk copies bring the same bytes by fewer requests, and every turn waits for its barrier besides.
TEST(Features, BulkCopiesAreFewRequestsAndABarrierATurn) {
  const DeviceSpec device = *find_device("h100");
  const auto staged = [](const KernelProgram& program, bool bulk) {
    const kernel::GroupProgram& group = program.phases[0].groups[0];
    kernel::GroupMapping mapping = group.mapping;
    mapping.stages = 3;
    mapping.shared_stages = true;
    mapping.bulk_stages = bulk;
    return kernel::derive_group(group.structure, mapping, program.schedule, 1);
  };
  const auto made =
      profiler::test::make_case(norm_backward(8192, 256), [&](const KernelProgram& p) { return staged(p, true).ok(); });
  const auto count = [&](bool bulk) {
    const auto group = staged(made.program, bulk);
    return group_features(*made.graph, group.value(), made.program, device);
  };
  const GroupFeatures threads = count(false), warps = count(true);
  EXPECT_EQ(warps.dram_read_bytes, threads.dram_read_bytes);
  EXPECT_EQ(warps.bytes_in_flight, threads.bytes_in_flight);
  EXPECT_EQ(warps.shared_bytes, threads.shared_bytes);
  EXPECT_LT(warps.load_requests, threads.load_requests);
  EXPECT_GT(warps.latency_cycles, threads.latency_cycles);
}

}  // namespace
}  // namespace stitch::costmodel::test
