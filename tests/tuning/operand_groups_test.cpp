// Which values of a program are computed by the product that multiplies them.
#include "tuning/programs/operand_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/simplify.h"
#include "tests/tuning/shared_tuner.h"
#include "tuning/contractions/contraction_choice.h"
#include "tuning/programs/model_program.h"
#include "tuning/programs/program_builder.h"

namespace stitch::tuning {
namespace {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Value;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t made_rows = 48, made_width = 64;
constexpr const char* computed_name = "what it multiplies computed while it is loaded";

Value made_tensor(Builder& b) { return b.parameter(DType::f32, {made_rows, made_width}); }
Value times_weight(Builder& b, Value x, std::int64_t columns = made_width) {
  return b.dot(x, b.parameter(DType::f32, {b.dims(x)[1], columns}), {{}, {}, {1}, {0}, DType::f32});
}
/// x · rsqrt(Σ x² + ε) · γ
Value rows_normed(Builder& b, Value x) {
  const Dims dims = b.dims(x);
  const Value squares = b.reduce(graph::ReduceKind::sum, b.binary(Op::multiply, x, x), {1});
  const Value scale = b.unary(Op::rsqrt, b.binary(Op::add, squares, b.filled(DType::f32, {dims[0]}, 1e-5)));
  const Value gamma = b.broadcast(b.parameter(DType::f32, {dims[1]}), dims, {1});
  return b.binary(Op::multiply, b.binary(Op::multiply, x, b.broadcast(scale, dims, {0})), gamma);
}

api::ProgramRegion region_of(
    Graph graph, const std::function<bool(const Graph&)>& wanted = [](const Graph&) { return true; }) {
  EXPECT_TRUE(graph::simplify(graph).ok());
  const auto program =
      build_program(graph, {{}, [&](const Graph& part, bool) { return product_of(part).ok() && wanted(part); }});
  EXPECT_TRUE(program) << program.error().message;
  return program->regions[0];
}
std::vector<std::string> names_of(const api::ProgramRegion& region) {
  std::vector<std::string> names;
  for (const api::ProgramStep& step : region.steps) names.push_back(step.name);
  return names;
}
bool is_computed(const Graph& graph) {
  const auto problem = product_of(graph);
  return problem.ok() && !problem->computed.empty();
}

TEST(OperandGroups, AreComputedByTheProduct) {
  Builder b;
  const Value x = b.unary(Op::tanh, b.binary(Op::multiply, made_tensor(b), made_tensor(b)));
  EXPECT_THAT(names_of(region_of(*b.finish({times_weight(b, x)}))), ElementsAre(HasSubstr(computed_name)));
}

/// Of both sides of a product each.
TEST(OperandGroups, AreOfBothSides) {
  Builder b;
  const Value x = b.unary(Op::tanh, made_tensor(b));
  const Value w = b.unary(Op::exp, b.parameter(DType::f32, {made_width, made_width}));
  EXPECT_THAT(names_of(region_of(*b.finish({b.dot(x, w, {{}, {}, {1}, {0}, DType::f32})}))),
              ElementsAre(HasSubstr(computed_name)));
}

/// What several products share is computed by them all, in one kernel.
TEST(OperandGroups, AreSharedByProducts) {
  Builder b;
  const Value x = b.unary(Op::tanh, made_tensor(b));
  EXPECT_THAT(names_of(region_of(*b.finish({times_weight(b, x, 32), times_weight(b, x, 96)}))),
              ElementsAre(HasSubstr(fmt::format("and 1 more in one, {}", computed_name))));
}

/// What somebody else needs is stored, and read as it is.
TEST(OperandGroups, LeaveWhatOthersRead) {
  Builder b;
  const Value x = b.unary(Op::tanh, made_tensor(b));
  EXPECT_THAT(names_of(region_of(*b.finish({times_weight(b, x), x}))),
              testing::Contains(Not(HasSubstr(computed_name))));
}

/// But what repeats a smaller tensor (rows, for each group of a mixture of experts) each product may make for itself.
TEST(OperandGroups, RepeatedRowsAreComputedByEachWhoReadsThem) {
  Builder b;
  const Dims dims = {3, made_rows, made_width};
  const Value group = b.broadcast(b.parameter(DType::s32, {made_rows}), dims, {1});
  const Value shown = b.compare(graph::Comparison::eq, group, b.iota(DType::s32, dims, 0));
  const Value x = b.select(shown, b.broadcast(made_tensor(b), dims, {1, 2}), b.filled(DType::f32, dims, 0));
  const Value rows = b.dot(x, b.parameter(DType::f32, {3, made_width, 32}), {{}, {}, {2, 0}, {1, 0}, DType::f32});
  const Value matrices = b.dot(x, b.parameter(DType::f32, {made_rows, 40}), {{}, {}, {1}, {0}, DType::f32});
  EXPECT_THAT(names_of(region_of(*b.finish({rows, matrices}))),
              ElementsAre(HasSubstr(computed_name), HasSubstr(computed_name)));
}

/// A norm's kernel leaves what its rows are combined to, and the product makes the norm of it.
TEST(OperandGroups, HaveStatisticsOfRows) {
  Builder b;
  const api::ProgramRegion region = region_of(*b.finish({times_weight(b, rows_normed(b, made_tensor(b)))}));
  ASSERT_THAT(names_of(region), ElementsAre(Not(HasSubstr(computed_name)), HasSubstr(computed_name)));
  ASSERT_EQ(region.steps[0].results.size(), 1U);
  EXPECT_EQ(region.values[region.steps[0].results[0]].type.elements(), made_rows);
}

/// Where the norm was the end of a product, that one leaves them beside its result.
TEST(OperandGroups, HaveStatisticsFromAProductsEnd) {
  Builder b;
  const Value stream = b.binary(Op::add, times_weight(b, made_tensor(b)), made_tensor(b));
  const api::ProgramRegion region = region_of(*b.finish({stream, times_weight(b, rows_normed(b, stream))}));
  ASSERT_THAT(names_of(region), ElementsAre(HasSubstr("what its rows are combined for"), HasSubstr(computed_name)));
  std::vector<std::int64_t> elements;
  for (const int result : region.steps[0].results) elements.push_back(region.values[result].type.elements());
  EXPECT_THAT(elements, testing::UnorderedElementsAre(made_rows * made_width, made_rows));
}

/// Where a kernel that computes is not wanted, the operand is stored.
TEST(OperandGroups, AreAskedFor) {
  Builder b;
  const Value x = b.unary(Op::tanh, made_tensor(b));
  const api::ProgramRegion region =
      region_of(*b.finish({times_weight(b, x)}), [](const Graph& part) { return !is_computed(part); });
  EXPECT_EQ(region.steps.size(), 2U);
}

Graph converted_product(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  Builder b;
  const Value x = b.convert(b.parameter(DType::f32, {rows, depth}), DType::f16);
  return *b.finish({b.dot(x, b.parameter(DType::f16, {depth, columns}), {{}, {}, {1}, {0}, DType::f16})});
}

/// A launch and what is not written are worth it where they are much of the time; not where each of many columns of
/// tiles computes the same again, and other instructions multiply what is in memory.
TEST(OperandGroups, ArePricedByWhatTheySave) {
  const auto tuner = tuner_for(shared_device(), ProductsBy::ours, false);
  ASSERT_TRUE(tuner) << tuner.error().message;
  EXPECT_TRUE((*tuner)->computes_product(converted_product(256, 256, 512), ProductsBy::ours, true));
  EXPECT_FALSE((*tuner)->computes_product(converted_product(8192, 8192, 8192), ProductsBy::ours, true));
  const auto small = (*tuner)->product_price(converted_product(256, 256, 512));
  ASSERT_TRUE(small);
  EXPECT_LT(small->ours_us, small->library_us) << "the library's call is behind a kernel that converts";
}

/// A program whose operand is computed on its way, which was proved beside all that leads to it; of sm_80 and sm_90a.
TEST(OperandGroupsEmulated, ArePlannedAndProved) {
  static SystemClock clock;
  static RealFileSystem files;
  for (const char* target : {"a100", "h100"}) {
    SCOPED_TRACE(target);
    Builder b;
    import::Imported model;
    const Value x = b.binary(Op::multiply, b.unary(Op::tanh, made_tensor(b)), made_tensor(b));
    const Value w = b.parameter(DType::bf16, {made_width, made_width});
    model.graph = *b.finish({b.dot(b.convert(x, DType::bf16), w, {{}, {}, {1}, {0}, DType::bf16})});
    TunerOptions options;
    options.products = ProductsBy::ours;
    options.target = target;
    options.verify.distributions.resize(1);
    const auto tuner = Tuner::create(options, shared_device(), nullptr, files, clock);
    ASSERT_TRUE(tuner) << tuner.error().message;
    const auto program = make_program(model, **tuner, {.name = "scaled", .tunes = true});
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_TRUE(program->calls.empty());
    ASSERT_EQ(program->fragments.size(), 1U);
    const api::ProgramFragment& product = program->fragments[0];
    ASSERT_TRUE(product.plan) << product.why_none;
    ASSERT_EQ(product.plan->launches.size(), 1U);
    EXPECT_THAT(product.plan->launches[0].description, HasSubstr("(left computed of f32, f32)"));
    EXPECT_EQ(product.plan->verified_share, 1.0);
  }
}

}  // namespace
}  // namespace stitch::tuning
