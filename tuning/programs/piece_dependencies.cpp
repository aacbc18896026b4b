#include "tuning/programs/piece_dependencies.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace stitch::tuning {

using graph::Value;

PieceDependencies::PieceDependencies(std::span<const RegionPiece> pieces, const std::function<Value(Value)>& memory_of)
    : readers_(pieces.size()), one_(pieces.size()), depth_(pieces.size(), 0) {
  std::iota(one_.begin(), one_.end(), std::size_t{0});
  std::map<Value, std::size_t> writers;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    for (const Value value : pieces[p].writes) {
      if (!is_copy(pieces[p], value, memory_of)) writers.emplace(value, p);
    }
  }
  std::vector<int> missing(pieces.size(), 0);
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    std::set<std::size_t> before;
    for (const Value value : pieces[p].reads) {
      if (const auto writer = writers.find(memory_of(value)); writer != writers.end()) before.insert(writer->second);
    }
    for (const std::size_t writer : before) readers_[writer].push_back(p);
    missing[p] = static_cast<int>(before.size());
  }
  measure_depth(missing);
}

std::optional<int> PieceDependencies::first_read(std::size_t piece) const {
  std::optional<int> first;
  for (const std::size_t reader : readers_[piece]) first = std::min(first.value_or(depth_[reader]), depth_[reader]);
  return first;
}

bool PieceDependencies::lead_back(const PieceGroup& group, bool directly) const {
  std::set<std::size_t> targets;
  for (const std::size_t p : group) targets.insert(one_[p]);
  std::vector<std::size_t> open;
  std::vector<bool> seen(one_.size(), false);
  const auto follow = [&](std::size_t piece, bool from_target) {
    for (const std::size_t member : members_of(piece)) {
      for (const std::size_t reader : readers_[member]) {
        if (from_target && !directly && targets.contains(one_[reader])) continue;
        if (!seen[one_[reader]]) open.push_back(one_[reader]);
        seen[one_[reader]] = true;
      }
    }
  };
  for (const std::size_t p : targets) follow(p, true);
  while (!open.empty()) {
    const std::size_t piece = open.back();
    open.pop_back();
    if (targets.contains(piece)) return true;
    follow(piece, false);
  }
  return false;
}

void PieceDependencies::join(const PieceGroup& group) {
  for (const std::size_t p : group) one_[p] = group[0];
  joined_[group[0]] = group;
}

void PieceDependencies::measure_depth(std::vector<int> missing) {
  std::vector<std::size_t> ready;
  for (std::size_t p = 0; p < missing.size(); ++p) {
    if (missing[p] == 0) ready.push_back(p);
  }
  while (!ready.empty()) {
    const std::size_t piece = ready.back();
    ready.pop_back();
    for (const std::size_t reader : readers_[piece]) {
      depth_[reader] = std::max(depth_[reader], depth_[piece] + 1);
      if (--missing[reader] == 0) ready.push_back(reader);
    }
  }
}

PieceGroup PieceDependencies::members_of(std::size_t piece) const {
  const auto found = joined_.find(piece);
  return found == joined_.end() ? PieceGroup{piece} : found->second;
}

}  // namespace stitch::tuning
