#include "kernel/contraction/tensor_box.h"

namespace stitch::kernel {
namespace {

constexpr std::size_t most_dimensions = 5;
constexpr int most_lines = 256;
constexpr std::int64_t stride_unit = 16, most_stride = std::int64_t{1} << 40;  // bytes
/// Bytes after which the hardware's exclusive-or of places begins anew: shares begin there.
constexpr int swizzle_period = 1024;

template <class... Arguments>
Error refused(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
  return make_error(ErrorKind::constraint, format, std::forward<Arguments>(arguments)...);
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
  // One line lies anywhere.
  box.dimensions = {
      {run, 1}, {lines, other.empty() ? divided_up(run * size, stride_unit) * stride_unit / size : other[0].stride}};
  for (const auto& digit : operand.batch) {
    if (digit.stride == 0) continue;
    box.dimensions.push_back(digit);
  }
  if (box.dimensions.size() > most_dimensions) return refused("{} dimensions", box.dimensions.size());
  for (std::size_t d = 1; d < box.dimensions.size(); ++d) {
    const std::int64_t bytes = box.dimensions[d].stride * size;
    if (bytes <= 0 || bytes % stride_unit != 0 || bytes >= most_stride) return refused("a stride of {} bytes", bytes);
  }
  if (along_depth) {
    box.line_elements = depth;
    box.lines = free / shares;
    if (box.lines * depth * size % swizzle_period != 0) return refused("{} lines of {} bytes", box.lines, depth * size);
  } else {
    constexpr int panel = 64;
    box.line_elements = panel;
    box.lines = depth;
    box.copies = free / panel / shares;
    if (box.copies * panel * shares != free) return refused("{} elements in panels of {} blocks", free, shares);
  }
  if (box.lines > most_lines) return refused("{} lines in a box", box.lines);
  return box;
}

namespace {

/// Of each left operand, by a block that brings one of so many `shares`.
Result<std::vector<TensorBox>> boxes_of_left(const ContractionProblem& problem, const ContractionSchedule& s,
                                             int shares) {
  std::vector<TensorBox> boxes;
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
  return {whole ? s.row_blocks : 1, s.cluster};
}

Result<std::vector<TensorBox>> left_boxes(const ContractionProblem& problem, const ContractionSchedule& s) {
  return boxes_of_left(problem, s, tensor_shares(problem, s).left);
}

Result<std::vector<TensorBox>> right_boxes(const ContractionProblem& problem, const ContractionSchedule& s) {
  const int shares = tensor_shares(problem, s).right;
  std::vector<TensorBox> boxes;
  const auto add = [&](const ContractionOperand& right, std::int64_t columns, std::int64_t contracted) -> Status {
    STITCH_ASSIGN(TensorBox box, tensor_box_of(right, columns, contracted, s.block_columns, s.block_depth, shares));
    boxes.push_back(std::move(box));
    return {};
  };
  for (const ContractionTerm& term : problem.terms) STITCH_TRY(add(term.right, problem.columns, term.contracted));
  if (!problem.terms.empty()) return boxes;
  for (const ContractionProblem& part : parts_of(problem)) STITCH_TRY(add(part.right, part.columns, part.contracted));
  return boxes;
}

}  // namespace stitch::kernel
