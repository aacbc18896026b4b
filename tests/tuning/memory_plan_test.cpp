// Where values lie, beside a run that keeps a record of what every part of every memory holds.
#include "tuning/programs/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "graph/builder.h"
#include "graph/simplify.h"
#include "tests/graph/random_graph.h"
#include "tuning/programs/program_builder.h"

namespace stitch::tuning {
namespace {

using api::ProgramRegion;
using api::ProgramStep;
using api::ProgramValue;
using graph::Builder;
using graph::DType;
using graph::Op;
using graph::Value;
using Storage = ProgramValue::Storage;

/// What the bytes of a region's memory hold while its steps run: a value's number, or nothing yet. It knows of no
/// lifetimes: whoever reads a value finds it there, or does not.
class Contents {
 public:
  explicit Contents(const ProgramRegion& region) : region_(region) {
    memory_[{Storage::arena, 0}].assign(region.arena_bytes / unit, nothing);
    for (const ProgramValue& value : region.values) {
      if (value.is_placed()) continue;
      memory_[{value.storage, value.place}].assign((value.type.bytes() + unit - 1) / unit, nothing);
    }
    for (const int parameter : region.parameters) write(parameter);
  }

  void run() {
    for (const ProgramStep& step : region_.steps) {
      for (const int value : step.parameters) expect_there(value, step.name);
      for (const int value : written_by(step)) write(value);
      // A kernel reads while it writes, but for what it updates in place.
      for (const int value : step.parameters) expect_there(value, step.name);
      for (const int value : step.results) expect_there(value, step.name);
    }
    for (const int value : region_.results) expect_there(value, "the end");
  }

 private:
  static constexpr std::int64_t unit = api::arena_alignment;
  static constexpr int nothing = -1;
  using Memory = std::pair<Storage, std::int64_t>;

  static std::vector<int> written_by(const ProgramStep& step) {
    std::vector<int> values = step.results;
    if (const auto* loop = std::get_if<api::LoopStep>(&step.work)) {
      values.insert(values.end(), loop->spares.begin(), loop->spares.end());
      values.push_back(loop->scratch);
    }
    if (const auto* branch = std::get_if<api::BranchStep>(&step.work)) values.push_back(branch->scratch);
    std::erase(values, -1);
    return values;
  }

  /// The parts of memory that a value takes.
  std::span<int> part(int value) {
    const ProgramValue& of = region_.values[value];
    const std::int64_t parts = (of.type.bytes() + unit - 1) / unit;
    Memory memory{of.storage, of.place};
    if (of.storage == Storage::arena) memory.second = 0;
    if (of.storage == Storage::lent) memory = {Storage::result, *of.lender};
    const std::int64_t first = of.is_placed() ? of.place / unit : 0;
    std::vector<int>& all = memory_.at(memory);
    EXPECT_LE(first + parts, std::ssize(all)) << "value " << value;
    return std::span(all).subspan(first, parts);
  }
  void write(int value) { std::ranges::fill(part(value), value); }
  void expect_there(int value, const std::string& step) {
    EXPECT_TRUE(std::ranges::all_of(part(value), [&](int held) { return held == value; }))
        << "value " << value << " is gone at " << step;
  }

  const ProgramRegion& region_;
  std::map<Memory, std::vector<int>> memory_;
};

int lent_values(const api::Program& program) {
  int count = 0;
  for (const ProgramRegion& region : program.regions)
    count += std::ranges::count(region.values, Storage::lent, &ProgramValue::storage);
  return count;
}

api::Program built(graph::Graph graph, const ProgramOptions& options = {}) {
  EXPECT_TRUE(graph::simplify(graph).ok());
  auto program = build_program(graph, options);
  EXPECT_TRUE(program.ok()) << (program ? "" : program.error().message);
  return program ? *std::move(program) : api::Program();
}

TEST(MemoryPlanTest, NobodyWritesWhatIsStillRead) {
  int lent = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    graph::test::RandomGraphOptions options;
    options.seed = seed;
    options.operators = 40;
    options.results = 4;
    options.dot = 8;
    options.most_extent = 40;
    options.most_elements = 20000;
    graph::Graph graph = graph::test::random_graph(options);
    ASSERT_TRUE(graph::simplify(graph).ok());
    const auto program = build_program(graph);
    ASSERT_TRUE(program.ok()) << "seed " << seed << ": " << program.error().message;
    for (const ProgramRegion& region : program->regions) Contents(region).run();
    lent += lent_values(*program);
  }
  EXPECT_GE(lent, 5);
}

Value dot(Builder& builder, Value a, Value b) { return builder.dot(a, b, {{}, {}, {1}, {0}, DType::f32}); }

/// A chain of two products between three fragments, all of one size.
graph::Graph chain() {
  Builder builder;
  const Value x = builder.parameter(DType::f32, {64, 64}, "x"), w = builder.parameter(DType::f32, {64, 64}, "w");
  const Value h = builder.unary(Op::tanh, dot(builder, builder.unary(Op::exp, x), w));
  return *builder.finish({builder.unary(Op::exp, dot(builder, h, w))});
}

TEST(MemoryPlanTest, AChainsValuesTakeTurnsWithTheResult) {
  const api::Program program = built(chain());
  EXPECT_EQ(program.regions[0].arena_bytes, 64 * 64 * 4);
  EXPECT_EQ(lent_values(program), 2);
  Contents(program.regions[0]).run();
}

/// Who wants results where parameters lie has them read there until the results are written.
TEST(MemoryPlanTest, InPlaceResultsAreNotLent) {
  ProgramOptions options;
  options.constraints.in_place = true;
  const api::Program program = built(chain(), options);
  EXPECT_EQ(lent_values(program), 0);
  EXPECT_EQ(program.regions[0].arena_bytes, 2 * 64 * 64 * 4);
}

/// A loop's memory for passing on, and the arena of its body, in a result that is written behind it.
TEST(MemoryPlanTest, ALoopsOwnMemoryIsLentToo) {
  const auto carried = [](Builder& builder) {
    return std::vector{builder.parameter(DType::s32, {}, "i"), builder.parameter(DType::f32, {64, 64}, "state"),
                       builder.parameter(DType::f32, {64, 64}, "w")};
  };
  Builder body("body"), condition("condition"), outer;
  const std::vector<Value> in = carried(body);
  const Value next = body.unary(Op::tanh, dot(body, body.unary(Op::exp, dot(body, in[1], in[2])), in[2]));
  const Value counted = body.binary(Op::add, in[0], body.scalar(DType::s32, 1));
  const Value more = condition.compare(graph::Comparison::lt, carried(condition)[0], condition.scalar(DType::s32, 5));
  const auto regions = std::vector{std::make_shared<const graph::Graph>(*body.finish({counted, next, in[2]})),
                                   std::make_shared<const graph::Graph>(*condition.finish({more}))};
  const Value state = outer.parameter(DType::f32, {64, 64}, "state"), w = outer.parameter(DType::f32, {64, 64}, "w");
  const Value v = outer.parameter(DType::f32, {64, 512}, "v");
  const Value loop = outer.add(Op::loop, {outer.scalar(DType::s32, 0), state, w}, graph::LoopAttributes{5}, regions);
  const api::Program program = built(*outer.finish({dot(outer, Value{loop.node, 1}, v)}));
  ASSERT_EQ(program.regions.size(), 2U);
  const ProgramRegion& model = program.regions[0];
  for (const ProgramStep& step : model.steps) {
    const auto* work = std::get_if<api::LoopStep>(&step.work);
    if (work == nullptr) continue;
    ASSERT_GE(work->scratch, 0);
    EXPECT_EQ(model.values[work->scratch].storage, Storage::lent);
    EXPECT_EQ(model.values[work->spares[1]].storage, Storage::lent);
    EXPECT_EQ(model.values[step.results[1]].storage, Storage::arena) << "the product that writes the result reads it";
  }
  for (const ProgramRegion& region : program.regions) Contents(region).run();
}

}  // namespace
}  // namespace stitch::tuning
