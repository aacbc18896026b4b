#include <algorithm>
#include <array>

#include "import/hlo/attribute.h"
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

/// Custom calls by which other versions spell element-wise operators (behind "mhlo." or "chlo.").
struct Spelling {
  std::string_view name;
  Op op;
  std::size_t operands;
};
constexpr std::array<Spelling, 14> spellings = {{{"acos", Op::acos, 1},
                                                 {"acosh", Op::acosh, 1},
                                                 {"asin", Op::asin, 1},
                                                 {"asinh", Op::asinh, 1},
                                                 {"atan", Op::atan, 1},
                                                 {"atanh", Op::atanh, 1},
                                                 {"cosh", Op::cosh, 1},
                                                 {"erf", Op::erf, 1},
                                                 {"erfc", Op::erfc, 1},
                                                 {"sinh", Op::sinh, 1},
                                                 {"tan", Op::tan, 1},
                                                 {"is_inf", Op::is_inf, 1},
                                                 {"is_nan", Op::is_nan, 1},
                                                 {"atan2", Op::atan2, 2}}};

std::optional<Spelling> spelling_of(std::string_view target) {
  if (!target.starts_with("mhlo.") && !target.starts_with("chlo.")) return std::nullopt;
  for (const Spelling& row : spellings) {
    if (row.name == target.substr(5)) return row;
  }
  return std::nullopt;
}

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
  if (const auto row = spelling_of(target); row && one_array && site.operands.size() == row->operands) {
    std::vector<graph::Value> operands;
    for (std::size_t i = 0; i < site.operands.size(); ++i) {
      if (site.operands[i]->size() != 1) return site.error("an operand is no array");
      operands.push_back(site.operand(i));
    }
    return Values{site.builder.add(row->op, std::move(operands))};
  }
  return site.lowering.opaque(site, fmt::format("custom-call {}", target), site.reason);
}

}  // namespace stitch::import::hlo
