#include "tuning/programs/library_rival.h"

#include <algorithm>

#include "costmodel/uncertainty.h"
#include "graph/calls/find_calls.h"
#include "graph/canonical.h"
#include "graph/subgraph.h"

namespace stitch::tuning {

Result<std::vector<graph::Graph>> library_calls_of(const graph::Graph& product) {
  std::vector<graph::Graph> calls;
  for (const graph::LibraryCall& call : graph::find_library_calls(product)) {
    const std::vector<graph::Value> written = {call.result};
    STITCH_ASSIGN(const graph::Graph part, graph::subgraph(product, call.operands, written));
    STITCH_ASSIGN(auto form, graph::canonicalise(part));
    calls.push_back(std::move(form.graph));
  }
  return calls;
}

Result<std::optional<LibraryRival>> library_rival(const graph::Graph& product, bool rest_apart, const Tuner& tuner,
                                                  const KnownCall& known) {
  const auto price = tuner.product_price(product);
  if (!price) return std::optional<LibraryRival>();
  STITCH_ASSIGN(const std::vector<graph::Graph> calls, library_calls_of(product));
  if (calls.empty()) return std::optional<LibraryRival>();
  LibraryRival rival;
  double predicted_us = 0, samples_off_us = 0;
  for (const graph::Graph& call : calls) {
    STITCH_ASSIGN(const std::optional<CallTime> time, known(call));
    const auto alone = tuner.product_price(call);
    if (!time || time->failure || !alone) return std::optional<LibraryRival>();
    predicted_us += alone->library_us;
    rival.measured_us += time->us;
    samples_off_us += time->us * time->noise;
    rival.noise = std::max(rival.noise, time->noise);
    if (std::ranges::find(rival.libraries, time->library) == rival.libraries.end())
      rival.libraries.push_back(time->library);
  }
  // What stands between and behind the calls has nothing but its prediction.
  const double beside_us = std::max(0.0, price->library_us - predicted_us) + (rest_apart ? price->rest_us : 0);
  rival.us = rival.measured_us + beside_us;
  rival.uncertainty_us = samples_off_us;
  // Sums of the same calls in another order differ by less than any clock tells.
  constexpr double nothing_us = 1e-6;
  if (beside_us > nothing_us) {
    rival.uncertainty_us += costmodel::uncertainty_us(costmodel::KernelKind::streaming, beside_us);
  }
  return std::optional(std::move(rival));
}

}  // namespace stitch::tuning
