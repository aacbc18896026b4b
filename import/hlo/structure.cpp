#include "import/hlo/attribute.h"
#include "import/hlo/rules.h"

namespace stitch::import::hlo {

Result<Values> lower_tuple(const Site& site) {
  // Checked before anything grows: tuples of tuples could double with every line.
  std::size_t leaves = 0;
  for (const Values* values : site.operands) leaves += values->size();
  if (leaves != site.types.size()) return site.error("the operands are not the elements of the declared shape");
  Values all;
  for (const Values* values : site.operands) all.insert(all.end(), values->begin(), values->end());
  return all;
}

Result<Values> lower_get_tuple_element(const Site& site) {
  STITCH_ASSIGN(const std::int64_t index, integer_attribute(site.instruction, "index"));
  const Shape& tuple = site.operand_shape(0);
  if (tuple.kind != Shape::Kind::tuple || index < 0 || index >= std::ssize(tuple.elements)) {
    return site.error(fmt::format("the operand has no element {}", index));
  }
  std::size_t first = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(index); ++i) first += leaf_count(tuple.elements[i]);
  const std::size_t count = leaf_count(tuple.elements[index]);
  const auto begin = site.operands[0]->begin() + first;
  return Values(begin, begin + count);
}

Result<Values> lower_forwarded(const Site& site) { return *site.operands[0]; }

Result<Values> lower_token(const Site&) { return Values{}; }

}  // namespace stitch::import::hlo
