#include "graph/reference/evaluate_box.h"

#include <fmt/format.h>

#include <algorithm>

namespace stitch::graph {

Box Box::whole(const Dims& dims) { return {Dims(dims.size(), 0), dims}; }

bool Box::contains(const Box& other) const {
  if (other.empty()) return true;
  for (std::size_t d = 0; d < start.size(); ++d) {
    if (other.start[d] < start[d] || other.end(d) > end(d)) return false;
  }
  return true;
}

std::string to_string(const Box& box) {
  std::string text = "[";
  for (std::size_t d = 0; d < box.start.size(); ++d) {
    text += fmt::format("{}{}:{}", d == 0 ? "" : ",", box.start[d], box.end(d));
  }
  return text + "]";
}

Box hull(const Box& a, const Box& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  Box both = a;
  for (std::size_t d = 0; d < a.start.size(); ++d) {
    both.start[d] = std::min(a.start[d], b.start[d]);
    both.size[d] = std::max(a.end(d), b.end(d)) - both.start[d];
  }
  return both;
}

Box intersection(const Box& a, const Box& b) {
  Box common = a;
  for (std::size_t d = 0; d < a.start.size(); ++d) {
    common.start[d] = std::max(a.start[d], b.start[d]);
    common.size[d] = std::max<std::int64_t>(0, std::min(a.end(d), b.end(d)) - common.start[d]);
  }
  return common;
}

bool next_index(const Box& box, Dims& index) {
  for (std::size_t d = index.size(); d-- > 0;) {
    if (++index[d] < box.end(d)) return true;
    index[d] = box.start[d];
  }
  return false;
}

namespace {

/// Below this many boxes every pair is tried; above, only neighbours in sorted order.
constexpr std::size_t few_boxes = 64;

/// Whether a and b had better be one box; then `a` becomes it.
bool merge_into(Box& a, const Box& b) {
  const Box both = hull(a, b);
  if (both.elements() > a.elements() + b.elements()) return false;
  a = both;
  return true;
}

/// Merges pairs until no pair is worth it.
void merge_all_pairs(std::vector<Box>& boxes) {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      for (std::size_t j = i + 1; j < boxes.size();) {
        if (merge_into(boxes[i], boxes[j])) {
          boxes.erase(boxes.begin() + j);
          changed = true;
        } else {
          ++j;
        }
      }
    }
  }
}

}  // namespace

void Region::add(Box box) {
  if (box.empty() || (boxes_.size() == 1 && boxes_[0].contains(box))) return;
  boxes_.push_back(std::move(box));
  if (boxes_.size() > 2 * most_boxes) normalise();  // a gather of millions of rows: bounded memory
}

void Region::normalise() {
  if (boxes_.size() < 2) return;
  std::sort(boxes_.begin(), boxes_.end());
  std::vector<Box> merged;
  for (const Box& box : boxes_) {
    if (merged.empty() || !merge_into(merged.back(), box)) merged.push_back(box);
  }
  if (merged.size() > most_boxes) {
    Box all = merged[0];
    for (const Box& box : merged) all = hull(all, box);
    merged.assign(1, all);
  }
  if (merged.size() <= few_boxes) merge_all_pairs(merged);
  std::sort(merged.begin(), merged.end());
  boxes_ = std::move(merged);
}

std::ptrdiff_t Region::find(const Box& box) const {
  // A box that contains `box` starts nowhere after it, so it comes at or before it in the order.
  auto after = std::upper_bound(boxes_.begin(), boxes_.end(), box.start,
                                [](const Dims& start, const Box& candidate) { return start < candidate.start; });
  while (after != boxes_.begin()) {
    --after;
    if (after->contains(box)) return after - boxes_.begin();
  }
  return -1;
}

}  // namespace stitch::graph
