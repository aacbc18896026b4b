// Loads that are copied to stages of shared memory turns of a loop ahead: every kernel is right, for sm_80 and sm_90a,
// reads what others read, and each part of the pipeline is missed when it is dropped. So is every kernel whose warps
// have bulk copies.
#include <gmock/gmock.h>

#include "kernel/program/legality.h"
#include "kernel/program/program_builder.h"
#include "kernel/structure/structure_builder.h"
#include "search/schedule/thread_layout.h"
#include "tests/codegen/wished_kernels.h"
#include "tests/profiler/sample_graphs.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::ReduceKind;
using graph::Value;
using kernel::GroupProgram;
using kernel::KernelProgram;
using kernel::Level;
using ::testing::HasSubstr;

/// Lets every block take so many turns of rows, one after the other.
void loop_over_rows(kernel::GroupMapping& mapping, std::int64_t turns) {
  kernel::AxisMapping& rows = mapping.axes[0];
  rows.at(Level::grid) = search::divide_up(rows.at(Level::grid) * rows.at(Level::loop), turns);
  rows.at(Level::loop) = turns;
}

/// The kernel with its first phase's loads in so many stages of shared memory; none where it has no such loads.
std::optional<KernelCase> staged(const std::shared_ptr<const Graph>& graph, kernel::Schedule schedule, int stages,
                                 std::int64_t turns = 1, bool bulk = false) {
  for (kernel::GroupMapping& mapping : schedule.phases[0]) {
    if (turns > 1) loop_over_rows(mapping, turns);
    mapping.stages = stages;
    mapping.shared_stages = stages > 1;
    mapping.bulk_stages = bulk;
  }
  const auto structure = kernel::derive_structure(*graph, kernel::AxisAnalysis(*graph), {schedule.tile_axes, {}});
  if (!structure) return std::nullopt;
  auto program = kernel::derive_program(*graph, *structure, schedule);
  if (!program || !kernel::check_legality(*program, *find_device("h100"))) return std::nullopt;
  auto kernel = generate(*graph, *program, {});
  if (!kernel) {
    throw std::runtime_error(kernel.error().message);
  }
  return KernelCase{graph, std::move(*program), std::move(*kernel)};
}

struct RowKernel {
  std::string name;
  std::function<Result<Graph>(DType)> graph;
  std::int64_t turns = 1;  ///< of every block; 1: as many as it has
  Wish wish = [](const KernelProgram&) { return true; };
  bool bulk = false;
};

/// A few kernels with stages, spread evenly over those that the graph has.
std::vector<KernelCase> staged_cases(const RowKernel& rows, DType dtype, int stages, std::size_t most) {
  auto graph = rows.graph(dtype);
  if (!graph) {
    throw std::runtime_error(graph.error().message);
  }
  const auto shared = std::make_shared<const Graph>(std::move(*graph));
  const auto space = search::explore_space(*shared, profiler::test::GridScorer(), {.keep = 1000, .wide = true});
  if (!space) {
    throw std::runtime_error(space.error().message);
  }
  std::vector<KernelCase> all;
  for (const search::StitchCandidate& candidate : space->candidates) {
    if (auto made = staged(shared, candidate.schedule, stages, rows.turns, rows.bulk); made && rows.wish(made->program))
      all.push_back(std::move(*made));
  }
  if (all.size() <= most) return all;
  std::vector<KernelCase> spread;
  for (std::size_t i = 0; i < most; ++i) spread.push_back(std::move(all[i * all.size() / most]));
  return spread;
}

/// What the emulated device says of a kernel that is compiled for an architecture.
profiler::Verification verify_for(const KernelCase& each, std::string_view architecture) {
  static const auto compiler = NvrtcCompiler::create();
  if (!compiler) {
    throw std::runtime_error(compiler.error().message);
  }
  CompileRequest request;
  request.source = each.kernel.source;
  request.architecture = architecture;
  request.options = each.kernel.compile_options;
  const auto compiled = (*compiler)->compile(request);
  if (!compiled) {
    throw std::runtime_error(compiled.error().message + "\n" + each.kernel.source);
  }
  profiler::EmulatedDevice device;
  const auto verified =
      profiler::verify_kernel(device, *each.graph, each.program, each.kernel,
                              {each.kernel.name, compiled->ptx, compiled->cubin, compiled->architecture}, {});
  if (!verified) {
    throw std::runtime_error(verified.error().message + "\n" + each.kernel.source);
  }
  return *verified;
}

// ---- kernels --------------------------------------------------------------------------------------------------------

/// A tensor of rows as f32, and the same as it is stored.
struct Rows {
  Builder& b;
  DType dtype;
  Dims dims;
  [[nodiscard]] Value parameter() const { return b.convert(b.parameter(dtype, dims), DType::f32); }
  [[nodiscard]] Value of_each_row(Value value) const { return b.broadcast(value, dims, {0}); }
  [[nodiscard]] Value stored(Value value) const { return b.convert(value, dtype); }
};

Result<Graph> softmax(DType dtype, std::int64_t count, std::int64_t columns, bool logarithm = false) {
  Builder b;
  const Rows rows{b, dtype, {count, columns}};
  const Value x = rows.parameter();
  const Value below = b.binary(Op::subtract, x, rows.of_each_row(b.reduce(ReduceKind::max, x, {1})));
  const Value e = b.unary(Op::exp, below), sum = b.reduce(ReduceKind::sum, e, {1});
  const Value result = logarithm ? b.binary(Op::subtract, below, rows.of_each_row(b.unary(Op::log, sum)))
                                 : b.binary(Op::divide, e, rows.of_each_row(sum));
  return b.finish({rows.stored(result)});
}

/// x · gain ÷ the root of the row's squares.
Result<Graph> root_norm(DType dtype, std::int64_t count, std::int64_t columns) {
  Builder b;
  const Rows rows{b, dtype, {count, columns}};
  const Value x = rows.parameter();
  const Value gain = b.broadcast(b.convert(b.parameter(dtype, {columns}), DType::f32), rows.dims, {1});
  const Value sum = b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, x), {1});
  return b.finish({rows.stored(
      b.binary(Op::multiply, b.binary(Op::multiply, x, rows.of_each_row(b.unary(Op::rsqrt, sum))), gain))});
}

/// A row's gradient, weighted by a number of the row and a gain of the column, and the columns' sums.
Result<Graph> norm_backward(DType dtype, std::int64_t count, std::int64_t columns) {
  Builder b;
  const Rows rows{b, dtype, {count, columns}};
  const Value x = rows.parameter(), y = rows.parameter();
  const Value gain = b.broadcast(b.convert(b.parameter(dtype, {columns}), DType::f32), rows.dims, {1});
  const Value weight = rows.of_each_row(b.convert(b.parameter(dtype, {count}), DType::f32));
  const Value scaled = b.binary(Op::multiply, b.binary(Op::multiply, y, gain), weight);
  const Value sum = b.reduce(ReduceKind::sum, b.binary(Op::multiply, scaled, x), {1});
  const Value tilted = b.binary(Op::subtract, scaled, b.binary(Op::multiply, x, rows.of_each_row(sum)));
  return b.finish({rows.stored(tilted), b.reduce(ReduceKind::sum, b.binary(Op::multiply, y, x), {0})});
}

/// tanh(x) · y and the sums of its columns.
Result<Graph> column_sums(DType dtype, std::int64_t count, std::int64_t columns) {
  Builder b;
  const Rows rows{b, dtype, {count, columns}};
  const Value product = b.binary(Op::multiply, b.unary(Op::tanh, rows.parameter()), rows.parameter());
  return b.finish({rows.stored(product), b.reduce(ReduceKind::sum, product, {0})});
}

bool any_group(const KernelProgram& program, auto&& is) {
  return std::ranges::any_of(program.phases,
                             [&](const kernel::PhaseProgram& phase) { return std::ranges::any_of(phase.groups, is); });
}

bool loops_over_rows(const KernelProgram& program) {
  return any_group(program, [](const GroupProgram& group) { return !group.ahead.staged.empty(); });
}

/// Rows that loops within sweeps walk, which lie in shared memory from the first sweep to the last.
bool stays_in_stage(const KernelProgram& program) {
  return any_group(program,
                   [](const GroupProgram& group) { return !group.inner_loops.empty() && !group.ahead.staged.empty(); });
}

/// Iterations of loops within a sweep.
bool loops_in_sweep(const KernelProgram& program) {
  return any_group(program, [](const GroupProgram& group) {
    return std::ranges::any_of(group.sweeps, [](const kernel::Sweep& sweep) { return !sweep.ahead.staged.empty(); });
  });
}

// Numbers of rows that blocks do not divide: the last blocks have fewer, or none.
const RowKernel row_kernels[] = {
    {"softmax", [](DType dtype) { return softmax(dtype, 517, 256); }, 5},
    {"log_softmax", [](DType dtype) { return softmax(dtype, 77, 1000, true); }, 4, loops_over_rows},
    {"root_norm", [](DType dtype) { return root_norm(dtype, 259, 328); }, 7, loops_over_rows},
    {"norm_backward", [](DType dtype) { return norm_backward(dtype, 259, 256); }, 5, loops_over_rows},
    {"long_rows", [](DType dtype) { return softmax(dtype, 11, 8200); }, 4, stays_in_stage},
    {"column_sums", [](DType dtype) { return column_sums(dtype, 1037, 64); }, 1, loops_in_sweep},
};

/// Whether bulk copies bring several vectors of a lane at once.
bool brings_rows(const KernelProgram& program) {
  return any_group(program, [](const GroupProgram& group) {
    return std::ranges::any_of(group.ahead.staged,
                               [&](const kernel::StagedLoad& load) { return load.run > 32 * group.vector_extent(); });
  });
}
bool brings_vectors(const KernelProgram& program) { return loops_over_rows(program) && !brings_rows(program); }

const RowKernel bulk_kernels[] = {
    {"softmax", [](DType dtype) { return softmax(dtype, 517, 1024); }, 5, brings_rows, true},
    {"softmax_of_blocks", [](DType dtype) { return softmax(dtype, 67, 2048); }, 4, brings_vectors, true},
    {"log_softmax", [](DType dtype) { return softmax(dtype, 77, 512, true); }, 4, loops_over_rows, true},
    {"root_norm", [](DType dtype) { return root_norm(dtype, 259, 768); }, 7, loops_over_rows, true},
    {"norm_backward", [](DType dtype) { return norm_backward(dtype, 259, 512); }, 5, loops_over_rows, true},
    {"long_rows", [](DType dtype) { return softmax(dtype, 11, 8192); }, 4, stays_in_stage, true},
};

struct StagedCase {
  RowKernel rows;
  DType dtype;
  int stages;
};
void PrintTo(const StagedCase& each, std::ostream* out) { *out << each.rows.name; }

std::vector<StagedCase> staged_rows() {
  std::vector<StagedCase> all;
  for (const RowKernel& rows : row_kernels) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
      all.push_back({rows, dtype, 2 + static_cast<int>(all.size()) % 3});
  }
  return all;
}

class StagedRowsEmulated : public testing::TestWithParam<StagedCase> {};

TEST_P(StagedRowsEmulated, AreRight) {
  const auto& [rows, dtype, stages] = GetParam();
  const std::vector<KernelCase> cases = staged_cases(rows, dtype, stages, 2);
  std::map<std::string, int> verified_for;
  for (const KernelCase& each : cases) {
    EXPECT_THAT(each.kernel.source, HasSubstr(fmt::format("wait_for_groups<{}>();", stages - 2)));
    for (const auto& [architecture, device] : {std::pair{"sm_90a", "h100"}, std::pair{"sm_80", "a100"}}) {
      if (!kernel::check_legality(each.program, *find_device(device))) continue;
      const profiler::Verification verified = verify_for(each, architecture);
      EXPECT_TRUE(verified.correct) << architecture << ": " << verified.failure << "\n" << each.kernel.source;
      ++verified_for[architecture];
    }
  }
  EXPECT_GT(verified_for["sm_90a"], 0);
  EXPECT_GT(verified_for["sm_80"], 0);
}

const auto name_of_case = [](const auto& each) {
  return fmt::format("{}_{}_{}", each.param.rows.name, graph::to_string(each.param.dtype), each.param.stages);
};
INSTANTIATE_TEST_SUITE_P(Kernels, StagedRowsEmulated, testing::ValuesIn(staged_rows()), name_of_case);

std::vector<StagedCase> bulk_rows() {
  std::vector<StagedCase> all;
  for (const RowKernel& rows : bulk_kernels) {
    for (const DType dtype : {DType::f32, DType::bf16})
      all.push_back({rows, dtype, 2 + static_cast<int>(all.size()) % 3});
  }
  return all;
}

class BulkRowsEmulated : public testing::TestWithParam<StagedCase> {};

TEST_P(BulkRowsEmulated, AreRight) {
  const auto& [rows, dtype, stages] = GetParam();
  const std::vector<KernelCase> cases = staged_cases(rows, dtype, stages, 2);
  EXPECT_FALSE(cases.empty());
  for (const KernelCase& each : cases) {
    EXPECT_THAT(each.kernel.source, HasSubstr(fmt::format("const BulkStages<{}, ", stages)));
    EXPECT_FALSE(kernel::check_legality(each.program, *find_device("a100")));
    // The emulated device runs converged lanes in step and would not miss it: the last turn's readers are seen off
    // before their stage is filled again.
    const std::size_t loop = each.kernel.source.find("copies.await_bytes("),
                      readers = each.kernel.source.find("copies.await_readers();", loop),
                      asked = each.kernel.source.find(" ask(", loop);
    EXPECT_LT(readers, asked) << each.kernel.source;
    const profiler::Verification verified = verify_for(each, "sm_90a");
    EXPECT_TRUE(verified.correct) << verified.failure << "\n" << each.kernel.source;
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, BulkRowsEmulated, testing::ValuesIn(bulk_rows()), name_of_case);

// What is not made of whole accesses is loaded as ever: there is nothing to stage of rows of odd bf16.
TEST(StagedRows, AreOfWholeAccesses) {
  const RowKernel odd{"odd", [](DType dtype) { return norm_backward(dtype, 256, 203); }};
  EXPECT_THAT(staged_cases(odd, DType::bf16, 2, 4), testing::IsEmpty());
}

TEST(StagedRowsEmulated, ReadWhatOthersRead) {
  const KernelCase ahead = staged_cases(row_kernels[3], DType::f32, 3, 1).at(0);
  const KernelCase plain = *staged(ahead.graph, ahead.program.schedule, 1);
  const auto sectors = [](const KernelCase& each) {
    return run(each, random_inputs(*each.graph)).counters.global_loads.sectors;
  };
  EXPECT_EQ(sectors(plain), sectors(ahead));
}

// Whatever the launch before leaves alone may be loaded before the wait for it; the first turns' copies stand behind.
TEST(StagedRowsEmulated, AreAskedForBehindTheWait) {
  for (const int number : {0, 5}) {
    KernelCase each = staged_cases(row_kernels[number], DType::f32, 2, 1).at(0);
    GenerateOptions options;
    options.unwaited = ~kernel::UnwaitedInputs{0};
    auto kernel = generate(*each.graph, each.program, options);
    ASSERT_TRUE(kernel) << kernel.error().message;
    each.kernel = std::move(*kernel);
    const std::size_t wait = each.kernel.source.find("await_predecessor("),
                      asked = each.kernel.source.find("ask(0, 0)");
    ASSERT_NE(wait, std::string::npos);
    EXPECT_LT(wait, asked) << each.kernel.source;
    EXPECT_TRUE(profiler::test::verify(each).correct);
  }
}

// ---- what is found when a part is missing
// -----------------------------------------------------------------------------

constexpr std::int64_t fault_rows = 256, fault_turns = 8;

/// As many rows as the blocks have turns for: no test of a row's number hides what is read beyond the last one.
KernelCase with_three_stages() {
  const auto even = [](const KernelProgram& program) {
    const GroupProgram& group = program.phases[0].groups[0];
    const kernel::AxisMapping& axis = group.mapping.axes[0];
    return group.inner_loops.empty() && axis.covered() == fault_rows && axis.at(Level::loop) == fault_turns;
  };
  const RowKernel rows{"norm", [](DType) { return profiler::test::norm_backward(fault_rows, 256); }, fault_turns, even};
  return staged_cases(rows, DType::f32, 3, 1).at(0);
}

struct Fault {
  std::string name, from, to;
};
void PrintTo(const Fault& each, std::ostream* out) { *out << each.name; }

class StagedRowsFaultsEmulated : public testing::TestWithParam<Fault> {};

TEST_P(StagedRowsFaultsEmulated, AreFound) {
  static const KernelCase whole = with_three_stages();
  const auto& [name, from, to] = GetParam();
  EXPECT_TRUE(profiler::test::verify(whole).correct);
  EXPECT_FALSE(profiler::test::verify(profiler::test::mutated(whole, from, to)).correct);
}

const Fault faults[] = {
    {"the_wait", "wait_for_groups<1>();", ""},
    {"a_group_of_the_wait", "wait_for_groups<1>();", "wait_for_groups<2>();"},
    {"the_first_turn", "ask(0, 0);", ""},
    {"the_second_turn", "ask(1, 1);", ""},
    {"the_next_turns", "if ((i_loop + 2) < 8) ask((i_loop + 2), ((i_loop + 2) % 3));", ""},
    {"the_end", "if ((i_loop + 2) < 8) ask", "ask"},
    {"a_stage_of_its_own", "ask((i_loop + 2), ((i_loop + 2) % 3));", "ask((i_loop + 2), (i_loop % 3));"},
    {"the_stage_of_the_turn", "const int stage = (i_loop % 3);", "const int stage = ((i_loop + 1) % 3);"},
};
INSTANTIATE_TEST_SUITE_P(Parts, StagedRowsFaultsEmulated, testing::ValuesIn(faults),
                         [](const auto& each) { return each.param.name; });

// ---- bulk copies

bool covers_evenly(const KernelProgram& program) {
  const kernel::AxisMapping& axis = program.phases[0].groups[0].mapping.axes[0];
  return brings_rows(program) && axis.covered() == fault_rows && axis.at(Level::loop) == fault_turns;
}

class BulkRowsFaultsEmulated : public testing::TestWithParam<Fault> {};

TEST_P(BulkRowsFaultsEmulated, AreFound) {
  const RowKernel rows{"norm", [](DType) { return profiler::test::norm_backward(fault_rows, 256); }, fault_turns,
                       covers_evenly, true};
  static const KernelCase whole = staged_cases(rows, DType::f32, 3, 1).at(0);
  const auto& [name, from, to] = GetParam();
  static const profiler::Verification right = verify_for(whole, "sm_90a");
  EXPECT_TRUE(right.correct) << right.failure << "\n" << whole.kernel.source;
  const KernelCase wrong = profiler::test::mutated(whole, from, to);
  EXPECT_FALSE(verify_for(wrong, "sm_90a").correct) << wrong.kernel.source;
}

const Fault bulk_faults[] = {
    {"the_wait", "copies.await_bytes(i_loop % 3, i_loop / 3);", ""},
    {"the_parity", "copies.await_bytes(i_loop % 3, i_loop / 3);", "copies.await_bytes(i_loop % 3, i_loop / 3 + 1);"},
    {"the_stage_that_is_awaited", "copies.await_bytes(i_loop % 3,", "copies.await_bytes((i_loop + 1) % 3,"},
    {"some_bytes", "copies.copy<1024>", "copies.copy<512>"},
    {"the_arrival", "copies.all_asked(stage);", ""},
    {"the_barriers", "copies.begin();", ""},
    {"the_first_turn", "ask(0, 0);", ""},
    {"the_end", "if ((i_loop + 2) < 8) ask", "ask"},
    {"a_stage_of_its_own", "ask((i_loop + 2), ((i_loop + 2) % 3));", "ask((i_loop + 2), (i_loop % 3));"},
};
INSTANTIATE_TEST_SUITE_P(Parts, BulkRowsFaultsEmulated, testing::ValuesIn(bulk_faults),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace stitch::codegen::test
