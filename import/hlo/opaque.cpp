#include <algorithm>
#include <array>
#include <iterator>

#include "import/hlo/attribute.h"
#include "import/hlo/lowering.h"
#include "import/hlo/rules.h"

namespace stitch::import::hlo {
namespace {

using graph::Op;

/// Custom calls that only say something about their operand.
constexpr std::array<std::string_view, 10> annotations = {"Sharding",
                                                          "SPMDFullToShardShape",
                                                          "SPMDShardToFullShape",
                                                          "annotate_device_placement",
                                                          "MoveToDevice",
                                                          "MoveToHost",
                                                          "LayoutConstraint",
                                                          "xla.sdy.FuncResultSharding",
                                                          "xla.sdy.PropagationBarrier",
                                                          "InspectSharding"};

/// Whether two names are the same but for what separates their words: MHLO's next_after, the table's nextafter.
bool same_words(std::string_view a, std::string_view b) {
  const auto letters = [](std::string_view name) {
    std::string kept;
    std::ranges::copy_if(name, std::back_inserter(kept), [](char c) { return c != '_' && c != '-'; });
    return kept;
  };
  return letters(a) == letters(b);
}

}  // namespace

std::optional<Op> function_named(std::string_view target) {
  if (!target.starts_with("mhlo.") && !target.starts_with("chlo.")) return std::nullopt;
  for (const graph::OpInfo& row : graph::op_table()) {
    const bool function = graph::is_elementwise(row.op) && row.domain == graph::OpDomain::floating;
    if (function && same_words(row.name, target.substr(5))) return row.op;
  }
  return std::nullopt;
}

Result<Values> lower_function(const Site& site, Op op) {
  std::vector<graph::Value> operands;
  for (std::size_t i = 0; i < site.operands.size(); ++i) {
    if (site.operands[i]->size() != 1) return site.error("an operand is no array");
    operands.push_back(site.operand(i));
  }
  return Values{site.builder.add(op, std::move(operands))};
}

namespace {

bool keeps_types(const Site& site) {
  if (site.operands.size() != 1) return false;
  const Values& values = *site.operands[0];
  return std::equal(
      values.begin(), values.end(), site.types.begin(), site.types.end(),
      [&](graph::Value value, const graph::TensorType& type) { return site.builder.type(value) == type; });
}

}  // namespace

Result<Values> lower_opaque(const Site& site) {
  return site.lowering.opaque(site, std::string(site.instruction.opcode), site.reason);
}

Result<Values> lower_custom_call(const Site& site) {
  const std::string_view target = unquoted(text_attribute(site.instruction, "custom_call_target"));
  const bool one_array = site.types.size() == 1 && !site.operands.empty() && site.operands[0]->size() == 1;
  const bool annotation = std::find(annotations.begin(), annotations.end(), target) != annotations.end();
  if (annotation && keeps_types(site)) return *site.operands[0];
  const std::optional<Op> function = function_named(target);
  if (function && one_array && std::ssize(site.operands) == graph::info(*function).max_operands) {
    return lower_function(site, *function);
  }
  return site.lowering.opaque(site, fmt::format("custom-call {}", target), site.reason);
}

}  // namespace stitch::import::hlo
