#include "lab/breadth/random_graph.h"

#include <array>
#include <optional>

#include "lab/breadth/draw_steps.h"

namespace stitch::lab {
namespace {

struct Step {
  int weight;
  void (*draw)(GraphDraft&);
};

constexpr std::array steps = {
    Step{8, draw_unary},         Step{12, draw_binary},
    Step{3, draw_compare},       Step{3, draw_select},
    Step{2, draw_clamp},         Step{4, draw_convert},
    Step{1, draw_bitcast},       Step{1, draw_random_bits},
    Step{1, draw_iota},          Step{4, draw_broadcast},
    Step{3, draw_reshape},       Step{3, draw_transpose},
    Step{3, draw_slice},         Step{3, draw_pad},
    Step{2, draw_reverse},       Step{3, draw_concatenate},
    Step{2, draw_dynamic_slice}, Step{2, draw_dynamic_update_slice},
    Step{2, draw_gather},        Step{2, draw_scatter},
    Step{8, draw_reduce},        Step{3, draw_normalisation},
    Step{2, draw_arg_reduce},    Step{2, draw_scan},
    Step{2, draw_reduce_window}, Step{1, draw_select_and_scatter},
};

void draw_step(GraphDraft& draft) {
  int total = 0;
  for (const Step& step : steps) total += step.weight;
  std::int64_t chosen = draft.below(total);
  for (const Step& step : steps) {
    chosen -= step.weight;
    if (chosen < 0) return step.draw(draft);
  }
}

std::optional<graph::Graph> attempt(std::uint64_t seed) {
  GraphDraft draft(seed);
  for (std::int64_t i = draft.between(1, 3); i > 0; --i) {
    const graph::DType dtype = draft.dtype();
    draft.parameter({dtype, draft.dims()});
  }
  const std::int64_t operators = draft.one_in(4) ? draft.between(1, 3) : draft.between(3, 12);
  for (std::int64_t i = 0; i < operators; ++i) draw_step(draft);
  const std::int64_t most_results = draft.between(1, 4);
  const std::vector<graph::Value> results = draft.results(most_results);
  Result<graph::Graph> graph = draft.builder().finish(results);
  return graph ? std::optional(std::move(*graph)) : std::nullopt;
}

}  // namespace

graph::Graph random_graph(std::uint64_t seed) {
  for (std::uint64_t number = 0;; ++number) {
    if (std::optional<graph::Graph> graph = attempt(mix(seed, number))) return std::move(*graph);
  }
}

}  // namespace stitch::lab
