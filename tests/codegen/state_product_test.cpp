// codegen/device/state_product.cuh by itself: what it multiplies, where fragments and sums lie, and which banks it
// meets.
#include <gmock/gmock.h>

#include "base/random.h"
#include "graph/builder.h"
#include "kernel/program/state_products.h"
#include "tests/codegen/kernel_run.h"

namespace stitch::codegen::test {
namespace {

using graph::DType;
using kernel::StateProducts;
using ::testing::HasSubstr;

struct Shape {
  std::string name;
  std::int64_t rows = 8, columns = 32, depth = 32;
  int column_warps = 2, depth_warps = 1, tiles = 1, chunks = 1, tiles_at_once = 1;
  bool in_registers = true;
  DType dtype = DType::f16;
  std::int64_t pitch = 0;  ///< 0: the depth
  int idle_warps = 0;
  bool conflicts = false;  ///< some accesses meet in a bank, of the product or of what stores its result
};

void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

StateProducts product_of(const Shape& s) {
  StateProducts p;
  p.parts = {{}};
  p.dtype = s.dtype;
  p.rows = s.rows;
  p.columns = s.columns;
  p.depth = s.depth;
  p.pitch = s.pitch == 0 ? s.depth : s.pitch;
  p.column_warps = s.column_warps;
  p.depth_warps = s.depth_warps;
  p.tiles = s.tiles;
  p.chunks = s.chunks;
  p.tiles_at_once = s.tiles_at_once;
  p.in_registers = s.in_registers;
  p.threads = 32 * (p.warps() + s.idle_warps);
  return p;
}

/// state[rows, pitch] · weights[depth, columns] by one block.
KernelCase case_of(const Shape& s) {
  const StateProducts p = product_of(s);
  graph::Builder b;
  const graph::Value state = b.slice(b.parameter(s.dtype, {p.rows, p.pitch}), {0, 0}, {p.rows, p.depth});
  const graph::Value weights = b.parameter(s.dtype, {p.depth, p.columns});
  KernelCase made;
  made.graph = std::make_shared<const graph::Graph>(*b.finish({b.dot(state, weights, {{}, {}, {1}, {0}, DType::f32})}));
  const std::int64_t state_bytes = (p.rows * p.pitch * 2 + 15) / 16 * 16;
  const std::string type = s.dtype == DType::f16 ? "f16" : "bf16";
  GeneratedKernel& kernel = made.kernel;
  kernel.name = "multiply";
  kernel.blocks = 1;
  kernel.threads = p.threads;
  kernel.shared_bytes = state_bytes + p.sum_bytes() + p.fragment_bytes();
  kernel.arguments = {{Argument::Kind::buffer, {kernel::Buffer::Kind::input, 0}, 0},
                      {Argument::Kind::buffer, {kernel::Buffer::Kind::input, 1}, 0},
                      {Argument::Kind::buffer, {kernel::Buffer::Kind::output, 0}, 0}};
  const std::string fragments =
      s.in_registers
          ? "Tested::Fragments fragments;"
          : fmt::format("uint4* const fragments = reinterpret_cast<uint4*>(shared + {});", state_bytes + p.sum_bytes());
  kernel.source = fmt::format(
      R"(#include "stitch/kernel.cuh"
#include "stitch/state_product.cuh"
using namespace stitch;
using Tested = StateProduct<{mma}, {type}, {rows}, {columns}, {depth}, {pitch}, {cw}, {dw}, {tiles}, {chunks}, {at_once}, {run}, {paired}, {sum_pitch}>;
extern "C" __global__ void __launch_bounds__({threads}) multiply(const {type}* in0, const {type}* in1, f32* out0) {{
  extern __shared__ __align__(16) unsigned char shared[];
  {type}* const state = reinterpret_cast<{type}*>(shared);
  f32* const sums = reinterpret_cast<f32*>(shared + {state_bytes});
  for (int i = threadIdx.x; i < {rows} * {pitch}; i += {threads}) state[i] = in0[i];
  {fragments}
  Tested::load(fragments, [&](int column) -> WeightColumn<{type}> {{ return {{in1 + column, {columns}, true}}; }});
  __syncthreads();
  Tested::multiply(fragments, state, sums);
  __syncthreads();
  for (int i = threadIdx.x; i < {rows} * {columns}; i += {threads})
    out0[i] = Tested::sum(sums + i / {columns} * {sum_pitch} + i % {columns});
}}
)",
      fmt::arg("mma", s.dtype == DType::f16 ? "MmaF16" : "MmaBf16"), fmt::arg("type", type), fmt::arg("rows", p.rows),
      fmt::arg("columns", p.columns), fmt::arg("depth", p.depth), fmt::arg("pitch", p.pitch),
      fmt::arg("cw", p.column_warps), fmt::arg("dw", p.depth_warps), fmt::arg("tiles", p.tiles),
      fmt::arg("chunks", p.chunks), fmt::arg("at_once", p.tiles_at_once), fmt::arg("run", p.run()),
      fmt::arg("paired", p.paired_rows()), fmt::arg("sum_pitch", p.sum_pitch()), fmt::arg("threads", p.threads),
      fmt::arg("state_bytes", state_bytes), fmt::arg("fragments", fragments));
  return made;
}

std::vector<Bytes> inputs_of(const Shape& s) {
  Random random(7);
  std::vector<Bytes> inputs;
  const StateProducts p = product_of(s);
  for (const std::int64_t count : {p.rows * p.pitch, p.depth * p.columns}) {
    std::vector<double> values(count);
    for (double& value : values) value = 2 * random.uniform() - 1;
    inputs.push_back(bytes_of(s.dtype, values));
  }
  return inputs;
}

class StateProductEmulated : public testing::TestWithParam<Shape> {};

TEST_P(StateProductEmulated, IsRight) {
  const Shape& s = GetParam();
  const StateProducts p = product_of(s);
  const std::vector<Bytes> inputs = inputs_of(s);
  const KernelOutcome outcome = run(case_of(s), inputs);
  const auto at = [&](const Bytes& bytes, std::int64_t i) { return graph::load_element(s.dtype, &bytes[2 * i]); };
  int wrong = 0;
  for (std::int64_t row = 0; row < p.rows; ++row) {
    for (std::int64_t column = 0; column < p.columns; ++column) {
      double want = 0, magnitude = 0;
      for (std::int64_t k = 0; k < p.depth; ++k) {
        const double product = at(inputs[0], row * p.pitch + k) * at(inputs[1], k * p.columns + column);
        want += product;
        magnitude += std::abs(product);
      }
      const double got = graph::load_element(DType::f32, &outcome.results[0][4 * (row * p.columns + column)]);
      if (std::abs(got - want) <= magnitude * 1e-5) continue;
      if (++wrong < 5) ADD_FAILURE() << fmt::format("row {} column {}: {} instead of {}", row, column, got, want);
    }
  }
  EXPECT_EQ(outcome.counters.shared_extra_wavefronts == 0, !s.conflicts) << outcome.counters.shared_extra_wavefronts;
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, StateProductEmulated,
    testing::Values(
        Shape{.name = "one_instruction_pair"}, Shape{.name = "bf16", .dtype = DType::bf16},
        Shape{.name = "a_bank_row",
              .rows = 16,
              .columns = 64,
              .depth = 64,
              .column_warps = 4,
              .chunks = 2,
              .tiles_at_once = 2},
        Shape{.name = "wide",
              .rows = 32,
              .columns = 128,
              .depth = 256,
              .column_warps = 4,
              .depth_warps = 2,
              .tiles = 2,
              .chunks = 4,
              .tiles_at_once = 4},
        Shape{.name = "wide_in_shared",
              .rows = 32,
              .columns = 128,
              .depth = 256,
              .column_warps = 4,
              .depth_warps = 2,
              .tiles = 2,
              .chunks = 4,
              .tiles_at_once = 4,
              .in_registers = false},
        Shape{.name = "rows_beyond", .rows = 20, .depth = 96, .chunks = 3, .tiles_at_once = 2},
        Shape{.name = "depth_beyond",
              .rows = 9,
              .columns = 24,
              .depth = 40,
              .column_warps = 2,
              .depth_warps = 2,
              .tiles_at_once = 2,
              .conflicts = true},
        Shape{.name = "four_at_once",
              .rows = 8,
              .columns = 12,
              .depth = 36,
              .column_warps = 1,
              .chunks = 2,
              .conflicts = true},
        Shape{.name = "two_at_once", .rows = 8, .columns = 12, .depth = 26, .column_warps = 1, .conflicts = true},
        Shape{.name = "one_at_once", .rows = 8, .columns = 12, .depth = 27, .column_warps = 1, .conflicts = true},
        Shape{.name = "every_second_row", .rows = 16, .depth = 80, .chunks = 3, .conflicts = true},
        Shape{.name = "every_fourth_row", .rows = 16, .depth = 72, .chunks = 3},
        Shape{.name = "rows_apart", .pitch = 96}, Shape{.name = "idle_warps", .idle_warps = 3},
        Shape{.name = "idle_warps_and_shared", .in_registers = false, .idle_warps = 3}),
    [](const auto& each) { return each.param.name; });

TEST(StateProductEmulated, AMissingBarrierIsFound) {
  const Shape shape{.name = "a_missing_barrier",
                    .rows = 16,
                    .columns = 64,
                    .depth = 64,
                    .column_warps = 4,
                    .chunks = 2,
                    .tiles_at_once = 2};
  const KernelCase without = profiler::test::mutated(case_of(shape), "sums);\n  __syncthreads();", "sums);");
  const KernelOutcome outcome = launch(without, inputs_of(shape));
  ASSERT_FALSE(outcome.findings.empty());
  EXPECT_THAT(outcome.findings[0], HasSubstr("race"));
}

}  // namespace
}  // namespace stitch::codegen::test
