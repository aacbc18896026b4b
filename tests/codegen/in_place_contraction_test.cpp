// Results of products that lie where what their epilogues read does: an optimizer's update behind the gradient of a
// weight. On the emulated device, beside the float64 reference.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/device/emulated_device.h"
#include "profiler/verify/verify.h"
#include "profiler/verify/verify_contraction.h"
#include "tests/codegen/matmul_case.h"

namespace stitch::codegen::test {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::InPlace;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// m' = 0.9·m + xᵀ·g, p' = p − 0.1·m', in this order or the other. Parameters: x, g, m, p.
graph::Graph momentum(std::int64_t rows, std::int64_t columns, std::int64_t depth, bool momentum_first,
                      DType dtype = DType::f32) {
  Builder b;
  const Dims dims = {rows, columns};
  const Value x = b.parameter(dtype, {depth, rows}), g = b.parameter(dtype, {depth, columns});
  const Value m = b.parameter(DType::f32, dims), p = b.parameter(DType::f32, dims);
  const Value gradient = b.dot(x, g, {{}, {}, {0}, {0}, DType::f32});
  const Value next = b.binary(Op::add, b.binary(Op::multiply, m, b.filled(DType::f32, dims, 0.9)), gradient);
  const Value updated = b.binary(Op::subtract, p, b.binary(Op::multiply, next, b.filled(DType::f32, dims, 0.1)));
  auto graph = momentum_first ? b.finish({next, updated}) : b.finish({updated, next});
  if (!graph) throw std::runtime_error(graph.error().message);
  graph->constraints.in_place = true;
  return *std::move(graph);
}

/// Verified as it is and with results in the parameters' places.
void expect_right_in_place(const ContractionProblem& problem, const ContractionSchedule& schedule) {
  SCOPED_TRACE(to_string(problem) + "\n" + to_string(schedule));
  const KernelCase each = case_of(problem, schedule);
  profiler::EmulatedDevice device;
  const auto found = profiler::verify_kernel(device, *problem.graph, profiler::execution_of(problem, schedule),
                                             each.kernel, compile(each.kernel), {.seed = 7});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_TRUE(found->correct) << found->failure << "\n" << each.kernel.source;
}

std::vector<InPlace> pairs_of(const graph::Graph& graph) {
  const ContractionProblem problem = derived(graph);
  return case_of(problem, default_of(problem)).kernel.in_place;
}

TEST(InPlaceContraction, IsWhatNoLaterResultReads) {
  // p' is made of m, too: behind m' it would read what that has become.
  EXPECT_THAT(pairs_of(momentum(64, 32, 24, true)), ElementsAre(InPlace{2, 1}, InPlace{3, 1}));
  EXPECT_THAT(pairs_of(momentum(64, 32, 24, false)), ElementsAre(InPlace{2, 1}, InPlace{3, 0}, InPlace{3, 1}));
  graph::Graph unasked = momentum(64, 32, 24, false);
  unasked.constraints.in_place = false;
  EXPECT_THAT(pairs_of(unasked), IsEmpty());
}

/// (x·w + x)·yᵀ + z, element by element.
graph::Graph with_others(std::int64_t edge) {
  Builder b;
  const Dims dims = {edge, edge};
  const Value x = b.parameter(DType::f32, dims), w = b.parameter(DType::f32, dims);
  const Value y = b.parameter(DType::f32, dims), z = b.parameter(DType::f32, dims);
  const Value sum = b.binary(Op::add, b.dot(x, w, {{}, {}, {1}, {0}, DType::f32}), x);
  auto graph = b.finish({b.binary(Op::add, b.binary(Op::multiply, sum, b.transpose(y, {1, 0})), z)});
  if (!graph) throw std::runtime_error(graph.error().message);
  graph->constraints.in_place = true;
  return *std::move(graph);
}

/// What is multiplied other tiles read; and what lies otherwise than the result is read by other threads.
TEST(InPlaceContraction, IsReadByWhoWritesIt) { EXPECT_THAT(pairs_of(with_others(64)), ElementsAre(InPlace{3, 0})); }

TEST(InPlaceContractionEmulated, UpdatesAreRight) {
  for (const bool first : {true, false}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const ContractionProblem problem = derived(momentum(80, 72, 100, first, dtype));
      expect_right_in_place(problem, default_of(problem));
      expect_right_in_place(problem, pipelined(problem, 3, 2));
      expect_right_in_place(problem, pipelined(problem, 2, 1, 2));
    }
  }
  const ContractionProblem odd = derived(momentum(33, 41, 7, true));
  expect_right_in_place(odd, default_of(odd));
  const ContractionProblem by_wgmma = derived(momentum(128, 128, 256, false, DType::bf16));
  expect_right_in_place(by_wgmma, schedule_of(by_wgmma, {"", {}, 64, 64, 64, 16, 64, 3, 1}));
}

/// The compiler may not read it as memory that nobody writes.
TEST(InPlaceContractionEmulated, ReadsAreOfWhatMayChange) {
  const ContractionProblem problem = derived(momentum(64, 64, 32, true));
  const std::string source = case_of(problem, default_of(problem)).kernel.source;
  for (const char* pointer : {"const f32* in2", "const f32* in3", "f32* out1"})
    EXPECT_THAT(source, HasSubstr(pointer)) << source;
  EXPECT_THAT(source, HasSubstr("const f32* __restrict__ in0"));
  EXPECT_THAT(source, HasSubstr("f32* __restrict__ out0"));
  EXPECT_THAT(source, HasSubstr("Cached::plain"));
  EXPECT_THAT(source, Not(HasSubstr("Cached::streamed>(in2")));
}

/// Elements of yᵀ that another thread has overwritten are wrong, and found to be.
TEST(InPlaceContractionEmulated, AWrongPairIsFound) {
  const ContractionProblem problem = derived(with_others(256));
  const ContractionSchedule schedule = default_of(problem);
  KernelCase each = case_of(problem, schedule);
  each.kernel.in_place = {{2, 0}};
  profiler::EmulatedDevice device;
  const auto found = profiler::verify_kernel(device, *problem.graph, profiler::execution_of(problem, schedule),
                                             each.kernel, compile(each.kernel), {.seed = 7});
  if (found) {
    EXPECT_FALSE(found->correct);
  } else {
    EXPECT_THAT(found.error().message, HasSubstr("unordered"));
  }
}

}  // namespace
}  // namespace stitch::codegen::test
