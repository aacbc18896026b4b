#include "search/partition/partition_moves.h"

#include <algorithm>
#include <array>

#include "search/partition/quotient.h"

namespace stitch::search {
namespace {

constexpr double least_gain_us = 1e-6;

/// Two parts and what becomes of them; an empty set is no part.
struct Move {
  std::array<std::size_t, 2> parts{};  ///< the second may be one past the end: a new part
  std::array<VertexSet, 2> after;
  double gain_us = 0;
};

bool is_empty(const VertexSet& set) { return set.count() == 0; }

std::vector<VertexSet> made_by(const Move& move, std::vector<VertexSet> parts) {
  parts.resize(std::max(parts.size(), move.parts[1] + 1), VertexSet(0));
  for (std::size_t k = 0; k < 2; ++k) parts[move.parts[k]] = move.after[k];
  std::erase_if(parts, is_empty);
  std::ranges::sort(parts);
  return parts;
}

bool connected(const VertexGraph& vertices, const VertexSet& a, const VertexSet& b) {
  return std::ranges::any_of(a.members(), [&](int v) {
    const auto in_b = [&](int other) { return b.contains(other); };
    return std::ranges::any_of(vertices.consumers(v), in_b) || std::ranges::any_of(vertices.producers(v), in_b);
  });
}

std::vector<Move> moves_of(const VertexGraph& vertices, const std::vector<VertexSet>& parts, bool packing) {
  const VertexSet none(vertices.size());
  std::vector<Move> moves;
  for (std::size_t a = 0; a < parts.size(); ++a) {
    for (std::size_t b = a + 1; b < parts.size(); ++b) {
      if (!packing && !connected(vertices, parts[a], parts[b])) continue;
      Move join{{a, b}, {parts[a], none}, 0};
      join.after[0].merge(parts[b]);
      moves.push_back(std::move(join));
    }
    const std::vector<int> members = parts[a].members();
    if (members.size() < 2) continue;
    for (const int v : members) {
      VertexSet alone = none;
      alone.insert(v);
      for (std::size_t b = 0; b <= parts.size(); ++b) {
        if (b == a || (b < parts.size() && !packing && !connected(vertices, alone, parts[b]))) continue;
        Move move{{a, b}, {parts[a], b < parts.size() ? parts[b] : none}, 0};
        move.after[0].erase(v);
        move.after[1].insert(v);
        moves.push_back(std::move(move));
      }
    }
  }
  return moves;
}

}  // namespace

std::optional<std::vector<VertexSet>> best_move(const VertexGraph& vertices, const std::vector<VertexSet>& parts,
                                                bool packing, const PriceOfSets& price) {
  std::vector<Move> moves = moves_of(vertices, parts, packing);
  std::erase_if(moves, [&](const Move& move) { return Quotient(vertices, made_by(move, parts)).order().empty(); });
  std::vector<VertexSet> sets = parts;
  for (const Move& move : moves) {
    for (const VertexSet& set : move.after) {
      if (!is_empty(set)) sets.push_back(set);
    }
  }
  const std::vector<double> us = price(sets);
  std::size_t next = parts.size();
  for (Move& move : moves) {
    for (std::size_t k = 0; k < 2; ++k) {
      if (move.parts[k] < parts.size()) move.gain_us += us[move.parts[k]];
      if (!is_empty(move.after[k])) move.gain_us -= us[next++];
    }
  }
  const auto best = std::ranges::max_element(moves, {}, &Move::gain_us);
  if (best == moves.end() || best->gain_us <= least_gain_us) return std::nullopt;
  return made_by(*best, parts);
}

}  // namespace stitch::search
