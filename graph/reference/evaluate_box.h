#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "graph/tensor_type.h"

namespace stitch::graph {

/// A hyper-rectangle of element indices: dimension d covers start[d] … start[d] + size[d] - 1. A scalar's box has no
/// dimensions and one element.
struct Box {
  Dims start, size;

  /// Every element of a tensor with these extents.
  static Box whole(const Dims& dims);

  [[nodiscard]] std::int64_t elements() const { return element_count(size); }
  [[nodiscard]] bool empty() const { return elements() == 0; }
  [[nodiscard]] std::int64_t end(std::size_t d) const { return start[d] + size[d]; }
  [[nodiscard]] bool contains(const Box& other) const;

  auto operator<=>(const Box&) const = default;
};

/// "[0:4,8:16]"
std::string to_string(const Box& box);

/// The smallest box that holds both.
Box hull(const Box& a, const Box& b);
/// What both hold; empty (some size 0) when they are disjoint.
Box intersection(const Box& a, const Box& b);

/// Moves `index` to the next element of `box` in row-major order; after the last one back to the first, and false.
bool next_index(const Box& box, Dims& index);

/// Half-open range of indices along one dimension.
struct Interval {
  std::int64_t begin = 0, end = 0;
  auto operator<=>(const Interval&) const = default;
};

/// The elements of a tensor that are wanted, as boxes.
///
/// Boxes may overlap; whatever was added lies inside one box of `boxes()` after normalise(), which merges boxes when
/// their hull is no larger than both together and falls back to the hull of all beyond `most_boxes`. So a demand is
/// exact for rows, columns and scattered rows, and never smaller than what was asked for.
class Region {
 public:
  static constexpr std::size_t most_boxes = 1U << 15;

  void add(Box box);
  void normalise();

  [[nodiscard]] bool empty() const { return boxes_.empty(); }
  /// Ascending by start once normalised.
  [[nodiscard]] std::span<const Box> boxes() const { return boxes_; }
  /// Index of a box that contains `box`, or -1. Only after normalise().
  [[nodiscard]] std::ptrdiff_t find(const Box& box) const;

 private:
  std::vector<Box> boxes_;
};

}  // namespace stitch::graph
