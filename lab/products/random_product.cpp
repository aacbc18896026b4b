#include "lab/products/random_product.h"

#include <cstdio>
#include <cstdlib>

#include "lab/products/product_draft.h"

namespace stitch::lab {

std::int64_t ProductDraft::extent(std::int64_t most) {
  switch (random_.below(12)) {
    case 0: return one_in(4) ? between(0, 1) : between(2, 9);
    case 1:
    case 2:
    case 3: {
      std::int64_t power = 16;
      while (2 * power <= most && !one_in(3)) power *= 2;
      return power + (one_in(3) ? between(-1, 1) : 0);
    }
    case 4:
    case 5:
    case 6: return 8 * between(1, std::max<std::int64_t>(1, most / 8));
    default: return between(1, most);
  }
}

RandomProduct finished(ProductDraft& draft, const std::vector<graph::Value>& results, std::string kind,
                       std::string dtype, std::string neighbour, const graph::Constraints& constraints) {
  Result<graph::Graph> graph = draft.b.finish(results);
  if (!graph) {
    std::fprintf(stderr, "a random %s is no graph: %s\n", kind.c_str(), graph.error().message.c_str());
    std::abort();
  }
  graph->constraints = constraints;
  return {*std::move(graph), std::move(kind), std::move(dtype), std::move(neighbour)};
}

RandomProduct random_product(std::uint64_t seed, std::int64_t deeper) {
  ProductDraft draft(seed);
  const std::int64_t lot = draft.between(0, 99);
  if (lot < 27) return draw_product(draft, deeper);
  if (lot < 30) return draw_column_sums(draft);
  if (lot < 37) return draw_normed(draft);
  if (lot < 43) return draw_gates(draft);
  if (lot < 49) return draw_merged(draft);
  if (lot < 54) return draw_computed(draft);
  if (lot < 59) return draw_scaled(draft);
  if (lot < 63) return draw_summed(draft);
  if (lot < 67) return draw_grouped(draft);
  if (lot < 82) return draw_convolution(draft);
  if (lot < 92) return draw_attention(draft);
  if (lot < 97) return draw_gradients(draft);
  return draw_chain(draft);
}

}  // namespace stitch::lab
