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

bool rises(const ContractionOperand& operand) { return is_ordered(operand.free) && is_ordered(operand.contracted); }

std::string unlike_realigned(const ContractionProblem& problem, const ContractionSchedule& s, bool left) {
  if (computed_side(problem, left) != nullptr) return "an operand that is computed";
  if (!problem.terms.empty()) return "operands of several terms";
  if (!left && (!problem.members.empty() || problem.other_right)) return "operands of several products";
  const ContractionOperand& operand = left ? problem.left : problem.right;
  const Contiguity along = contiguity(operand);
  const int size = graph::byte_size(operand.dtype), run = realigned_bytes / size;
  if (along == Contiguity::none || !operand.windows.empty()) return "elements that do not follow one another in lines";
  if (widest_access(operand) == realigned_bytes) return "lines that are aligned";
  if (!never_falls(operand.batch) || !never_falls(operand.free) || !never_falls(operand.contracted) ||
      operand.offset < 0)
    return "lines that go backwards";
  const ContractionDigits& line = along == Contiguity::free ? operand.free : operand.contracted;
  if (line.size() > 1 && line.back().extent % run != 0) return fmt::format("lines of {} elements", line.back().extent);
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

int realigned_registers(const ContractionSchedule& s, std::int64_t left_bytes, std::int64_t right_bytes, int threads) {
  std::int64_t words = 0;
  for (const bool left : {true, false}) {
    const std::int64_t at_once = std::int64_t{realigned_bytes} * threads, bytes = left ? left_bytes : right_bytes;
    if (is_realigned(s, left)) words += (bytes + at_once - 1) / at_once * realigned_words;
  }
  return static_cast<int>(words);
}

}  // namespace stitch::kernel
