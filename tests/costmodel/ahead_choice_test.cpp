// Loads a turn ahead by the model itself: what is chosen of them.
#include "search/schedule/ahead_choice.h"

#include <gtest/gtest.h>

#include "costmodel/analytical.h"
#include "search/schedule/stitch_explorer.h"
#include "tests/kernel/example_graphs.h"

namespace stitch::costmodel {
namespace {

using namespace kernel::test;

int stages_of(const kernel::KernelProgram& program) {
  int stages = 0;
  for (const kernel::PhaseProgram& phase : program.phases) {
    for (const kernel::GroupProgram& group : phase.groups) stages = std::max(stages, group.mapping.stages);
  }
  return stages;
}

// What is predicted is never longer for it, where it gains less than a hundredth the best stays what it
// was.
TEST(AheadChoiceByTheModel, NeverMakesAPredictionWorse) {
  const AnalyticalScorer model(*find_device("h100"));
  for (const Graph& graph : {layer_norm_backward(8192, 1024), layer_norm_backward(4096, 4096),
                             row_and_column_sums(8192, 2048), layer_norm(65536, 256), softmax(4096, 32000)}) {
    const auto without = search::explore_stitches(graph, model, {.keep = 12, .looks_ahead = 0});
    const auto with = search::explore_stitches(graph, model, {.keep = 12});
    ASSERT_TRUE(without && with);
    EXPECT_LE(with->front().predicted_us, without->front().predicted_us);
    EXPECT_EQ(stages_of(without->front().program), 1);
    const bool ahead = stages_of(with->front().program) > 1;
    if (!ahead) {
      EXPECT_EQ(with->front().schedule, without->front().schedule);
    }
  }
}

}  // namespace
}  // namespace stitch::costmodel
