#include "costmodel/contraction/realigned_cost.h"

#include "costmodel/contraction/product_rates.h"
#include "kernel/contraction/realigned_copy.h"

namespace stitch::costmodel {
namespace {

/// Beside those of a copy (product_rates.h): the second word's load and what says whether it is wanted, the store, and
/// where the line begins, once more. And what each step of a shift selects, by 8 bytes and by 4, and funnel shifts.
constexpr double held_instructions = 10, shift_selects = 6, shift_selects_by_word = 5, funnel_shifts = 4;
/// And of a part of a run, what lies around it cut off.
constexpr double line_edges = 56;
constexpr double sector = 32;  // bytes

}  // namespace

double realigned_instructions(const kernel::ContractionOperand& operand) {
  const int aligned = kernel::realigned_unit(operand);
  const double selects = shift_selects + (aligned < 8 ? shift_selects_by_word : 0);
  const double all = copy_instructions + held_instructions + selects + (aligned < 4 ? funnel_shifts : 0);
  if (kernel::parted_line(operand) == 0) return all;
  const double edges = line_edges + window_instructions * static_cast<double>(operand.windows.size());
  return 2 * (all + edges);
}

double realigned_sectors(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& s, bool left) {
  if (!kernel::is_realigned(s, left)) return 1;
  const kernel::ContractionOperand& operand = left ? problem.left : problem.right;
  const int free = left ? s.block_rows : s.block_columns;
  const int along = kernel::contiguity(operand) == kernel::Contiguity::free ? free : s.block_depth;
  const double bytes = static_cast<double>(along) * graph::byte_size(operand.dtype);
  return 1 + (sector - kernel::widest_access(operand)) / bytes;
}

}  // namespace stitch::costmodel
