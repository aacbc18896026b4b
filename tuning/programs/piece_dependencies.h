#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "tuning/programs/region_piece.h"

namespace stitch::tuning {

/// Pieces by number, ascending; two at least.
using PieceGroup = std::vector<std::size_t>;

/// Who waits for whom among a region's pieces, where groups of them become one.
class PieceDependencies {
 public:
  /// `memory_of`: the value that is written where a value lies.
  PieceDependencies(std::span<const RegionPiece> pieces, const std::function<graph::Value(graph::Value)>& memory_of);

  /// Pieces on the longest way to one.
  [[nodiscard]] int depth(std::size_t piece) const { return depth_[piece]; }
  /// The depth at which what it writes is read first; nothing: the region's caller reads it.
  [[nodiscard]] std::optional<int> first_read(std::size_t piece) const;
  /// Those that read what it writes.
  [[nodiscard]] const std::vector<std::size_t>& readers(std::size_t piece) const { return readers_[piece]; }

  /// Whether a way leads out of one of these pieces and back to one of them.
  [[nodiscard]] bool wait_for_one_another(const PieceGroup& group) const { return lead_back(group, true); }
  /// The same, through others.
  [[nodiscard]] bool wait_for_others_between(const PieceGroup& group) const { return lead_back(group, false); }
  void join(const PieceGroup& group);

 private:
  [[nodiscard]] bool lead_back(const PieceGroup& group, bool directly) const;
  void measure_depth(std::vector<int> missing);
  [[nodiscard]] PieceGroup members_of(std::size_t piece) const;

  std::vector<std::vector<std::size_t>> readers_;
  std::vector<std::size_t> one_;  ///< the first of the group that a piece is in, or itself
  std::map<std::size_t, PieceGroup> joined_;
  std::vector<int> depth_;
};

}  // namespace stitch::tuning
