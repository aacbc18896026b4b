#include "kernel/contraction/realigned_copy.h"

#include <algorithm>

#include "kernel/contraction/computed_operand.h"

namespace stitch::kernel {
namespace {

bool never_falls(const ContractionDigits& digits) {
  return std::ranges::all_of(digits, [](const auto& digit) { return digit.stride >= 0; });
}

/// Whether what has a higher number lies nowhere before what has a lower one.
bool is_ordered(const ContractionDigits& digits) {
  std::int64_t inner = 0;  // from the first to the last place of the digits behind
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    if (digit->stride < inner) return false;
    inner += digit->stride * (digit->extent - 1);
  }
  return true;
}

}  // namespace

bool rises(const ContractionOperand& operand) {
  return operand.windows.empty() && is_ordered(operand.free) && is_ordered(operand.contracted);
}

std::int64_t parted_line(const ContractionOperand& operand) {
  if (contiguity(operand) != Contiguity::contracted) return 0;
  const std::int64_t line = operand.contracted.back().extent;
  const bool goes_on = operand.contracted.size() > 1 && line % (realigned_bytes / graph::byte_size(operand.dtype)) != 0;
  return goes_on || !operand.windows.empty() ? line : 0;
}

int realigned_unit(const ContractionOperand& operand) {
  return parted_line(operand) > 0 ? graph::byte_size(operand.dtype) : widest_access(operand);
}

LineLimit line_limit(const WindowDimension& window, std::int64_t line) {
  const WindowDimension::Position& of = window.contracted;
  if (window.holes != 1 || window.stride != 0) return LineLimit::unlike;
  if (of.extent == 1 || of.step == 0 || of.divisor % line == 0) return LineLimit::all;
  return of.divisor * of.extent == line && of.step == 1 ? LineLimit::places : LineLimit::unlike;
}

std::string unlike_realigned(const ContractionProblem& problem, const ContractionSchedule& s, bool left) {
  if (computed_side(problem, left) != nullptr) return "an operand that is computed";
  if (!problem.terms.empty()) return "operands of several terms";
  if (!left && (!problem.members.empty() || problem.other_right)) return "operands of several products";
  const ContractionOperand& operand = left ? problem.left : problem.right;
  const Contiguity along = contiguity(operand);
  const int size = graph::byte_size(operand.dtype), run = realigned_bytes / size;
  if (along == Contiguity::none || (along == Contiguity::free && !operand.windows.empty()))
    return "elements that do not follow one another in lines";
  if (widest_access(operand) == realigned_bytes) return "lines that are aligned";
  if (!never_falls(operand.batch) || !never_falls(operand.free) || !never_falls(operand.contracted))
    return "lines that go backwards";
  const ContractionDigits& digits = along == Contiguity::free ? operand.free : operand.contracted;
  const std::int64_t line = digits.back().extent;
  const bool parted = parted_line(operand) > 0;
  if (parted ? line < run : digits.size() > 1 && line % run != 0) return fmt::format("lines of {} elements", line);
  const auto is_unlike = [&](const WindowDimension& each) { return line_limit(each, line) == LineLimit::unlike; };
  if (std::ranges::any_of(operand.windows, is_unlike)) return "windows with holes in their lines";
  const int free = left ? s.block_rows : s.block_columns, copy = left ? s.left_copy : s.right_copy;
  const int of_tile = (along == Contiguity::free ? free : s.block_depth) * size;
  if (copy != realigned_bytes || of_tile < realigned_bytes)
    return fmt::format("copies of {} bytes in lines of {}", copy, of_tile);
  return {};
}

ContractionSchedule realigned(const ContractionProblem& problem, ContractionSchedule schedule, bool left, bool right) {
  for (const bool side : {true, false}) {
    if (!(side ? left : right)) continue;
    ContractionSchedule with = schedule;
    (side ? with.left_copy : with.right_copy) = realigned_bytes;
    (side ? with.left_realigned : with.right_realigned) = true;
    if (unlike_realigned(problem, with, side).empty()) schedule = with;
  }
  return schedule;
}

int realigned_registers(const ContractionProblem& problem, const ContractionSchedule& s, std::int64_t left_bytes,
                        std::int64_t right_bytes, int threads) {
  std::int64_t words = 0;
  for (const bool left : {true, false}) {
    if (!is_realigned(s, left)) continue;
    const std::int64_t at_once = std::int64_t{realigned_bytes} * threads, bytes = left ? left_bytes : right_bytes;
    const int parts = parted_line(left ? problem.left : problem.right) > 0 ? 2 : 1;
    words += (bytes + at_once - 1) / at_once * parts * realigned_words;
  }
  return static_cast<int>(words);
}

}  // namespace stitch::kernel
