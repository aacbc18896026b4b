#include "kernel/contraction/window_walk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>

namespace stitch::kernel {
namespace {

/// Elements of a box along one dimension, those that are stepped over included (cuTensorMapEncodeTiled).
constexpr std::int64_t most_of_box = 256, longest_step = 8;

using Cuts = std::vector<std::int64_t>;

Error cannot_walk(std::string_view what) { return make_error(ErrorKind::constraint, "{}", what); }

/// Where digits begin, as divisors of the joined index.
void cut_by(const ContractionDigits& digits, Cuts& cuts) {
  std::int64_t step = 1;
  for (std::size_t i = digits.size(); i-- > 0;) cuts.push_back(step *= digits[i].extent);
}

/// Of one more of the index at a place that no digit is cut at.
std::int64_t stride_at(const ContractionDigits& digits, std::int64_t divisor) {
  std::int64_t step = 1;
  for (std::size_t i = digits.size(); i-- > 0; step *= digits[i].extent) {
    if (divisor < step * digits[i].extent) return digits[i].stride * (divisor / step);
  }
  return 0;
}

/// In order, from 1 up to `all`, each a multiple of the one before.
bool make_nested(Cuts& cuts, std::int64_t all) {
  cuts.push_back(1);
  cuts.push_back(all);
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  if (cuts.back() != all) return false;
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    if (cuts[i] % cuts[i - 1] != 0) return false;
  }
  return true;
}

/// The parts of a joined index: those of digits, and those that move windows.
template <class Part, class Digits>
Result<std::vector<Part>> index_parts(const ContractionOperand& left, WindowDimension::Position WindowDimension::*place,
                                      std::int64_t all, const Digits& digits) {
  Cuts cuts;
  for (const ContractionDigits* each : digits) cut_by(*each, cuts);
  for (const WindowDimension& window : left.windows) {
    const WindowDimension::Position& position = window.*place;
    if (position.extent == 1) continue;
    cuts.push_back(position.divisor);
    cuts.push_back(position.divisor * position.extent);
  }
  if (!make_nested(cuts, all)) return cannot_walk("windows that are no whole digits");
  std::vector<Part> parts;
  for (std::size_t i = 1; i < cuts.size(); ++i) {
    Part& part = parts.emplace_back();
    part.extent = cuts[i] / cuts[i - 1];
    for (std::size_t w = 0; w < left.windows.size(); ++w) {
      const WindowDimension::Position& position = left.windows[w].*place;
      const bool within =
          position.extent > 1 && cuts[i - 1] >= position.divisor && cuts[i] <= position.divisor * position.extent;
      if (!within) continue;
      if (part.extent != position.extent || part.window >= 0) return cannot_walk("windows that are no whole digits");
      part.window = static_cast<int>(w);
    }
    if constexpr (requires { part.stride; }) {
      part.stride = stride_at(*digits[0], cuts[i - 1]);
    } else {
      part.left = stride_at(*digits[0], cuts[i - 1]);
      part.right = stride_at(*digits[1], cuts[i - 1]);
    }
  }
  return parts;
}

/// Where a window stays within its input, its positions and those of the result are along one dimension all the same,
/// if one's stride is a multiple of the other's: a map has five.
void join_dimensions(WindowWalk& walk) {
  for (std::size_t i = 1; i < walk.depth.size(); ++i) {
    const WindowWalk::Depth& depth = walk.depth[i];
    WindowWalk::Rows* nearest = nullptr;
    const auto ratio = [&](const WindowWalk::Rows& rows) {
      return std::max(rows.stride, depth.left) / std::min(rows.stride, depth.left);
    };
    for (WindowWalk::Rows& rows : walk.rows) {
      if (depth.window >= 0 || rows.window >= 0 || rows.turned >= 0 || rows.stride <= 0 || depth.left <= 0) continue;
      if (rows.stride / std::gcd(rows.stride, depth.left) > longest_step) continue;
      if (rows.stride % depth.left != 0 && depth.left % rows.stride != 0) continue;
      if (nearest == nullptr || ratio(rows) < ratio(*nearest)) nearest = &rows;
    }
    if (nearest == nullptr) continue;
    nearest->turned = static_cast<int>(i);
    nearest->step = std::max<std::int64_t>(1, nearest->stride / depth.left);
  }
}

/// Finds how many rows of a tile there are along each part: the fewest tiles, and of as many those that are longest
/// along the inner parts. But for the outermost part powers of two, and all, are tried.
class TileChoice {
 public:
  TileChoice(std::vector<WindowWalk::Rows>& rows, int most) : rows_(rows), most_(most) {
    for (const WindowWalk::Rows& each : rows) {
      limits_.push_back(std::max<std::int64_t>(1, most_of_box / std::max<std::int64_t>(1, each.step)));
      tried_.push_back(1);
    }
  }

  void choose() { choose(0, most_, 1); }

 private:
  void choose(std::size_t part, std::int64_t room, std::int64_t tiles) {
    if (part == rows_.size()) {
      if (tiles >= fewest_) return;
      fewest_ = tiles;
      for (std::size_t i = 0; i < rows_.size(); ++i) rows_[i].tile = static_cast<int>(tried_[i]);
      return;
    }
    const std::int64_t extent = rows_[part].extent, most = std::min({extent, room, limits_[part]});
    for (std::int64_t size = most;; size = std::bit_floor(static_cast<std::uint64_t>(size - 1))) {
      tried_[part] = size;
      choose(part + 1, room / size, tiles * ((extent + size - 1) / size));
      if (part + 1 == rows_.size() || size == 1) break;
    }
  }

  std::vector<WindowWalk::Rows>& rows_;
  const std::int64_t most_;
  std::vector<std::int64_t> limits_, tried_;
  std::int64_t fewest_ = std::numeric_limits<std::int64_t>::max();
};

}  // namespace

int WindowWalk::tile_rows() const {
  int all = 1;
  for (const Rows& each : rows) all *= each.tile;
  return all;
}

std::int64_t WindowWalk::row_tiles() const {
  std::int64_t all = 1;
  for (const Rows& each : rows) all *= each.tiles();
  return all;
}

std::int64_t WindowWalk::rows_of(std::int64_t tile) const {
  if (tile >= row_tiles()) return 0;
  std::int64_t all = 1;
  for (const Rows& each : rows) {
    all *= std::min<std::int64_t>(each.tile, each.extent - tile % each.tiles() * each.tile);
    tile /= each.tiles();
  }
  return all;
}

std::int64_t WindowWalk::turns(std::int64_t block_depth) const {
  std::int64_t all = (depth[0].extent + block_depth - 1) / block_depth;
  for (std::size_t i = 1; i < depth.size(); ++i) all *= depth[i].extent;
  return all;
}

bool walks_windows(const ContractionProblem& problem, const ContractionSchedule& schedule) {
  if (!schedule.tensor_copies || !problem.is_convolution()) return false;
  return !problem.left.windows.empty() || problem.left.free.size() > 1 || problem.left.contracted.size() > 1 ||
         problem.right.contracted.size() > 1;
}

Result<WindowWalk> window_walk(const ContractionProblem& problem, int block_rows) {
  const ContractionOperand& left = problem.left;
  if (!problem.members.empty() || !problem.terms.empty()) return cannot_walk("windows of several products");
  if (problem.rows == 0 || problem.contracted == 0) return cannot_walk("windows of nothing");
  if (std::ranges::any_of(left.windows, [](const WindowDimension& window) {
        return window.holes != 1 || window.stride != 0 || window.extent == 0 ||
               (window.free.extent == 1 && window.contracted.extent == 1);
      }))
    return cannot_walk("windows with holes, or that stand still");
  WindowWalk walk;
  using Both = std::array<const ContractionDigits*, 2>;
  STITCH_ASSIGN(walk.rows,
                (index_parts<WindowWalk::Rows>(left, &WindowDimension::free, problem.rows, std::array{&left.free})));
  STITCH_ASSIGN(walk.depth, (index_parts<WindowWalk::Depth>(left, &WindowDimension::contracted, problem.contracted,
                                                            Both{&left.contracted, &problem.right.contracted})));
  if (walk.depth.empty() || walk.depth[0].left != 1 || walk.depth[0].window >= 0)
    return cannot_walk("features that do not lie side by side");
  for (WindowWalk::Rows& rows : walk.rows) {
    if (rows.window >= 0) rows.step = left.windows[rows.window].free.step;
  }
  join_dimensions(walk);
  TileChoice(walk.rows, block_rows).choose();
  return walk;
}

}  // namespace stitch::kernel
