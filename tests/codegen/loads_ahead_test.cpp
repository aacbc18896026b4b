// Loads that are made a turn of a loop ahead: every candidate is right, reads nothing twice and nothing beyond the last
// row, and each part of the pipeline is missed when it is dropped.
#include <gmock/gmock.h>

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
using ::testing::HasSubstr;

bool any_group(const kernel::KernelProgram& program, auto&& is) {
  return std::ranges::any_of(program.phases,
                             [&](const kernel::PhaseProgram& phase) { return std::ranges::any_of(phase.groups, is); });
}

bool rows_ahead(const kernel::KernelProgram& program) {
  return any_group(program, [](const kernel::GroupProgram& group) { return !group.ahead.loads.empty(); });
}

bool iterations_ahead(const kernel::KernelProgram& program) {
  return any_group(program, [](const kernel::GroupProgram& group) {
    return std::ranges::any_of(group.sweeps, [](const kernel::Sweep& sweep) { return !sweep.ahead.loads.empty(); });
  });
}

bool shifted_ahead(const kernel::KernelProgram& program) {
  return any_group(program, [](const kernel::GroupProgram& group) { return group.shift && group.mapping.stages > 1; });
}

/// Gradients of rows in bf16 that are weighted by a number of each row and a gain of each column.
Result<Graph> weighted_backward(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.convert(b.parameter(DType::bf16, dims), DType::f32);
  const Value y = b.convert(b.parameter(DType::bf16, dims), DType::f32);
  const Value gain = b.broadcast(b.convert(b.parameter(DType::bf16, {columns}), DType::f32), dims, {1});
  const Value weight = b.broadcast(b.convert(b.parameter(DType::bf16, {rows}), DType::f32), dims, {0});
  const Value scaled = b.binary(Op::multiply, b.binary(Op::multiply, y, gain), weight);
  const Value sum = b.reduce(ReduceKind::sum, b.binary(Op::multiply, scaled, x), {1});
  const Value tilted = b.binary(Op::subtract, scaled, b.binary(Op::multiply, x, b.broadcast(sum, dims, {0})));
  return b.finish({b.convert(tilted, DType::bf16), b.reduce(ReduceKind::sum, b.binary(Op::multiply, y, x), {0})});
}

/// tanh(x)·y, and the sums of its columns: a loop over rows within a sweep.
Result<Graph> columns_of_products(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.parameter(DType::f32, dims), y = b.parameter(DType::f32, dims);
  const Value product = b.binary(Op::multiply, b.unary(Op::tanh, x), y);
  return b.finish({product, b.reduce(ReduceKind::sum, product, {0})});
}

Result<Graph> half_softmax(std::int64_t rows, std::int64_t columns) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.convert(b.parameter(DType::bf16, dims), DType::f32);
  const Value most = b.reduce(ReduceKind::max, x, {1});
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, b.broadcast(most, dims, {0})));
  const Value sum = b.reduce(ReduceKind::sum, e, {1});
  return b.finish({b.convert(b.binary(Op::divide, e, b.broadcast(sum, dims, {0})), DType::bf16)});
}

struct Ahead {
  std::string name;
  std::function<Result<Graph>()> graph;
  Wish wish;
  std::size_t least;     ///< candidates with loads ahead
  std::size_t most = 6;  ///< of them, spread evenly
};
void PrintTo(const Ahead& each, std::ostream* out) { *out << each.name; }

class LoadsAheadEmulated : public testing::TestWithParam<Ahead> {};

TEST_P(LoadsAheadEmulated, AreRight) {
  const std::vector<KernelCase> cases = cases_of(GetParam().graph(), GetParam().wish, GetParam().most);
  EXPECT_GE(cases.size(), GetParam().least);
  for (const KernelCase& each : cases) {
    EXPECT_THAT(each.kernel.source, HasSubstr("fetch("));
    expect_right(each, random_inputs(*each.graph));
    if (HasFailure()) return;
  }
}

const Ahead piped[] = {
    {"norm_backward", [] { return profiler::test::norm_backward(1024, 256); }, rows_ahead, 4},
    {"odd_rows", [] { return profiler::test::norm_backward(1037, 200); }, rows_ahead, 4},
    {"a_number_of_each_row", [] { return weighted_backward(999, 320); }, rows_ahead, 4},
    {"rows_that_vectors_do_not_divide", [] { return weighted_backward(515, 203); }, rows_ahead, 4},
    {"shifted_rows", [] { return half_softmax(5, 3001); }, shifted_ahead, 2},
    {"columns", [] { return columns_of_products(1024, 64); }, iterations_ahead, 4},
    {"odd_columns", [] { return columns_of_products(1031, 37); }, iterations_ahead, 4},
    {"long_rows", [] { return profiler::test::softmax(3, 3001); }, iterations_ahead, 4},
};
INSTANTIATE_TEST_SUITE_P(Graphs, LoadsAheadEmulated, testing::ValuesIn(piped),
                         [](const auto& each) { return each.param.name; });

// A loop of one turn has no next one.
TEST(LoadsAhead, NeedASecondTurn) {
  for (const std::int64_t rows : {0, 1}) {
    EXPECT_THAT(cases_of(profiler::test::norm_backward(rows, 256), rows_ahead, 4), testing::IsEmpty()) << rows;
  }
}

/// As many rows as threads have turns for: no test of a row's number keeps what is beyond the last one from being read.
constexpr std::int64_t rows = 1024;

std::int64_t turns_of(const kernel::KernelProgram& program) {
  return program.phases[0].groups[0].extent(0, kernel::Level::loop);
}

KernelCase with_rows_ahead() {
  const auto wish = [](const kernel::KernelProgram& program) {
    const kernel::GroupProgram& group = program.phases[0].groups[0];
    return !group.ahead.loads.empty() && turns_of(program) > 2 && group.mapping.axes[0].covered() == rows;
  };
  return cases_of(profiler::test::norm_backward(rows, 256), wish, 1).at(0);
}

/// The same with each row's loads in its turn.
KernelCase without(const KernelCase& ahead) {
  KernelCase plain = ahead;
  for (kernel::PhaseProgram& phase : plain.program.phases) {
    for (kernel::GroupProgram& group : phase.groups) {
      group.mapping.stages = 1;
      group.ahead = {};
      for (kernel::Sweep& sweep : group.sweeps) sweep.ahead = {};
    }
  }
  auto kernel = generate(*plain.graph, plain.program, {});
  if (!kernel) {
    throw std::runtime_error(kernel.error().message);
  }
  plain.kernel = std::move(*kernel);
  return plain;
}

/// What the pipeline is made of, and what it is without.
struct Fault {
  std::string name, from, to;
};
void PrintTo(const Fault& each, std::ostream* out) { *out << each.name; }

class LoadsAheadFaultsEmulated : public testing::TestWithParam<Fault> {};

TEST_P(LoadsAheadFaultsEmulated, IsMissed) {
  const KernelCase whole = with_rows_ahead();
  const auto with_turns = [&](std::string text) {
    const std::size_t at = text.find("TURNS");
    return at == std::string::npos ? text : text.replace(at, 5, fmt::format("{}", turns_of(whole.program)));
  };
  const auto [name, from, to] = GetParam();
  EXPECT_TRUE(profiler::test::verify(whole).correct);
  EXPECT_FALSE(profiler::test::verify(profiler::test::mutated(whole, with_turns(from), with_turns(to))).correct);
}

const Fault faults[] = {
    {"the_first_turns_loads", "fetch(0);", ""},
    {"the_next_turns_loads", "if (i_loop + 1 < TURNS) fetch(i_loop + 1);", ""},
    {"what_a_turn_takes_over", "take_over(in1_1, in1_1_next);", "take_over(in1_1, in0_0_next);"},
    {"loads_behind_what_is_taken_over", "take_over(in0_0, in0_0_next);",
     "if (i_loop + 1 < TURNS) fetch(i_loop + 1); take_over(in0_0, in0_0_next);"},
    {"the_end", "if (i_loop + 1 < TURNS) fetch", "fetch"},
};
INSTANTIATE_TEST_SUITE_P(Parts, LoadsAheadFaultsEmulated, testing::ValuesIn(faults),
                         [](const auto& each) { return each.param.name; });

TEST(LoadsAheadEmulated, ReadWhatOthersRead) {
  const KernelCase early = with_rows_ahead(), plain = without(early);
  const auto loads = [](const KernelCase& each) { return run(each, random_inputs(*each.graph)).counters.global_loads; };
  EXPECT_EQ(loads(plain).requests, loads(early).requests);
  EXPECT_EQ(loads(plain).sectors, loads(early).sectors);
}

}  // namespace
}  // namespace stitch::codegen::test
