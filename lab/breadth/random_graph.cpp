#include "lab/breadth/random_graph.h"

#include <array>
#include <optional>

#include "lab/breadth/draw_steps.h"

namespace stitch::lab {
namespace {

struct DrawStep {
  int weight;
  void (*draw)(GraphDraft&);
};

constexpr std::array draw_table = {
    DrawStep{8, draw_unary},         DrawStep{12, draw_binary},
    DrawStep{3, draw_compare},       DrawStep{3, draw_select},
    DrawStep{2, draw_clamp},         DrawStep{4, draw_convert},
    DrawStep{1, draw_bitcast},       DrawStep{1, draw_random_bits},
    DrawStep{1, draw_iota},          DrawStep{4, draw_broadcast},
    DrawStep{3, draw_reshape},       DrawStep{3, draw_transpose},
    DrawStep{3, draw_slice},         DrawStep{3, draw_pad},
    DrawStep{2, draw_reverse},       DrawStep{3, draw_concatenate},
    DrawStep{2, draw_dynamic_slice}, DrawStep{2, draw_dynamic_update_slice},
    DrawStep{2, draw_gather},        DrawStep{2, draw_scatter},
    DrawStep{8, draw_reduce},        DrawStep{3, draw_normalisation},
    DrawStep{2, draw_arg_reduce},    DrawStep{2, draw_scan},
    DrawStep{2, draw_reduce_window}, DrawStep{1, draw_select_and_scatter},
    DrawStep{2, draw_max_exp_sum},   DrawStep{2, draw_sort},
};

void draw_step(GraphDraft& draft) {
  int total = 0;
  for (const DrawStep& step : draw_table) total += step.weight;
  std::int64_t chosen = draft.below(total);
  for (const DrawStep& step : draw_table) {
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
