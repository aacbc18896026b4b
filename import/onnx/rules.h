#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "import/onnx/call.h"

namespace stitch::import::onnx {

/// One row of the operator table: from opset version `since` on, until the next row of the same operator.
struct Rule {
  std::string_view domain;  ///< "" is ONNX's own
  std::string_view op;
  std::int64_t since;
  int inputs;  ///< so many inputs must be given
  RuleFunction rule;
};

/// Sorted by domain, operator and version.
std::span<const Rule> rule_table();

/// The row that is in force at `version`, or null.
const Rule* find_rule(std::string_view domain, std::string_view op, std::int64_t version);

}  // namespace stitch::import::onnx
