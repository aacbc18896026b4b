// Training steps of bench/models whose attentions are kernels of ours.
#include <gtest/gtest.h>

#include "graph/passes/attention/attention_gradients.h"
#include "graph/simplify.h"
#include "import/import.h"
#include "tuning/programs/program_builder.h"

namespace stitch::tuning {
namespace {

using graph::Dims;
using graph::Graph;
using graph::Op;

struct TrainedModel {
  std::string name;
  std::int64_t attentions;
  Dims scores;  ///< of one
};
void PrintTo(const TrainedModel& model, std::ostream* out) { *out << model.name; }

Graph prepared(const std::string& name) {
  auto model =
      import::import_file(std::filesystem::path(STITCH_SOURCE_DIR) / "bench/models/hlo" / (name + ".hlo.txt.gz"));
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  if (!model) return {};
  EXPECT_TRUE(graph::simplify(model->graph));
  EXPECT_TRUE(graph::simplify_attention_gradients(model->graph, {}));
  return std::move(model->graph);
}

enum class Part { none, forward, queries, keys_and_values };
Part part_of(const Graph& call) {
  const auto dots = std::ranges::count(call.nodes(), Op::dot, &graph::Node::op);
  const auto reductions = std::ranges::count(call.nodes(), Op::reduce, &graph::Node::op);
  if (dots == 2 && reductions == 2 && call.results().size() == 3) return Part::forward;
  if (dots == 3 && reductions == 0 && call.results().size() == 1) return Part::queries;
  if (dots == 4 && reductions == 0 && call.results().size() == 2) return Part::keys_and_values;
  return Part::none;
}

class TrainedModels : public testing::TestWithParam<TrainedModel> {};

TEST_P(TrainedModels, HaveThreeStepsAnAttention) {
  const Graph model = prepared(GetParam().name);
  ProgramOptions options;
  options.own_product = [](const Graph& call, bool) { return part_of(call) != Part::none; };
  const auto program = build_program(model, options);
  ASSERT_TRUE(program) << program.error().message;  // and it is sound
  std::map<Part, std::int64_t> occurrences;
  for (const api::ProgramFragment& fragment : program->fragments) {
    occurrences[part_of(fragment.graph)] += fragment.occurrences;
    if (part_of(fragment.graph) == Part::none) {
      EXPECT_EQ(std::ranges::count(fragment.graph.nodes(), Op::dot, &graph::Node::op), 0);
    }
  }
  EXPECT_EQ(occurrences[Part::forward], GetParam().attentions);
  EXPECT_EQ(occurrences[Part::queries], GetParam().attentions);
  EXPECT_EQ(occurrences[Part::keys_and_values], GetParam().attentions);
  for (const api::ProgramRegion& region : program->regions) {
    for (const api::ProgramValue& value : region.values) EXPECT_NE(value.type.dims, GetParam().scores) << value.name;
  }
}

std::string name_of_model(const testing::TestParamInfo<TrainedModel>& info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Short, TrainedModels,
                         testing::Values(TrainedModel{"bert_train_lamb", 4, {32, 12, 128, 128}},
                                         TrainedModel{"llama_train", 4, {4, 32, 1024, 1024}}),
                         name_of_model);
INSTANTIATE_TEST_SUITE_P(Slow, TrainedModels,
                         testing::Values(TrainedModel{"gpt2_train", 12, {8, 12, 512, 512}},
                                         TrainedModel{"bert_train", 12, {32, 12, 128, 128}},
                                         TrainedModel{"transformer_train", 18, {64, 8, 48, 48}}),
                         name_of_model);

TEST(TrainedModel, WithoutKernelsOfOursNothingChanges) {
  const Graph model = prepared("bert_train_lamb");
  ProgramOptions options;
  std::map<Part, int> asked;
  options.own_product = [&](const Graph& call, bool) {
    ++asked[part_of(call)];
    return false;
  };
  const auto refused = build_program(model, options), plain = build_program(model);
  ASSERT_TRUE(refused && plain);
  EXPECT_EQ(refused->id, plain->id);
  EXPECT_GE(asked[Part::forward], 1) << "it was asked";
}

/// Of three kernels one cannot be made: what would be in memory anyway is the library's.
TEST(TrainedModel, AnAttentionFallsApartAsAWhole) {
  const Graph model = prepared("bert_train_lamb");
  const auto plain = build_program(model);
  ASSERT_TRUE(plain);
  for (const Part missing : {Part::forward, Part::queries}) {
    ProgramOptions options;
    options.own_product = [&](const Graph& call, bool) {
      return part_of(call) != Part::none && part_of(call) != missing;
    };
    const auto program = build_program(model, options);
    ASSERT_TRUE(program) << program.error().message;
    EXPECT_EQ(program->id, plain->id);
  }
}

}  // namespace
}  // namespace stitch::tuning
