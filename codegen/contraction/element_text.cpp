#include "codegen/contraction/element_text.h"

#include <algorithm>

#include "codegen/index_text.h"
#include "codegen/spelling.h"

namespace stitch::codegen {

using kernel::Index;

std::vector<Index> element_of(kernel::ScalarProgram& program, const kernel::ContractionResult& layout,
                              const graph::Dims& dims) {
  return element_of(program, layout, dims, program.axes().variables[2]);
}

std::vector<Index> element_of(kernel::ScalarProgram& program, const kernel::ContractionResult& layout,
                              const graph::Dims& dims, Index column) {
  kernel::IndexPool& pool = program.pool();
  Index position = pool.constant(0);
  const kernel::ContractionDigits* digits[] = {&layout.batch, &layout.rows, &layout.columns};
  for (std::size_t i = 0; i < 3; ++i) {
    const Index place = i == 2 ? column : program.axes().variables[i];
    std::int64_t step = 1;
    for (auto each = digits[i]->rbegin(); each != digits[i]->rend(); step *= each->extent, ++each) {
      Index digit = pool.divide(place, step);
      if (each != digits[i]->rend() - 1) digit = pool.remainder(digit, each->extent);
      position = pool.add(position, pool.scale(digit, each->stride));
    }
  }
  return pool.delinearise(position, dims);
}

std::string index_of(const kernel::ScalarProgram& program, Index index, std::span<const std::string_view> axes,
                     const std::function<std::string(kernel::ItemId)>& value) {
  constexpr std::int64_t int_limit = std::int64_t{1} << 31;
  const kernel::IndexPool& pool = program.pool();
  const bool wide = pool.high(index) >= int_limit;
  return index_text(pool, index, [&](Index variable) -> std::string {
    const std::vector<Index>& variables = program.axes().variables;
    const auto found = static_cast<std::size_t>(std::ranges::find(variables, variable) - variables.begin());
    if (found == variables.size()) {
      return fmt::format("static_cast<{}>(minimum<s64>(maximum<s64>({}, 0), {}))", wide ? "s64" : "int",
                         value(program.dynamic_item(variable)), pool.high(variable));
    }
    return wide ? fmt::format("static_cast<s64>({})", axes[found]) : std::string(axes[found]);
  });
}

std::string item_text(const kernel::ScalarProgram& program, const kernel::Item& item,
                      const std::function<std::string(Index)>& index, const std::string& loaded,
                      const std::function<std::string(kernel::ItemId)>& value) {
  using kernel::Item;
  switch (item.kind) {
    case Item::Kind::index: return fmt::format("static_cast<{}>({})", compute_type(item.dtype), index(item.index));
    case Item::Kind::in_range: return fmt::format("{0} >= {1} && {0} < {2}", index(item.index), item.low, item.high);
    case Item::Kind::load: return needs_widening(item.dtype) ? fmt::format("widen({})", loaded) : loaded;
    default: break;
  }
  std::vector<std::string> operands;
  for (const kernel::ItemId operand : item.operands) operands.push_back(value(operand));
  const int data = item.op == graph::Op::select ? 1 : 0;
  return expression(item, program.at(item.operands[data]).dtype, operands);
}

}  // namespace stitch::codegen
