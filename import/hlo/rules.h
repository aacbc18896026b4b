#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "import/hlo/site.h"

namespace stitch::import::hlo {

/// Which of an instruction's shapes must be arrays; the driver checks.
enum class Shapes : std::uint8_t { any, array_operands, arrays };

/// One row of the rule table: how an HLO operator is lowered.
struct Rule {
  std::string_view opcode;
  Result<Values> (*lower)(const Site&);
  graph::Op op = graph::Op::opaque;  ///< what becomes of it, where that is one operator
  int min_operands = 0;
  int max_operands = -1;  ///< -1: any number
  Shapes shapes = Shapes::arrays;
  std::string_view reason = {};  ///< of an opaque operator: why
};

std::span<const Rule> rule_table();
/// The operator's row; the last one, which makes it opaque, when there is none.
const Rule& find_rule(std::string_view opcode);

// elementwise.cpp
Result<Values> lower_elementwise(const Site& site);
Result<Values> lower_logical(const Site& site);  ///< add and multiply, which on truth values are or and and
Result<Values> lower_convert(const Site& site);
Result<Values> lower_compare(const Site& site);
Result<Values> lower_select(const Site& site);
Result<Values> lower_clamp(const Site& site);
Result<Values> lower_count_leading_zeros(const Site& site);
Result<Values> lower_map(const Site& site);

// precision.cpp
Result<Values> lower_reduce_precision(const Site& site);

// layout.cpp
Result<Values> lower_constant(const Site& site);
Result<Values> lower_iota(const Site& site);
Result<Values> lower_broadcast(const Site& site);
Result<Values> lower_reshape(const Site& site);
Result<Values> lower_bitcast(const Site& site);
Result<Values> lower_transpose(const Site& site);
Result<Values> lower_slice(const Site& site);
Result<Values> lower_concatenate(const Site& site);
Result<Values> lower_pad(const Site& site);
Result<Values> lower_reverse(const Site& site);
Result<Values> lower_dimension_size(const Site& site);

// indexing.cpp
Result<Values> lower_dynamic_slice(const Site& site);
Result<Values> lower_dynamic_update_slice(const Site& site);
Result<Values> lower_gather(const Site& site);
Result<Values> lower_scatter(const Site& site);

// reductions.cpp
Result<Values> lower_reduce(const Site& site);
Result<Values> lower_reduce_window(const Site& site);
Result<Values> lower_select_and_scatter(const Site& site);

// sorts.cpp
Result<Values> lower_sort(const Site& site);
Result<Values> lower_top_k(const Site& site);
/// The first `count` elements of lines in order and their places, as a topk and chlo.top_k say it.
Result<Values> top_of_lines(const Site& site, std::int64_t count, bool largest);

// contractions.cpp
Result<Values> lower_dot(const Site& site);
Result<Values> lower_ragged_dot(const Site& site);
Result<Values> lower_convolution(const Site& site);

// structure.cpp
Result<Values> lower_tuple(const Site& site);
Result<Values> lower_get_tuple_element(const Site& site);
Result<Values> lower_forwarded(const Site& site);  ///< the first operand, as it is
Result<Values> lower_token(const Site& site);

// control_flow.cpp
Result<Values> lower_call(const Site& site);
Result<Values> lower_while(const Site& site);
Result<Values> lower_conditional(const Site& site);

// opaque.cpp
Result<Values> lower_opaque(const Site& site);
Result<Values> lower_custom_call(const Site& site);
/// The function of floats that "mhlo.NAME" or "chlo.NAME" means, by which other versions spell element-wise operators:
/// the row of the operator table with this name, but for what separates its words.
std::optional<graph::Op> function_named(std::string_view target);
/// Such an operator applied to the instruction's operands.
Result<Values> lower_function(const Site& site, graph::Op op);

}  // namespace stitch::import::hlo
