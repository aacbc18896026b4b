// Loads before the wait for the launch before: what is declared stands there, in the text and in the machine code, and
// is right; what is not declared is found.
#include <gmock/gmock.h>

#include "costmodel/machine_code.h"
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

constexpr kernel::UnwaitedInputs all = ~kernel::UnwaitedInputs{0};

/// Rows over their sums of squares and times a gain of each column, and a residual added.
Result<Graph> normed(std::int64_t rows, std::int64_t columns, DType dtype) {
  Builder b;
  const Dims dims = {rows, columns};
  const auto wide = [&](const Dims& of) { return b.convert(b.parameter(dtype, of), DType::f32); };
  const Value x = wide(dims), residual = wide(dims), gain = b.broadcast(wide({columns}), dims, {1});
  const Value sum = b.broadcast(b.reduce(ReduceKind::sum, b.binary(Op::multiply, x, x), {1}), dims, {0});
  const Value scaled = b.binary(Op::multiply, b.binary(Op::divide, x, sum), gain);
  return b.finish({b.convert(b.binary(Op::add, scaled, residual), dtype)});
}

/// The kernel with the loads of these inputs before its wait.
KernelCase with_unwaited(KernelCase each, kernel::UnwaitedInputs inputs) {
  GenerateOptions options;
  options.unwaited = inputs;
  auto kernel = generate(*each.graph, each.program, options);
  if (!kernel) {
    throw std::runtime_error(kernel.error().message);
  }
  each.kernel = std::move(*kernel);
  return each;
}

bool has_unwaited(const kernel::KernelProgram& program) { return !kernel::unwaited_loads(program, all).empty(); }
bool of_a_cluster(const kernel::KernelProgram& program) {
  return has_unwaited(program) && program.schedule.cluster > 1;
}

struct Sample {
  std::string name;
  std::function<Result<Graph>()> graph;
  Wish wish = has_unwaited;
};
void PrintTo(const Sample& each, std::ostream* out) { *out << each.name; }

class UnwaitedLoadsEmulated : public testing::TestWithParam<Sample> {};

TEST_P(UnwaitedLoadsEmulated, AreRightAndStandBeforeTheWait) {
  const std::vector<KernelCase> cases = cases_of(GetParam().graph(), GetParam().wish, 4);
  ASSERT_FALSE(cases.empty());
  for (const KernelCase& plain : cases) {
    const KernelCase early = with_unwaited(plain, all);
    EXPECT_NE(early.kernel.unwaited, 0);
    const std::size_t wait = early.kernel.source.find("await_predecessor(");
    EXPECT_LT(early.kernel.source.find("Cached::unwaited"), wait);
    EXPECT_GT(early.kernel.source.find("Cached::unwaited", wait), early.kernel.source.size());
    const profiler::Verification found = profiler::test::verify(early);
    EXPECT_TRUE(found.correct) << found.failure << "\n" << early.kernel.source;
    const auto code = costmodel::read_machine_code(compile(early.kernel).cubin, early.kernel.name);
    ASSERT_TRUE(code) << code.error().message;
    EXPECT_TRUE(code->awaits) << early.kernel.source;
    EXPECT_GT(code->unwaited_loads, 0);
    EXPECT_EQ(with_unwaited(plain, 0).kernel.source, plain.kernel.source);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Graphs, UnwaitedLoadsEmulated,
                         testing::Values(Sample{"element_wise", [] { return profiler::test::scaled_sum({5003}); }},
                                         Sample{"wide_elements",
                                                [] {
                                                  return profiler::test::scaled_sum({257, 33}, DType::f64);
                                                }},
                                         Sample{"rows", [] { return normed(37, 1000, DType::f32); }},
                                         Sample{"packed_rows", [] { return normed(64, 1024, DType::bf16); }},
                                         Sample{"clusters", [] { return normed(16, 4096, DType::f32); }, of_a_cluster}),
                         [](const auto& each) { return each.param.name; });

/// A row's kernel that loads the gain and the residual, but not the row itself, before it waits.
KernelCase behind_a_producer() {
  const auto wish = [](const kernel::KernelProgram& program) {
    const auto loads = kernel::unwaited_loads(program, 6);
    return program.blocks > 1 && loads.size() == 2 && kernel::unwaited_loads(program, all).size() == 3;
  };
  return with_unwaited(cases_of(normed(64, 1024, DType::f32), wish, 1).at(0), 6);
}

TEST(UnwaitedLoadsEmulated, AreOfWhatIsAskedForOnly) {
  const KernelCase early = behind_a_producer();
  EXPECT_EQ(early.kernel.unwaited, 6);
  EXPECT_TRUE(profiler::test::verify(early).correct);
}

// What is loaded early without anybody having said that it may be: by one input too many, by the wait that comes too
// late for another one or never, and by a store.
TEST(UnwaitedLoadsEmulated, WrongOnesAreFound) {
  const KernelCase early = behind_a_producer();
  KernelCase undeclared = early;
  undeclared.kernel.unwaited = 2;
  const std::string wait = "await_predecessor(";
  const KernelCase wrong[] = {
      undeclared,
      with_unwaited(early, all),
      profiler::test::mutated(
          early, wait, "const f32 row = load_one<Cached::unwaited>(in0); asm volatile(\"\" ::\"f\"(row)); " + wait),
      profiler::test::mutated(early, wait, "if (in0 == nullptr) " + wait),
      profiler::test::mutated(early, wait, "if (threadIdx.x == 0) out0[i * 1024] = 0.0f; " + wait),
  };
  for (KernelCase each : wrong) {
    if (each.kernel.unwaited != 2) each.kernel.unwaited = early.kernel.unwaited;
    const profiler::Verification found = profiler::test::verify(each);
    EXPECT_FALSE(found.correct) << each.kernel.source;
    EXPECT_THAT(found.failure, HasSubstr("early_access: ")) << each.kernel.source;
  }
}

}  // namespace
}  // namespace stitch::codegen::test
