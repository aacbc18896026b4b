// The maximum of a row and the sum of its exponentials as one reduction, on the emulated device under its race
// detector: over the lanes of a warp, the warps of a block, the blocks of a cluster and of the grid, by vectors and
// element by element; and that each of the header's steps is noticed where it is missing.

#include <gtest/gtest.h>

#include <ostream>

#include "base/random.h"
#include "graph/builder.h"
#include "tests/codegen/kernel_run.h"

namespace stitch::codegen::test {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::Value;
using kernel::KernelProgram;
using kernel::ReductionPlan;
using profiler::test::mutated;

enum class Results { pair, log_sum_exp, softmax, column_sums };

struct Row {
  std::string name;
  Dims dims;
  Dims along;
  DType dtype = DType::f32;   ///< of the operand
  DType stored = DType::f32;  ///< of the parameter
  Results results = Results::pair;
  Wish wish = profiler::test::any;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

Result<graph::Graph> reduced(const Row& row) {
  Builder b;
  const Value in = b.parameter(row.stored, row.dims), x = row.stored == row.dtype ? in : b.convert(in, row.dtype);
  const Value both = b.add(Op::max_exp_sum, {x}, graph::MaxExpSumAttributes{row.along});
  const Value sum{both.node, 1};
  if (row.results == Results::pair) return b.finish({both, sum});
  if (row.results == Results::log_sum_exp) return b.finish({b.binary(Op::add, both, b.unary(Op::log, sum))});
  Dims kept;
  for (std::int64_t d = 0; d < std::ssize(row.dims); ++d) {
    if (std::ranges::count(row.along, d) == 0) kept.push_back(d);
  }
  const Value e = b.unary(Op::exp, b.binary(Op::subtract, x, b.broadcast(both, row.dims, kept)));
  const Value softmax = b.binary(Op::divide, e, b.broadcast(sum, row.dims, kept));
  if (row.results == Results::softmax) return b.finish({softmax});
  return b.finish({b.reduce(graph::ReduceKind::sum, softmax, kept)});
}

const ReductionPlan& plan_of(const KernelProgram& program) { return program.phases[0].groups[0].reductions.at(0); }
bool has_vectors(const KernelProgram& program) {
  const kernel::GroupProgram& group = program.phases[0].groups[0];
  return group.vector_extent() > 1 &&
         group.structure.anchors[plan_of(program).anchor].reduced.contains(group.mapping.vector_axis);
}
bool in_warp(const KernelProgram& p) {
  return p.phases.size() == 1 && plan_of(p).exchange == 1 && plan_of(p).cluster == 1 && !plan_of(p).shuffles.empty();
}
bool in_thread(const KernelProgram& p) {
  return p.phases.size() == 1 && plan_of(p).exchange == 1 && plan_of(p).cluster == 1 && plan_of(p).shuffles.empty();
}
bool in_block(const KernelProgram& p) {
  return p.phases.size() == 1 && plan_of(p).cluster == 1 && plan_of(p).exchange > 1;
}
bool by_lanes(const KernelProgram& p) { return in_block(p) && plan_of(p).lanes_exchange; }
bool by_threads(const KernelProgram& p) { return in_block(p) && !plan_of(p).lanes_exchange; }
bool in_cluster(const KernelProgram& p) { return p.phases.size() == 1 && plan_of(p).cluster > 1; }
/// Each thread combines what all blocks of the cluster have of its columns.
bool columns_of_cluster(const KernelProgram& p) { return in_cluster(p) && !plan_of(p).lanes_cluster; }
bool in_grid(const KernelProgram& p) { return p.phases.size() > 1; }
Wish vectors(const Wish& wish) {
  return [=](const KernelProgram& p) { return wish(p) && has_vectors(p); };
}
Wish elements(const Wish& wish) {
  return [=](const KernelProgram& p) { return wish(p) && !has_vectors(p); };
}
/// Rows that are read in several turns, each of which adds to what the thread has.
Wish streaming(const Wish& wish) {
  return [=](const KernelProgram& p) {
    const kernel::GroupProgram& group = p.phases[0].groups[0];
    return wish(p) && !group.inner_loops.empty();
  };
}

/// Rows one after the other, whose exchanges take turns in shared memory.
bool in_a_loop(const KernelProgram& p) {
  const kernel::GroupProgram& group = p.phases[0].groups[0];
  return group.structure.anchors[plan_of(p).anchor].kind == kernel::Anchor::Kind::reduce && plan_of(p).exchange > 1 &&
         !group.outer_loops.empty();
}

/// Every row of another kind: moderate, rising, wide apart, masked for the most part, with nothing but −∞, the least
/// finite number, +∞, NaN. Without `special` all are moderate.
std::vector<double> special_rows(const Dims& dims, const Dims& along, std::uint64_t seed, DType stored, bool special) {
  Random random(seed);
  const double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> values(graph::element_count(dims));
  std::int64_t row_length = 1;
  for (const std::int64_t d : along) row_length *= dims[d];
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    std::int64_t rest = i, row = 0, stride = 1, place = 0, inner = 1;
    for (std::int64_t d = std::ssize(dims) - 1; d >= 0; --d) {
      const std::int64_t at = rest % dims[d];
      rest /= dims[d];
      if (std::ranges::count(along, d) > 0) {
        place += at * inner;
        inner *= dims[d];
      } else {
        row += at * stride;
        stride *= dims[d];
      }
    }
    const double noise = random.uniform() * 8 - 4;
    switch (special ? row % 9 : 0) {
      case 0: values[i] = noise; break;
      case 1: values[i] = 40.0 * place / row_length; break;
      case 2: values[i] = noise * 20; break;
      case 3: values[i] = place % 97 == 96 ? noise : -infinity; break;
      case 4: values[i] = -infinity; break;
      case 5: values[i] = graph::byte_size(stored) > 2 ? -std::numeric_limits<float>::max() : -6e4; break;
      case 6: values[i] = place == row_length / 2 ? infinity : noise; break;
      case 7: values[i] = place == row_length / 3 ? std::nan("") : noise; break;
      default: values[i] = -40.0 * place / row_length; break;
    }
  }
  return values;
}

const search::StitchOptions every_schedule = {.keep = 100'000, .wide = true, .combinations = 100};

class MaxExpSumEmulated : public testing::TestWithParam<Row> {};

TEST_P(MaxExpSumEmulated, IsRight) {
  const Row& row = GetParam();
  const KernelCase each = make_case(reduced(row), row.wish, every_schedule);
  expect_right(each, {bytes_of(row.stored,
                               special_rows(row.dims, row.along, 5, row.stored, row.results != Results::column_sums))});
}

const Row rows[] = {
    {"warp", {18, 256}, {1}, DType::f32, DType::f32, Results::pair, in_warp},
    {"warp_vectors", {18, 256}, {1}, DType::f32, DType::f32, Results::softmax, vectors(in_warp)},
    {"warp_odd", {18, 251}, {1}, DType::f32, DType::f32, Results::pair, in_warp},
    {"block", {9, 2048}, {1}, DType::f32, DType::f32, Results::pair, by_lanes},
    {"block_vectors", {9, 4096}, {1}, DType::f32, DType::f32, Results::softmax, vectors(by_lanes)},
    {"block_elements", {9, 2047}, {1}, DType::f32, DType::f32, Results::softmax, elements(in_block)},
    {"block_tail", {9, 2050}, {1}, DType::f32, DType::f32, Results::pair, vectors(in_block)},
    {"block_streaming", {9, 8192}, {1}, DType::f32, DType::f32, Results::log_sum_exp, streaming(vectors(in_block))},
    {"block_streaming_odd", {9, 8191}, {1}, DType::f32, DType::f32, Results::softmax, streaming(in_block)},
    {"block_rows_in_a_loop", {300, 2048}, {1}, DType::f32, DType::f32, Results::column_sums, in_a_loop},
    {"columns", {512, 36}, {0}, DType::f32, DType::f32, Results::pair, by_threads},
    {"columns_softmax", {300, 40}, {0}, DType::f32, DType::f32, Results::softmax, in_block},
    {"columns_in_a_thread", {6, 4096}, {0}, DType::f32, DType::f32, Results::pair, in_thread},
    {"channels", {4, 12, 260}, {0, 2}, DType::f32, DType::f32, Results::pair, profiler::test::any},
    {"cluster", {9, 16384}, {1}, DType::f32, DType::f32, Results::softmax, vectors(in_cluster)},
    {"cluster_columns", {512, 64}, {0}, DType::f32, DType::f32, Results::pair, columns_of_cluster},
    {"cluster_odd", {9, 9001}, {1}, DType::f32, DType::f32, Results::pair, in_cluster},
    {"grid", {2, 65536}, {1}, DType::f32, DType::f32, Results::pair, in_grid},
    {"grid_softmax", {65536}, {0}, DType::f32, DType::f32, Results::softmax, vectors(in_grid)},
    {"grid_columns", {4096, 18}, {0}, DType::f32, DType::f32, Results::pair, in_grid},
    {"f64_warp", {18, 256}, {1}, DType::f64, DType::f64, Results::pair, in_warp},
    {"f64_block", {9, 2048}, {1}, DType::f64, DType::f64, Results::softmax, in_block},
    {"f64_cluster", {9, 8192}, {1}, DType::f64, DType::f64, Results::log_sum_exp, in_cluster},
    {"f64_grid", {65536}, {0}, DType::f64, DType::f64, Results::pair, in_grid},
    {"f16", {9, 4096}, {1}, DType::f32, DType::f16, Results::softmax, vectors(in_block)},
    {"bf16", {9, 4096}, {1}, DType::f32, DType::bf16, Results::pair, vectors(in_block)},
    {"bf16_odd", {9, 2049}, {1}, DType::f32, DType::bf16, Results::log_sum_exp, in_block},
};
INSTANTIATE_TEST_SUITE_P(Exchanges, MaxExpSumEmulated, testing::ValuesIn(rows),
                         [](const auto& each) { return each.param.name; });

/// The kernel with a function of the header replaced by another: an explicit specialisation behind its inclusion.
KernelCase with_fault(const KernelCase& each, const std::string& specialisation) {
  const std::string include = "#include \"stitch/kernel.cuh\"\n";
  return mutated(each, include, include + "namespace stitch {\n" + specialisation + "}\n");
}

/// Whether a result of the kernel is wrong.
bool is_noticed(const KernelCase& each, const Row& row) {
  const Bytes input =
      bytes_of(row.stored, special_rows(row.dims, row.along, 5, row.stored, row.results != Results::column_sums));
  const graph::TensorType& type = each.graph->node(each.graph->parameters()[0]).type();
  graph::EvaluateOptions options;
  options.bounds = true;
  options.error_model.flush_denormals = true;
  const auto reference = graph::evaluate(
      *each.graph, std::vector{graph::tensor_from_bytes(type, graph::Box::whole(type.dims), input)}, options);
  if (!reference) throw std::runtime_error(reference.error().message);
  const KernelOutcome outcome = run(each, {input});
  for (std::size_t r = 0; r < reference->size(); ++r) {
    const graph::Tensor& want = (*reference)[r];
    const graph::Tensor got = graph::tensor_from_bytes(want.type, want.box, outcome.results[r]);
    for (std::int64_t i = 0; i < want.elements(); ++i) {
      if (!graph::accepts(want.at(i), want.bound(i), got.at(i))) return true;
    }
  }
  return false;
}

const std::string no_rescaling_in_exchanges =
    "template <> __device__ f32 rescaled_sum<f32>(const MaxExpSum<f32>& x, f32) { return x.sum; }\n";
const std::string no_nan = "template <> __device__ f32 complete_sum<f32>(const MaxExpSum<f32>& x) { return x.sum; }\n";

TEST(MaxExpSumFaultsEmulated, EveryExchangeNeedsItsRescaling) {
  for (const char* name : {"warp", "block", "columns", "cluster_odd", "cluster_columns", "grid_columns"}) {
    const Row& row = *std::ranges::find(rows, name, &Row::name);
    const KernelCase each = make_case(reduced(row), row.wish, every_schedule);
    EXPECT_FALSE(is_noticed(each, row)) << name;
    EXPECT_TRUE(is_noticed(with_fault(each, no_rescaling_in_exchanges), row)) << name;
    EXPECT_TRUE(is_noticed(with_fault(each, no_nan), row)) << name;
  }
}

TEST(MaxExpSumFaultsEmulated, SoDoVectorsAndElements) {
  const Row& vectors_row = *std::ranges::find(rows, "block_streaming", &Row::name);
  const KernelCase by_vectors = make_case(reduced(vectors_row), vectors_row.wish, every_schedule);
  const std::int64_t width = by_vectors.program.phases[0].groups[0].vector_extent();
  EXPECT_TRUE(is_noticed(with_fault(by_vectors, fmt::format(R"(
template <> __device__ void add_exponentials<{0}, f32>(MaxExpSum<f32>& to, const f32 (&x)[{0}]) {{
  f32 greatest = to.maximum;
  for (int i = 0; i < {0}; ++i) greatest = maximum(greatest, x[i]);
  for (int i = 0; i < {0}; ++i) to.sum += exponential(x[i] - exponent_base(greatest));
  to.maximum = greatest;
}}
)",
                                                            width)),
                         vectors_row));
  const Row& elements_row = *std::ranges::find(rows, "block_elements", &Row::name);
  const KernelCase by_elements = make_case(reduced(elements_row), elements_row.wish, every_schedule);
  EXPECT_TRUE(is_noticed(with_fault(by_elements, R"(
template <> __device__ void add_exponential<f32>(MaxExpSum<f32>& to, f32 x) {
  to.maximum = maximum(to.maximum, x);
  to.sum += exponential(x - exponent_base(to.maximum));
}
)"),
                         elements_row));
}

// Rows that begin with −∞ (a causal mask) would be −∞ − −∞ for as long as they do.
TEST(MaxExpSumFaultsEmulated, MaskedElementsNeedAnotherBase) {
  for (const char* name : {"warp", "block_streaming", "block_elements", "cluster"}) {
    const Row& row = *std::ranges::find(rows, name, &Row::name);
    const KernelCase each = make_case(reduced(row), row.wish, every_schedule);
    EXPECT_TRUE(is_noticed(
        with_fault(each, "template <> __device__ f32 exponent_base<f32>(f32 greatest) { return greatest; }\n"), row))
        << name;
  }
}

}  // namespace
}  // namespace stitch::codegen::test
