#include "kernel/contraction/shown_depth.h"

#include <algorithm>

#include "kernel/structure/items.h"

namespace stitch::kernel {
namespace {

using graph::Op;

/// A condition is asked once for at least so many elements.
constexpr std::int64_t least_together = 16;

bool is_zero(const Item& item) {
  // Minus zero, too, adds nothing.
  const int bits = 8 * graph::byte_size(item.dtype);
  const std::uint64_t sign = graph::is_floating(item.dtype) ? std::uint64_t{1} << (bits - 1) : 0;
  return item.kind == Item::Kind::literal && (item.bits & ~sign) == 0;
}

/// Largest count of neighbours, whole runs of the axis' digits, for which nothing that the condition needs differs.
std::int64_t same_along(const ScalarProgram& program, ItemId condition, int axis, const ContractionDigits& digits) {
  const std::vector<bool> needed = needed_by(program, condition);
  const std::int64_t extent = program.axes().extents[axis];
  const auto is_same = [&](std::int64_t width) {
    for (ItemId id = 0; id <= condition; ++id) {
      if (!needed[id] || program.at(id).index < 0) continue;
      const IndexPool::Run run = program.pool().run(program.at(id).index, program.axes().variables[axis], width);
      if (!run.regular || run.step != 0) return false;
    }
    return true;
  };
  if (!program.at(condition).axes.contains(axis)) return extent;
  std::int64_t same = 1, width = 1;
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit) {
    width *= digit->extent;
    if (width < extent && extent % width == 0 && is_same(width)) same = width;
  }
  return same;
}

}  // namespace

std::optional<ShownCondition> shown_condition(const ScalarProgram& program, ItemId element) {
  ItemId id = element;
  while (program.at(id).kind == Item::Kind::compute && program.at(id).op == Op::convert)
    id = program.at(id).operands[0];
  const Item& choice = program.at(id);
  if (choice.kind != Item::Kind::compute || choice.op != Op::select) return std::nullopt;
  const Item& condition = program.at(choice.operands[0]);
  if (condition.kind == Item::Kind::literal) return std::nullopt;
  if (is_zero(program.at(choice.operands[2]))) return ShownCondition{choice.operands[0], true};
  if (is_zero(program.at(choice.operands[1]))) return ShownCondition{choice.operands[0], false};
  return std::nullopt;
}

ComputedOperand::Condition condition_of(const ScalarProgram& program, ItemId element,
                                        const ContractionOperand& operand) {
  const std::optional<ShownCondition> condition = shown_condition(program, element);
  if (!condition) return {};
  const ComputedOperand::Condition found = {same_along(program, condition->item, 1, operand.free),
                                            same_along(program, condition->item, 2, operand.contracted),
                                            program.at(condition->item).axes.contains(0)};
  // One that is the same along the whole depth has nothing that a block could leave out.
  const bool divides = found.depth < program.axes().extents[2];
  return divides && found.rows * found.depth >= least_together ? found : ComputedOperand::Condition{};
}

const ComputedOperand* shown_side(const ContractionProblem& problem) {
  const auto found = std::ranges::find_if(problem.computed, [](const auto& each) { return each.condition.depth > 0; });
  return found == problem.computed.end() ? nullptr : &*found;
}

double walked_share(const ContractionProblem& problem, const ContractionSchedule& schedule) {
  const ComputedOperand* const side = shown_side(problem);
  if (side == nullptr || problem.contracted == 0) return 1;
  const double extent = static_cast<double>(side->left ? problem.rows : problem.columns);
  const double block = side->left ? schedule.block_rows : schedule.block_columns;
  const double of_rows = extent / static_cast<double>(side->condition.rows);
  const double of_depth = static_cast<double>(problem.contracted) / static_cast<double>(side->condition.depth);
  if (side->condition.of_batch && of_rows <= 1) {  // a group is a batch, whose depth begins and ends anywhere
    const double border = schedule.block_depth / static_cast<double>(problem.contracted);
    return std::min(1.0, 1 / static_cast<double>(problem.batch) + border);
  }
  // Groups are along whichever has fewer: a tile of rows has a border of neighbouring groups for every so many rows.
  const double groups = std::min(of_rows, of_depth);
  const double walked = of_depth <= of_rows ? 1 + (groups - 1) * std::min(1.0, block / extent)
                                            : std::max(1.0, block / static_cast<double>(side->condition.rows));
  return std::min(1.0, walked / groups);
}

}  // namespace stitch::kernel
