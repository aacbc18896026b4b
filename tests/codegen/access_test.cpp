// How generated kernels touch memory: as wide as alignment can be proven, right at every tail, 64-bit indices only
// where an index needs them.
#include <gmock/gmock.h>

#include <regex>

#include "base/random.h"
#include "tests/codegen/kernel_run.h"
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
using ::testing::Not;

std::vector<Bytes> random_inputs(const Graph& graph, std::uint64_t seed = 1) {
  Random random(seed);
  std::vector<Bytes> inputs;
  for (const graph::NodeId id : graph.parameters()) {
    const graph::TensorType& type = graph.node(id).type();
    std::vector<double> values(type.elements());
    for (double& value : values) value = 4 * random.uniform() - 2;
    inputs.push_back(bytes_of(type.dtype, values));
  }
  return inputs;
}

// ---- widths -------------------------------------------------------------------------------------------------------

/// Bytes of the widest access of one kind ("ld", "st") to global memory in PTX.
int widest(const std::string& ptx, const std::string& kind) {
  static const std::regex pattern(R"((ld|st)\.global[.a-zA-Z0-9:]*?(\.v([248]))?\.[a-z](8|16|32|64)\b)");
  int most = 0;
  for (std::sregex_iterator it(ptx.begin(), ptx.end(), pattern), end; it != end; ++it) {
    if ((*it)[1] != kind) continue;
    const int count = (*it)[3].matched ? std::stoi((*it)[3]) : 1;
    most = std::max(most, count * std::stoi((*it)[4]) / 8);
  }
  return most;
}

Result<Graph> with_bias(const Dims& dims, DType dtype) {
  Builder b;
  const Value x = b.parameter(dtype, dims), bias = b.parameter(dtype, {dims.back()});
  return b.finish({b.binary(Op::add, x, b.broadcast(bias, dims, {1}))});
}

/// Elements `first` and following of a vector.
Result<Graph> from_offset(std::int64_t first, std::int64_t count) {
  Builder b;
  const Value x = b.parameter(DType::f32, {first + count});
  return b.finish({b.unary(Op::negate, b.slice(x, {first}, {first + count}))});
}

/// Rows that start at a multiple of `pitch` elements.
Result<Graph> rows_of_wider(std::int64_t pitch, std::int64_t columns) {
  Builder b;
  const Value x = b.parameter(DType::f32, {64, pitch});
  return b.finish({b.unary(Op::negate, b.slice(x, {0, 0}, {64, columns}))});
}

struct Width {
  std::string name;
  std::function<Result<Graph>()> graph;
  int load, store;  ///< bytes of the widest access
};
void PrintTo(const Width& each, std::ostream* out) { *out << each.name; }

class WidthEmulated : public testing::TestWithParam<Width> {};

/// Rows begin with their first element (shifted_rows_test.cpp has the others).
bool straight(const kernel::KernelProgram& program) { return !program.phases[0].groups[0].shift; }

TEST_P(WidthEmulated, IsWhatAlignmentProves) {
  const KernelCase each = make_case(GetParam().graph(), straight);
  const std::string ptx = compile(each.kernel).ptx;
  EXPECT_EQ(widest(ptx, "ld"), GetParam().load) << each.kernel.source;
  EXPECT_EQ(widest(ptx, "st"), GetParam().store) << each.kernel.source;
  expect_right(each, random_inputs(*each.graph));  // the emulator refuses a misaligned access
}

const Width widths[] = {
    {"flat_f32", [] { return profiler::test::scaled_sum({4096}); }, 16, 16},
    {"flat_bf16", [] { return profiler::test::scaled_sum({4096}, DType::bf16); }, 16, 16},
    {"flat_f64", [] { return profiler::test::scaled_sum({4096}, DType::f64); }, 16, 16},
    {"flat_odd", [] { return profiler::test::scaled_sum({4097}); }, 16, 16},
    {"flat_in_rows",
     [] {
       return profiler::test::scaled_sum({63, 65});
     },
     16, 16},
    {"rows_f32_by_4",
     [] {
       return with_bias({64, 1000}, DType::f32);
     },
     16, 16},
    {"rows_f32_by_2",
     [] {
       return with_bias({64, 1002}, DType::f32);
     },
     8, 8},
    {"rows_f32_odd",
     [] {
       return with_bias({64, 1001}, DType::f32);
     },
     4, 4},
    {"rows_bf16_by_8",
     [] {
       return with_bias({64, 1000}, DType::bf16);
     },
     16, 16},
    {"rows_bf16_by_4",
     [] {
       return with_bias({64, 1004}, DType::bf16);
     },
     8, 8},
    {"rows_bf16_by_2",
     [] {
       return with_bias({64, 1002}, DType::bf16);
     },
     4, 4},
    {"rows_bf16_odd",
     [] {
       return with_bias({64, 1001}, DType::bf16);
     },
     2, 2},
    {"offset_4", [] { return from_offset(4, 4096); }, 16, 16},
    {"offset_2", [] { return from_offset(2, 4096); }, 8, 16},
    {"offset_1", [] { return from_offset(1, 4096); }, 4, 16},
    {"pitch_by_4", [] { return rows_of_wider(1004, 1000); }, 16, 16},
    {"pitch_odd", [] { return rows_of_wider(1001, 1000); }, 4, 16},
};
INSTANTIATE_TEST_SUITE_P(Layouts, WidthEmulated, testing::ValuesIn(widths),
                         [](const auto& each) { return each.param.name; });

// One request per 16 bytes and lane, as the emulator counts them, and no sector twice.
TEST(AccessEmulated, RequestsAreFullAndNoSectorIsTouchedTwice) {
  const KernelCase each = make_case(profiler::test::scaled_sum({1 << 16}));
  const KernelOutcome outcome = run(each, random_inputs(*each.graph));
  constexpr std::uint64_t bytes = (1 << 16) * 4, per_request = 32 * 16;
  EXPECT_EQ(outcome.counters.global_loads.requests, 2 * bytes / per_request) << each.kernel.source;
  EXPECT_EQ(outcome.counters.global_loads.sectors, 2 * bytes / 32);
  EXPECT_EQ(outcome.counters.global_loads.unique_sectors, 2 * bytes / 32);
  EXPECT_EQ(outcome.counters.global_stores.requests, bytes / per_request);
  EXPECT_EQ(outcome.counters.global_stores.sectors, bytes / 32);
}

// What tiles leave for the next phase is stored a vector at a time: lanes whose columns are 16 bytes each would touch a
// sector each, four times over.
TEST(AccessEmulated, PartialResultsAreStoredByVectors) {
  Builder b;
  auto graph = b.finish({b.reduce(ReduceKind::sum, b.parameter(DType::f32, {4096, 256}), {0})});
  const auto by_vectors = [](const kernel::KernelProgram& p) {
    const kernel::GroupProgram& group = p.phases[0].groups[0];
    return p.phases.size() == 2 && group.structure.has_partials() && group.mapping.vector_axis == 1 &&
           group.extent(1, kernel::Level::vector) == 4 && group.extent(1, kernel::Level::lane) >= 8;
  };
  const KernelCase each = make_case(std::move(graph), by_vectors);
  const KernelOutcome outcome = run(each, random_inputs(*each.graph));
  EXPECT_THAT(each.kernel.source, HasSubstr("store<4>(scratch0"));
  EXPECT_EQ(outcome.counters.global_stores.sectors, outcome.counters.global_stores.unique_sectors)
      << each.kernel.source;
}

// ---- tails --------------------------------------------------------------------------------------------------------

class TailEmulated : public testing::TestWithParam<std::int64_t> {};

TEST_P(TailEmulated, FlatVectors) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::pred}) {
    Builder b;
    const Value x = b.parameter(dtype, {GetParam()}), y = b.parameter(dtype, {GetParam()});
    const KernelCase each = make_case(b.finish({b.binary(Op::maximum, x, y)}));
    expect_right(each, random_inputs(*each.graph));
  }
}

TEST_P(TailEmulated, Rows) {
  const KernelCase each = make_case(profiler::test::softmax(5, GetParam()));
  expect_right(each, random_inputs(*each.graph));
}

TEST_P(TailEmulated, ColumnsBothWays) {
  for (const Dims& dims : {Dims{GetParam(), 6}, Dims{6, GetParam()}}) {
    Builder b;
    const Value x = b.parameter(DType::bf16, dims);
    const KernelCase each = make_case(b.finish({b.reduce(ReduceKind::sum, x, {0}), b.reduce(ReduceKind::max, x, {1})}));
    expect_right(each, random_inputs(*each.graph));
  }
}

TEST_P(TailEmulated, Transposed) {
  const KernelCase each = make_case(profiler::test::transposed({GetParam(), 33}, {1, 0}, DType::f16));
  expect_right(each, random_inputs(*each.graph));
}

// Around the vector widths, the lanes, and what a warp or a block covers.
INSTANTIATE_TEST_SUITE_P(Extents, TailEmulated,
                         testing::Values(1, 3, 4, 5, 7, 8, 9, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1023, 1024,
                                         1025));

// ---- index arithmetic ---------------------------------------------------------------------------------------------

TEST(IndexEmulated, SmallTensorsUse32Bits) {
  for (const auto& graph : {profiler::test::scaled_sum({1 << 20}), profiler::test::softmax(64, 300),
                            profiler::test::transposed({300, 700}, {1, 0}), profiler::test::norm_backward(256, 250)}) {
    EXPECT_THAT(make_case(graph).kernel.source, Not(HasSubstr("s64")));
  }
}

// 3 · 2^30 elements: the last ones lie beyond what 32 bits can name.
TEST(IndexEmulated, LargeTensorsUse64Bits) {
  Builder b;
  const Dims dims = {3, std::int64_t{1} << 30};
  const Value x = b.parameter(DType::u8, dims), y = b.parameter(DType::u8, {3});
  const KernelCase each = make_case(b.finish({b.binary(Op::bit_xor, x, b.broadcast(y, dims, {0}))}));
  EXPECT_THAT(each.kernel.source, HasSubstr("s64"));
  profiler::VerifyOptions options;
  options.distributions = {profiler::Distribution::mixed};
  options.work_budget = 1 << 16;
  const profiler::Verification verification = profiler::test::verify(each, options);
  EXPECT_TRUE(verification.correct) << verification.failure << "\n" << each.kernel.source;
}

// Indices that the graph takes as data are clamped, whatever they are.
TEST(IndexEmulated, LookUpsClampEveryIndex) {
  const KernelCase each = make_case(profiler::test::looked_up(50, 8, 6));
  const std::vector<double> indices = {0, 49, 50, -1, 2147483647, -2147483648.0};
  std::vector<Bytes> inputs = random_inputs(*each.graph);
  inputs[1] = bytes_of(DType::s32, indices);
  expect_right(each, inputs);
}

}  // namespace
}  // namespace stitch::codegen::test
