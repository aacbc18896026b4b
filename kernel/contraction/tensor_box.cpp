#include "kernel/contraction/tensor_box.h"

#include <algorithm>
#include <cstdlib>

#include "kernel/contraction/window_walk.h"

namespace stitch::kernel {
namespace {

constexpr std::size_t most_dimensions = 5;
constexpr int most_lines = 256, most_step = 8;
constexpr std::int64_t stride_unit = 16, most_stride = std::int64_t{1} << 40;  // bytes
/// Bytes after which the hardware's exclusive-or of places begins anew: shares begin there.
constexpr int swizzle_period = 1024;
constexpr int panel = 64;  // elements of a line along the free dimension

template <class... Arguments>
Error refused(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return make_error(ErrorKind::constraint, format, std::forward<Arguments>(arguments)...);
}

Status check_strides(const TensorBox& box, int size) {
  if (box.dimensions.size() > most_dimensions) return refused("{} dimensions", box.dimensions.size());
  for (std::size_t d = 1; d < box.dimensions.size(); ++d) {
    const std::int64_t bytes = box.dimensions[d].stride * size;
    if (bytes <= 0 || bytes % stride_unit != 0 || bytes >= most_stride) return refused("a stride of {} bytes", bytes);
  }
  return {};
}

void add_batch(const ContractionOperand& operand, TensorBox& box) {
  for (const auto& digit : operand.batch) {
    if (digit.stride != 0) box.dimensions.push_back(digit);
  }
}

/// Of a line that lies anywhere.
std::int64_t stride_of_one(std::int64_t run, int size) {
  return divided_up(run * size, stride_unit) * stride_unit / size;
}

/// Lines or panels of a tile of `free` × `depth`, of which a block brings one of so many `shares`.
Status divide(bool along_depth, int size, int free, int depth, int shares, TensorBox& box) {
  if (along_depth) {
    box.line_elements = depth;
    box.lines = free / shares;
    if (box.lines * depth * size % swizzle_period != 0) return refused("{} lines of {} bytes", box.lines, depth * size);
  } else {
    box.line_elements = panel;
    box.lines = depth;
    box.copies = free / panel / shares;
    if (box.copies * panel * shares != free) return refused("{} elements in panels of {} blocks", free, shares);
  }
  if (box.lines > most_lines) return refused("{} lines in a box", box.lines);
  return {};
}

}  // namespace

Result<TensorBox> tensor_box_of(const ContractionOperand& operand, std::int64_t free_extent, std::int64_t contracted,
                                int free, int depth, int shares) {
  const int size = graph::byte_size(operand.dtype);
  const Contiguity along = contiguity(operand);
  if (along == Contiguity::none || !operand.windows.empty()) return refused("an operand without runs, or with windows");
  if (operand.free.size() > 1 || operand.contracted.size() > 1) return refused("rows or depth of several digits");
  if (operand.offset * size % stride_unit != 0) return refused("an operand that begins at element {}", operand.offset);
  const bool along_depth = along == Contiguity::contracted;
  const ContractionDigits& other = along_depth ? operand.free : operand.contracted;
  const std::int64_t run = along_depth ? contracted : free_extent, lines = along_depth ? free_extent : contracted;
  TensorBox box;
  box.offset = operand.offset;
  box.dimensions = {{run, 1}, {lines, other.empty() ? stride_of_one(run, size) : other[0].stride}};
  add_batch(operand, box);
  STITCH_TRY(check_strides(box, size));
  STITCH_TRY(divide(along_depth, size, free, depth, shares, box));
  return box;
}

namespace {

void append(TensorBox& box, std::int64_t extent, std::int64_t stride, TensorBox::Place place, std::int64_t elements = 1,
            std::int64_t step = 1) {
  box.dimensions.push_back({extent, stride});
  box.places.push_back(std::move(place));
  box.extents.push_back(static_cast<int>(elements * step));
  box.steps.push_back(static_cast<int>(step));
}

/// What is left of a box of windows.
Status finish(const ContractionOperand& operand, TensorBox& box) {
  const int size = graph::byte_size(operand.dtype);
  if (box.dimensions.size() == 1) append(box, 1, stride_of_one(box.dimensions[0].extent, size), {});
  add_batch(operand, box);
  box.extents.resize(box.dimensions.size(), 1);
  box.steps.resize(box.dimensions.size(), 1);
  if (box.offset * size % stride_unit != 0) return refused("an operand that begins at element {}", box.offset);
  for (std::size_t d = 0; d < box.dimensions.size(); ++d) {
    auto& [extent, stride] = box.dimensions[d];
    if (extent == 1 && stride == 0) stride = stride_of_one(1, size);
    if (box.extents[d] > most_lines) return refused("{} elements of a box along a dimension", box.extents[d]);
    if (box.steps[d] > most_step) return refused("steps of {} elements", box.steps[d]);
  }
  return check_strides(box, size);
}

/// The input of a convolution.
Result<TensorBox> box_under_windows(const ContractionProblem& problem, const ContractionSchedule& s) {
  const ContractionOperand& left = problem.left;
  STITCH_ASSIGN(const WindowWalk walk, window_walk(problem, s.block_rows));
  TensorBox box;
  box.offset = left.offset;
  box.lines = walk.tile_rows();
  box.line_elements = s.block_depth;
  TensorBox::Place first;
  first.depth = true;
  append(box, walk.depth[0].extent, 1, std::move(first), s.block_depth);
  // The place of a window beside the rows: where it begins, and the turn's position.
  const auto place_of = [&](int number) {
    const WindowDimension& window = left.windows[number];
    TensorBox::Place place;
    place.base = window.base;
    for (std::size_t i = 1; i < walk.depth.size(); ++i) {
      if (walk.depth[i].window == number) place.turns.emplace_back(static_cast<int>(i), window.contracted.step);
    }
    return place;
  };
  // A map begins at the first element of its dimensions, the operand at that of its first row.
  const auto along = [&](int number, std::int64_t moved, std::int64_t step) -> Result<std::int64_t> {
    if (step <= 0 || moved % step != 0) return refused("windows that move by {} elements at once", step);
    box.offset -= left.windows[number].base * (moved / step);
    return moved / step;
  };
  for (std::size_t i = 0; i < walk.rows.size(); ++i) {
    const WindowWalk::Rows& rows = walk.rows[i];
    TensorBox::Place place;
    if (rows.window >= 0) place = place_of(rows.window);
    place.rows = static_cast<int>(i);
    place.step = rows.step;
    std::int64_t extent = rows.extent, stride = rows.stride;
    if (rows.window >= 0) {
      extent = left.windows[rows.window].extent;
      STITCH_ASSIGN(stride, along(rows.window, rows.stride, rows.step));
    } else if (rows.turned >= 0) {
      const WindowWalk::Depth& depth = walk.depth[rows.turned];
      stride = rows.stride / rows.step;
      place.turns.emplace_back(rows.turned, depth.left / stride);
      extent = (rows.extent - 1) * rows.step + (depth.extent - 1) * (depth.left / stride) + 1;
    }
    append(box, extent, stride, std::move(place), rows.tile, rows.step);
  }
  for (std::size_t i = 1; i < walk.depth.size(); ++i) {
    const WindowWalk::Depth& depth = walk.depth[i];
    if (std::ranges::any_of(walk.rows, [&](const auto& rows) { return rows.turned == static_cast<int>(i); })) continue;
    if (depth.window < 0) {
      TensorBox::Place place;
      place.turns.emplace_back(static_cast<int>(i), 1);
      append(box, depth.extent, depth.left, std::move(place));
    } else if (const WindowDimension& window = left.windows[depth.window]; window.free.extent == 1) {
      STITCH_ASSIGN(const std::int64_t stride, along(depth.window, depth.left, window.contracted.step));
      append(box, window.extent, stride, place_of(depth.window));
    }
  }
  STITCH_TRY(finish(left, box));
  return box;
}

/// Its filters. Positions that follow one another evenly are one dimension, in the other order where windows are
/// reversed.
Result<TensorBox> box_of_filters(const ContractionProblem& problem, const ContractionSchedule& s, int shares) {
  const ContractionOperand& right = problem.right;
  STITCH_ASSIGN(const WindowWalk walk, window_walk(problem, s.block_rows));
  if (right.free.size() > 1) return refused("columns of several digits");
  const std::int64_t features = walk.depth[0].extent, of_feature = walk.depth[0].right;
  const std::int64_t of_column = right.free.empty() ? 0 : right.free[0].stride;
  if (contiguity(right) == Contiguity::none) return refused("filters without runs");
  const bool along_depth = contiguity(right) == Contiguity::contracted;
  const int size = graph::byte_size(right.dtype);
  TensorBox box;
  box.offset = right.offset;
  // Filters have few columns: where their panels are no whole shares, each is brought by all blocks.
  box.parts_lines = !along_depth && shares > 1 && right_columns(s) % (panel * shares) != 0;
  STITCH_TRY(divide(along_depth, size, right_columns(s), s.block_depth, box.parts_lines ? 1 : shares, box));
  if (box.parts_lines) {
    box.lines = s.block_depth / shares;
    if (box.lines * shares != s.block_depth || box.lines * panel * size % swizzle_period != 0)
      return refused("{} lines of panels by {} blocks", s.block_depth, shares);
  }
  TensorBox::Place depth, free;
  depth.depth = true;
  free.free = true;
  if (along_depth) {
    append(box, features, 1, depth, box.line_elements);
    append(box, problem.columns, right.free.empty() ? stride_of_one(features, size) : of_column, free, box.lines);
  } else {
    append(box, problem.columns, 1, free, box.line_elements);
    append(box, features, of_feature, depth, box.lines);
  }
  for (std::size_t i = 1; i < walk.depth.size();) {
    const std::int64_t stride = walk.depth[i].right;
    TensorBox::Place place;
    std::int64_t extent = 1;
    do {
      place.turns.emplace_back(static_cast<int>(i), stride < 0 ? -extent : extent);
      extent *= walk.depth[i].extent;
      ++i;
    } while (i < walk.depth.size() && walk.depth[i].right == stride * extent);
    if (stride < 0) {
      place.base = extent - 1;
      box.offset += (extent - 1) * stride;
    }
    append(box, extent, std::abs(stride), std::move(place));
  }
  STITCH_TRY(finish(right, box));
  return box;
}

/// Of each left operand, by a block that brings one of so many `shares`.
Result<std::vector<TensorBox>> boxes_of_left(const ContractionProblem& problem, const ContractionSchedule& s,
                                             int shares) {
  std::vector<TensorBox> boxes;
  if (walks_windows(problem, s)) {
    if (shares > 1) return refused("boxes under windows of {} blocks", shares);
    STITCH_ASSIGN(TensorBox box, box_under_windows(problem, s));
    boxes.push_back(std::move(box));
    return boxes;
  }
  const auto add = [&](const ContractionOperand& left, std::int64_t contracted) -> Status {
    STITCH_ASSIGN(TensorBox box, tensor_box_of(left, problem.rows, contracted, s.block_rows, s.block_depth, shares));
    boxes.push_back(std::move(box));
    return {};
  };
  for (const ContractionTerm& term : problem.terms) STITCH_TRY(add(term.left, term.contracted));
  if (problem.terms.empty()) STITCH_TRY(add(problem.left, problem.contracted));
  return boxes;
}

}  // namespace

TensorShares tensor_shares(const ContractionProblem& problem, const ContractionSchedule& s) {
  const bool whole =
      s.row_blocks > 1 && s.block_rows % s.row_blocks == 0 && boxes_of_left(problem, s, s.row_blocks).ok();
  return {whole ? s.row_blocks : 1, s.paired ? s.cluster / 2 : s.cluster};
}

Result<std::vector<TensorBox>> left_boxes(const ContractionProblem& problem, const ContractionSchedule& s) {
  return boxes_of_left(problem, s, tensor_shares(problem, s).left);
}

Result<std::vector<TensorBox>> right_boxes(const ContractionProblem& problem, const ContractionSchedule& s) {
  const int shares = tensor_shares(problem, s).right;
  std::vector<TensorBox> boxes;
  if (walks_windows(problem, s)) {
    STITCH_ASSIGN(TensorBox box, box_of_filters(problem, s, shares));
    boxes.push_back(std::move(box));
    return boxes;
  }
  const auto add = [&](const ContractionOperand& right, std::int64_t columns, std::int64_t contracted) -> Status {
    STITCH_ASSIGN(TensorBox box, tensor_box_of(right, columns, contracted, right_columns(s), s.block_depth, shares));
    boxes.push_back(std::move(box));
    return {};
  };
  for (const ContractionTerm& term : problem.terms) STITCH_TRY(add(term.right, problem.columns, term.contracted));
  if (!problem.terms.empty()) return boxes;
  for (const ContractionProblem& part : parts_of(problem)) STITCH_TRY(add(part.right, part.columns, part.contracted));
  return boxes;
}

}  // namespace stitch::kernel
