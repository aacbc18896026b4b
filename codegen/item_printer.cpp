#include "codegen/item_printer.h"

#include <algorithm>
#include <cctype>

#include "codegen/index_text.h"
#include "codegen/spelling.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {

using kernel::Index;
using kernel::IndexPool;
using kernel::Item;
using kernel::ItemId;

namespace {

constexpr std::int64_t int_limit = std::int64_t{1} << 31;

std::string identifier(std::string_view text) {
  std::string out;
  for (const char c : text) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return out;
}

/// The value of an index, of its text.
std::string place(const Item& item, const std::string& text) {
  return fmt::format("static_cast<{}>({})", compute_type(item.dtype), text);
}

/// Whether an operator takes its first operand apart.
bool takes_bits(const Item& item) {
  const bool shifts = item.op == graph::Op::shift_right_logical || item.op == graph::Op::bit_and;
  return item.kind == Item::Kind::compute && shifts;
}

}  // namespace

bool ItemPrinter::is_arg_reduce(int anchor) const {
  return scope_.graph.node(scope_.anchor(anchor).node).op == graph::Op::arg_reduce;
}

bool ItemPrinter::is_max_exp_sum(int anchor) const {
  return scope_.graph.node(scope_.anchor(anchor).node).op == graph::Op::max_exp_sum;
}

std::string ItemPrinter::accumulator_name(int anchor) const {
  const graph::Node& node = scope_.graph.node(scope_.anchor(anchor).node);
  const std::string_view what = is_arg_reduce(anchor)    ? "extreme"
                                : is_max_exp_sum(anchor) ? "max_sum"
                                                         : graph::to_string(node.as<graph::ReduceAttributes>().kind);
  return fmt::format("{}{}", what, anchor);
}

std::string ItemPrinter::name(ItemId id) const {
  const Item& item = program_.at(id);
  switch (item.kind) {
    case Item::Kind::load: return fmt::format("{}_{}", scope_.pointers.name(item.buffer), id);
    case Item::Kind::index: return fmt::format("iota_{}", id);
    case Item::Kind::in_range: return fmt::format("inside_{}", id);
    case Item::Kind::combine: return fmt::format("window_{}", id);
    case Item::Kind::reduced: {
      const bool arg = scope_.graph.node(item.origin.node).op == graph::Op::arg_reduce;
      const std::string_view suffix = arg && item.origin.result == 1 ? ".index" : "";
      for (int a = 0; a < std::ssize(scope_.group.structure.anchors); ++a) {
        const kernel::Anchor& candidate = scope_.anchor(a);
        if (candidate.kind == kernel::Anchor::Kind::reduce && candidate.node == item.origin.node)
          return accumulator_name(a) + std::string(suffix);
      }
      return {};
    }
    default: return fmt::format("{}_{}", identifier(graph::to_string(item.op)), id);
  }
}

std::string ItemPrinter::kept_type(ItemId id) const {
  const Item& item = program_.at(id);
  return item.kind == Item::Kind::load ? storage_type(item.dtype) : compute_type(item.dtype);
}

ItemPrinter::Registers ItemPrinter::registers_of(ItemId id, kernel::AxisSet axes) const {
  const Item& item = program_.at(id);
  const std::string type = kept_type(id);
  const bool small = item.kind == Item::Kind::load && needs_widening(item.dtype) && axes_.has_vector(axes);
  if (!small) return {type, axes_.dims(axes)};
  // Every access fills whole words, or each element comes by itself.
  const std::int64_t size = graph::byte_size(item.dtype), width = scope_.group.accesses[id].width;
  const bool whole = axes_.vector_extent() * size % 4 == 0 && (width == 1 || width * size % 4 == 0);
  if (!whole) return {type, axes_.dims(axes)};
  return {fmt::format("Packed<{}, {}>", type, axes_.vector_extent()), axes_.outer_dims(axes)};
}

std::string ItemPrinter::value(ItemId id, bool element) const {
  const Item& item = program_.at(id);
  if (item.kind == Item::Kind::literal) return literal(item.dtype, item.bits);
  if (kernel::is_inline(program_, id)) {
    const std::string text = expression_of(id, element);
    return item.kind == Item::Kind::index ? text : "(" + text + ")";
  }
  if (item.kind == Item::Kind::reduced) return reduced_value(id, element);
  if (!is_array(id)) return name(id);
  // Without a loop over the vector the value is asked for once for all of it, as the guard of a whole access is: such a
  // guard holds for all elements or for none, so that it is the first one's. (The bare name of the registers would be a
  // pointer, which C++ takes for true.)
  const bool first = !element && axes_.has_vector(scope_.arrays.at(id));
  const std::string text = registers(id, element) + (first ? "[0]" : "");
  return item.kind == Item::Kind::load && needs_widening(item.dtype) ? fmt::format("widen({})", text) : text;
}

/// A reduction's result, in the accumulator that its threads share by then.
std::string ItemPrinter::reduced_value(ItemId id, bool element) const {
  const Item& item = program_.at(id);
  std::string text = name(id);
  const std::size_t dot = text.find('.');
  const std::string subscript = axes_.subscript(item.axes, element);
  text = dot == std::string::npos ? text + subscript : text.substr(0, dot) + subscript + text.substr(dot);
  const bool arg = scope_.graph.node(item.origin.node).op == graph::Op::arg_reduce;
  if (arg && dot == std::string::npos) text += ".value";
  if (scope_.graph.node(item.origin.node).op == graph::Op::max_exp_sum)
    return item.origin.result == 0 ? text + ".maximum" : fmt::format("complete_sum({})", text);
  const std::string accumulator =
      compute_type(arg && item.origin.result == 1 ? graph::DType::s64 : graph::info(item.dtype).accumulator);
  if (accumulator != compute_type(item.dtype))
    text = fmt::format("static_cast<{}>({})", compute_type(item.dtype), text);
  return rounded(item, text);
}

/// A narrow float is computed in f32, and rounded where it is stored. Where that is depends on which operators share a
/// kernel, and with them on the batch: where neither may matter it is rounded wherever it is computed.
std::string ItemPrinter::rounded(const Item& item, const std::string& text) const {
  const bool rounds = scope_.graph.constraints.rounds_each() && graph::is_floating(item.dtype);
  if (!rounds || !needs_widening(item.dtype)) return text;
  return fmt::format("widen(narrow<{}>({}))", storage_type(item.dtype), text);
}

std::string ItemPrinter::in_range(const Item& item, bool element) const {
  const std::string text = address(item.index, element);
  const bool low = program_.pool().low(item.index) < item.low, high = program_.pool().high(item.index) >= item.high;
  if (low && high) return fmt::format("{0} >= {1} && {0} < {2}", text, item.low, item.high);
  if (low) return fmt::format("{} >= {}", text, item.low);
  if (high) return fmt::format("{} < {}", text, item.high);
  return "true";
}

bool ItemPrinter::is_wide(const Item& place) const {
  return program_.pool().high(place.index) >= int_limit || scope_.frame.runtime_extent;
}

bool ItemPrinter::is_aligned_place(const Item& item) const {
  const int axis = scope_.group.mapping.vector_axis;
  if (item.kind != Item::Kind::index || !axes_.has_vector(item.axes) || scope_.group.is_shifted(axis)) return false;
  return program_.counts_along(item.index, axis, axes_.vector_extent());
}

// Of a sum the compiler does not see that neighbours' upper bits are the same, by which they share random bits.
std::string ItemPrinter::joined_place(const Item& item) const {
  return place(item, index(item.index, false, is_wide(item)) + " | v");
}

std::string ItemPrinter::expression_of(ItemId id, bool element) const {
  const Item& item = program_.at(id);
  switch (item.kind) {
    case Item::Kind::literal: return literal(item.dtype, item.bits);
    case Item::Kind::index: return place(item, index(item.index, element, is_wide(item)));
    case Item::Kind::in_range: return in_range(item, element);
    case Item::Kind::load: return scalar_load(item, element);
    case Item::Kind::reduced: return value(id, element);
    default: break;
  }
  std::vector<std::string> operands;
  for (const ItemId operand : item.operands) {
    const bool joined = element && takes_bits(item) && is_aligned_place(program_.at(operand));
    operands.push_back(joined ? joined_place(program_.at(operand)) : value(operand, element));
  }
  // Which quotients must be rounded depends on who reads them in this kernel.
  const bool all_rounded = scope_.graph.constraints.rounds_each() && item.kind == Item::Kind::compute &&
                           item.op == graph::Op::divide && graph::is_floating(item.dtype);
  if ((all_rounded || scope_.rounded_quotients.contains(id)) && item.dtype != graph::DType::f64)
    return rounded(item, fmt::format("__fdiv_rn({}, {})", operands[0], operands[1]));
  const int data = item.op == graph::Op::select && item.kind == Item::Kind::compute ? 1 : 0;
  return rounded(item, expression(item, program_.at(item.operands[data]).dtype, operands));
}

std::string_view ItemPrinter::caching(const Item& item) const {
  if (scope_.asks_unwaited) return "Cached::unwaited";
  if (scope_.asks_ahead) {
    const bool others = item.buffer.kind != kernel::Buffer::Kind::input && scope_.frame.after_sync;
    return others ? "Cached::ahead_between_blocks" : "Cached::ahead";
  }
  switch (item.buffer.kind) {
    case kernel::Buffer::Kind::table: return "Cached::plain";
    case kernel::Buffer::Kind::input:
      return scope_.pointers.overlaps(item.buffer) || scope_.frame.residence.is_resident(item.buffer)
                 ? "Cached::plain"
                 : "Cached::streamed";
    case kernel::Buffer::Kind::output:
    case kernel::Buffer::Kind::scratch: break;
  }
  return scope_.frame.after_sync && !scope_.keeps_in_l1 ? "Cached::shared_between_blocks" : "Cached::plain";
}

std::string ItemPrinter::load_one(const Item& item, bool element) const {
  return fmt::format("load_one<{}>(&{}[{}])", caching(item), scope_.pointers.name(item.buffer),
                     address(item.index, element));
}

std::string ItemPrinter::scalar_load(const Item& item, bool element) const {
  std::string text = caching(item) == "Cached::plain"
                         ? fmt::format("{}[{}]", scope_.pointers.name(item.buffer), address(item.index, element))
                         : load_one(item, element);
  if (needs_widening(item.dtype)) text = fmt::format("widen({})", text);
  const std::string inside = axes_.range_guard(item.axes, element);
  const std::string guard = item.guard >= 0 ? both(inside, value(item.guard, element)) : inside;
  return guard.empty() ? text : fmt::format("{} ? {} : {}", guard, text, literal(item.dtype, 0));
}

bool ItemPrinter::is_wide(Index address) const {
  return scope_.frame.runtime_extent || program_.pool().high(address) >= int_limit ||
         program_.pool().low(address) < -int_limit;
}

/// A dynamic index: the item's value, clamped into range.
std::string ItemPrinter::clamped(Index dynamic, bool element, bool wide) const {
  const ItemId item = program_.dynamic_item(dynamic);
  const std::string type = wide ? "s64" : "int";
  const std::int64_t last = program_.pool().high(dynamic);
  if (graph::is_unsigned_integer(program_.at(item).dtype))
    return fmt::format("static_cast<{}>(minimum<u64>({}, {}ull))", type, value(item, element), last);
  return fmt::format("static_cast<{}>(minimum<s64>(maximum<s64>({}, 0), {}))", type, value(item, element), last);
}

std::string ItemPrinter::variable(Index variable, bool element, bool wide) const {
  const std::vector<Index>& variables = program_.axes().variables;
  const auto found = std::ranges::find(variables, variable);
  if (found == variables.end()) return clamped(variable, element, wide);
  const std::string text = axes_.value(found - variables.begin(), element);
  return wide ? fmt::format("static_cast<s64>({})", text) : text;
}

std::string ItemPrinter::index(Index index, bool element, bool wide) const {
  return index_text(program_.pool(), index, [&](Index each) { return variable(each, element, wide); });
}

}  // namespace stitch::codegen
