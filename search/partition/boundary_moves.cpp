#include "search/partition/boundary_moves.h"

#include <utility>

#include "search/partition/boundary.h"
#include "search/partition/quotient.h"

namespace stitch::search {
namespace {

/// Moves the boundary between two parts; whether that was a gain.
bool move_boundary(const VertexGraph& vertices, std::vector<VertexSet>& parts, int a, int b, PartPrices& prices,
                   const PartLimits& limits) {
  VertexSet &first = parts[a], &second = parts[b];
  const auto price = [&](const VertexSet& part) { return part.count() == 0 ? 0.0 : prices.us(part); };
  for (auto& [before, after] : best_boundaries(vertices, first, second)) {
    if (!limits.allows(before) || !limits.allows(after)) continue;
    const double us = price(first) + price(second);
    std::swap(first, before);
    std::swap(second, after);
    if (!Quotient(vertices, parts).order().empty()) {
      prices.warm({first, second});  // side by side
      if (price(first) + price(second) < us - rounding_us) return true;
    }
    std::swap(first, before);
    std::swap(second, after);
  }
  return false;
}

}  // namespace

void move_boundaries(const VertexGraph& vertices, std::vector<VertexSet>& parts, PartPrices& prices,
                     const PartLimits& limits) {
  constexpr std::size_t most_parts = 256;
  if (parts.size() > most_parts) return;
  constexpr int rounds = 4;
  bool changed = true;
  for (int round = 0; round < rounds && changed; ++round) {
    changed = false;
    const Quotient quotient(vertices, parts);
    for (int a = 0; a < std::ssize(parts); ++a) {
      for (int b = 0; b < std::ssize(parts); ++b) {
        if (quotient.has_edge(a, b)) changed = move_boundary(vertices, parts, a, b, prices, limits) || changed;
      }
    }
    std::erase(parts, VertexSet(vertices.size()));
  }
}

}  // namespace stitch::search
