#include "tuning/programs/winograd_choice.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "costmodel/uncertainty.h"
#include "graph/calls/winograd.h"
#include "graph/canonical.h"
#include "graph/f32_products.h"
#include "graph/simplify.h"
#include "graph/subgraph.h"

namespace stitch::tuning {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;

class StepPricing {
 public:
  StepPricing(const Tuner& tuner, std::optional<ProductsBy> by, const std::stop_token& stop)
      : tuner_(tuner), by_(by), stop_(stop) {}

  Result<double> product(const Graph& call) const {
    const auto price = tuner_.product_price(call);
    if (!price) return make_error(ErrorKind::unsupported, "'{}' is no product that has a price", call.name);
    return tuner_.computes_product(call, by_) ? price->ours_us : price->library_us;
  }

  Result<double> transform(Graph step) const {
    STITCH_TRY(graph::simplify(step, {.stop = stop_}));
    STITCH_ASSIGN(const graph::CanonicalForm form, graph::canonicalise(step));
    STITCH_ASSIGN(const search::FusionPlan plan, tuner_.explore(form.graph, stop_));
    return plan.predicted_us;
  }

 private:
  const Tuner& tuner_;
  const std::optional<ProductsBy> by_;
  const std::stop_token& stop_;
};

/// Whether a value depends on no parameter.
bool is_of_no_parameter(const Graph& graph, graph::Value value) {
  const std::vector<bool> needed = graph::needed_for(graph, std::span(&value, 1));
  return std::ranges::none_of(graph.parameters(), [&](NodeId parameter) { return needed[parameter]; });
}

}  // namespace

Result<WinogradPrice> winograd_price(const Graph& direct, bool folded, const Tuner& tuner, std::optional<ProductsBy> by,
                                     const std::stop_token& stop) {
  const StepPricing pricing(tuner, by, stop);
  const Node& convolution = direct.node(direct.results()[0].node);
  WinogradPrice best;
  STITCH_ASSIGN(best.direct_us, pricing.product(direct));
  for (const std::int64_t tile : graph::winograd_tiles) {
    WinogradPrice price = best;
    price.tile = tile;
    STITCH_ASSIGN(graph::WinogradSteps steps, graph::winograd_steps(direct, convolution, tile));
    STITCH_ASSIGN(price.product_us, pricing.product(steps.product));
    if (price.product_us >= price.direct_us) continue;  // whatever the transforms take
    STITCH_ASSIGN(price.input_us, pricing.transform(std::move(steps.input)));
    STITCH_ASSIGN(price.result_us, pricing.transform(std::move(steps.result)));
    price.filter_us = 0;
    if (!folded) {
      STITCH_ASSIGN(price.filter_us, pricing.transform(std::move(steps.filter)));
    }
    // Both products are off alike, the transforms by themselves.
    const double transforms = price.winograd_us() - price.product_us;
    price.uncertainty_us = costmodel::uncertainty_us(costmodel::KernelKind::contraction, price.direct_us) +
                           costmodel::uncertainty_us(costmodel::KernelKind::streaming, transforms);
    if (best.tile == 0 || price.winograd_us() < best.winograd_us()) best = price;
  }
  if (best.tile == 0) best.product_us = best.direct_us;
  return best;
}

Result<int> write_winograd(Graph& graph, const Tuner& tuner, std::optional<ProductsBy> by,
                           const std::stop_token& stop) {
  if (!graph::by_winograd(graph.constraints) || !tuner.has_products(by)) return 0;
  std::map<std::pair<Hash128, bool>, std::int64_t> known;  // layers have equal convolutions
  std::map<NodeId, std::int64_t> tiles;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (!graph::is_f32_product(graph, node) || !graph::has_winograd_form(graph, node)) continue;
    STITCH_ASSIGN(const Graph one, graph::subgraph(graph, node.operands, {{id, 0}}));
    const bool folded = is_of_no_parameter(graph, node.operands[1]);
    const auto [entry, added] = known.try_emplace({graph::region_key(one), folded}, 0);
    if (added) {
      const auto price = winograd_price(one, folded, tuner, by, stop);
      if (!price && price.error().kind == ErrorKind::cancelled) return price.error();
      // What has no price stays as it is.
      entry->second = price && price->is_faster() ? price->tile : 0;
    }
    if (entry->second != 0) tiles.emplace(id, entry->second);
  }
  if (tiles.empty()) return 0;
  STITCH_ASSIGN(graph, graph::with_winograd(graph, tiles));
  STITCH_TRY(graph::simplify(graph, {.stop = stop}));
  return static_cast<int>(tiles.size());
}

}  // namespace stitch::tuning
