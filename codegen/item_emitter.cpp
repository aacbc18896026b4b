// GroupEmitter: single values — their names, expressions, loads and declarations.

#include <algorithm>
#include <cctype>

#include "codegen/group_emitter.h"
#include "codegen/spelling.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {

using kernel::Item;
using kernel::ItemId;
using kernel::Level;

namespace {

bool has(std::uint64_t mask, std::size_t axis) { return ((mask >> axis) & 1) != 0; }

std::string identifier(std::string_view text) {
  std::string out;
  for (const char c : text) out += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return out;
}

}  // namespace

std::string GroupEmitter::name(ItemId id) const {
  const Item& item = program_.at(id);
  switch (item.kind) {
    case Item::Kind::load: return fmt::format("{}_{}", pointer_of(item.buffer), id);
    case Item::Kind::index: return fmt::format("iota_{}", id);
    case Item::Kind::in_range: return fmt::format("inside_{}", id);
    case Item::Kind::combine: return fmt::format("window_{}", id);
    case Item::Kind::reduced: {
      const std::string_view suffix = item.origin.result == 1 ? ".index" : "";
      for (std::size_t a = 0; a < group_.structure.anchors.size(); ++a) {
        const kernel::Anchor& candidate = group_.structure.anchors[a];
        if (candidate.kind == kernel::Anchor::Kind::reduce && candidate.node == item.origin.node) {
          return accumulator_name(static_cast<int>(a)) + std::string(suffix);
        }
      }
      return {};
    }
    default: return fmt::format("{}_{}", identifier(graph::to_string(item.op)), id);
  }
}

std::string GroupEmitter::array_subscript(std::uint64_t axes, bool element) const {
  std::string text;
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (has(axes, a) && group_.extent(a, Level::reg) > 1) text += fmt::format("[{}_r]", axis_name(a));
  }
  if (element && group_.mapping.vector_axis >= 0 && has(axes, static_cast<std::size_t>(group_.mapping.vector_axis)) &&
      vector_extent() > 1) {
    text += "[v]";
  }
  return text;
}

std::string GroupEmitter::array_dims(std::uint64_t axes) const {
  std::string text;
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (has(axes, a) && group_.extent(a, Level::reg) > 1) text += fmt::format("[{}]", group_.extent(a, Level::reg));
  }
  if (group_.mapping.vector_axis >= 0 && has(axes, static_cast<std::size_t>(group_.mapping.vector_axis)) &&
      vector_extent() > 1) {
    text += fmt::format("[{}]", vector_extent());
  }
  return text;
}

/// The item's value where the current loops stand.
std::string GroupEmitter::value(ItemId id, bool element) const {
  const Item& item = program_.at(id);
  if (item.kind == Item::Kind::literal) return literal(item.dtype, item.bits);
  if (kernel::is_inline(program_, id)) {
    const std::string text = item_expression(id, element);
    return item.kind == Item::Kind::index ? text : "(" + text + ")";
  }
  if (item.kind == Item::Kind::reduced) {
    std::string text = name(id);
    const std::size_t dot = text.find('.');
    const std::string subscript = array_subscript(item.axes, element);
    text = dot == std::string::npos ? text + subscript : text.substr(0, dot) + subscript + text.substr(dot);
    const bool arg = graph_.node(item.origin.node).op == graph::Op::arg_reduce;
    if (arg && dot == std::string::npos) text += ".value";
    const std::string accumulator =
        compute_type(arg && item.origin.result == 1 ? graph::DType::s64 : graph::info(item.dtype).accumulator);
    return accumulator == compute_type(item.dtype) ? text
                                                   : fmt::format("static_cast<{}>({})", compute_type(item.dtype), text);
  }
  if (!is_array(id)) return name(id);
  const std::string text = name(id) + array_subscript(arrays_.at(id), element);
  return item.kind == Item::Kind::load && needs_widening(item.dtype) ? fmt::format("widen({})", text) : text;
}

std::string GroupEmitter::item_expression(ItemId id, bool element) const {
  const Item& item = program_.at(id);
  switch (item.kind) {
    case Item::Kind::literal: return literal(item.dtype, item.bits);
    case Item::Kind::index: {
      const bool wide = program_.pool().high(item.index) >= (std::int64_t{1} << 31) || context_.runtime_extent;
      return fmt::format("static_cast<{}>({})", compute_type(item.dtype), index_text(item.index, element, wide));
    }
    case Item::Kind::in_range: {
      const bool wide = is_wide(item.index);
      const std::string text = index_text(item.index, element, wide);
      const bool low = program_.pool().low(item.index) < item.low, high = program_.pool().high(item.index) >= item.high;
      if (low && high) return fmt::format("{0} >= {1} && {0} < {2}", text, item.low, item.high);
      if (low) return fmt::format("{} >= {}", text, item.low);
      if (high) return fmt::format("{} < {}", text, item.high);
      return "true";
    }
    case Item::Kind::load: return scalar_load(id, element);
    case Item::Kind::reduced: return value(id, element);
    default: break;
  }
  std::vector<std::string> operands;
  for (const ItemId operand : item.operands) operands.push_back(value(operand, element));
  if (rounded_quotients_.contains(id) && item.dtype != graph::DType::f64)
    return fmt::format("__fdiv_rn({}, {})", operands[0], operands[1]);
  const std::size_t data = item.op == graph::Op::select && item.kind == Item::Kind::compute ? 1 : 0;
  return expression(item, program_.at(item.operands[data]).dtype, operands);
}

std::string_view GroupEmitter::caching(const kernel::Item& item) const {
  switch (item.buffer.kind) {
    case kernel::Buffer::Kind::table: return "Cached::plain";
    case kernel::Buffer::Kind::input: {
      const auto* changing = context_.changing_inputs;
      const bool changes = changing != nullptr && (*changing)[item.buffer.number];
      return changes ? "Cached::plain" : "Cached::streamed";
    }
    case kernel::Buffer::Kind::output:
    case kernel::Buffer::Kind::scratch: break;
  }
  return context_.after_sync ? "Cached::shared_between_blocks" : "Cached::plain";
}

bool GroupEmitter::is_passing(const kernel::Buffer& buffer) const {
  return std::ranges::count(context_.passing, buffer) > 0;
}

bool GroupEmitter::is_kept(const kernel::Buffer& buffer) const {
  if (context_.kept_outputs == nullptr) return false;
  return buffer.kind == kernel::Buffer::Kind::scratch ||
         (buffer.kind == kernel::Buffer::Kind::output && (*context_.kept_outputs)[buffer.number]);
}

std::string GroupEmitter::block_guard(const kernel::Buffer& buffer) const {
  const bool by_all = context_.kept_outputs != nullptr && schedule_.cluster > 1 && context_.copies == 1;
  return by_all && !is_kept(buffer) ? fmt::format("blockIdx.x % {} == 0", schedule_.cluster) : "";
}

/// One element, zero where the guard or the axes' ranges do not hold.
std::string GroupEmitter::scalar_load(ItemId id, bool element) const {
  const Item& item = program_.at(id);
  std::string text =
      fmt::format("{}[{}]", pointer_of(item.buffer), index_text(item.index, element, is_wide(item.index)));
  const std::string_view cached = caching(item);
  if (cached != "Cached::plain") text = fmt::format("load_one<{}>(&{})", cached, text);
  if (needs_widening(item.dtype)) text = fmt::format("widen({})", text);
  std::string guard = range_guard(item.axes, element);
  if (item.guard >= 0) guard += (guard.empty() ? "" : " && ") + value(item.guard, element);
  if (guard.empty()) return text;
  return fmt::format("{} ? {} : {}", guard, text, literal(item.dtype, 0));
}

void GroupEmitter::emit_uniform(ItemId id) {
  const Item& item = program_.at(id);
  if (kernel::is_inline(program_, id) || item.kind == Item::Kind::reduced) return;
  out_.line("const {} {} = {};", compute_type(item.dtype), name(id), item_expression(id, false));
}

/// Declares what is kept between sweeps: an array of registers, or a thread's place in shared memory.
void GroupEmitter::declare_array(ItemId id) {
  const Item& item = program_.at(id);
  const std::string type = item.kind == Item::Kind::load ? storage_type(item.dtype) : compute_type(item.dtype);
  const auto held = held_.find(id);
  if (held != held_.end() && held->second->place == kernel::Hold::shared) {
    const std::int64_t offset = context_.shared_held + held->second->shared_offset;
    std::string place = offset == 0 ? "shared" : fmt::format("shared + {}", offset);
    if (group_.retention(id) != nullptr) {
      emit_round(id);
      place = fmt::format("{} ? {} : {}", round_is_retained(id), retained_round(id), place);
    }
    out_.line("{0}* const {1}_kept = reinterpret_cast<{0}*>({2});  // {3} threads × {4} elements", type, name(id),
              place, group_.threads, group_.held_bytes / std::max(1, group_.threads));
    return;
  }
  arrays_[id] = item.axes & group_.varying;
  out_.line("{} {}{};", type, name(id), array_dims(item.axes));
}

/// Loads the thread's run along the vector axis into name[…][0..vector).
void GroupEmitter::emit_vector_load(ItemId id) {
  const Item& item = program_.at(id);
  const kernel::Access& access = group_.accesses[id];
  const std::string target = name(id) + array_subscript(arrays_.at(id), false);
  const std::string_view cached = caching(item);
  const std::int64_t n = vector_extent();
  const bool along =
      group_.mapping.vector_axis >= 0 && has(item.axes, static_cast<std::size_t>(group_.mapping.vector_axis));
  if (!along || n == 1) {
    out_.line("{} = {};", target, [&] {
      std::string text = fmt::format("load_one<{}>(&{}[{}])", cached, pointer_of(item.buffer),
                                     index_text(item.index, false, is_wide(item.index)));
      if (item.guard < 0) return text;
      return fmt::format("{} ? {} : {}{{}}", value(item.guard, false), text, storage_type(item.dtype));
    }());
    return;
  }
  const bool tail = vector_tail_by_element();
  const std::size_t axis = group_.mapping.vector_axis;
  if (access.width == 1) {
    out_.line("#pragma unroll");
    out_.open("for (int v = 0; v < {}; ++v)", n);
    std::string guard = tail ? in_range(axis, true) : "";
    if (item.guard >= 0) guard += (guard.empty() ? "" : " && ") + value(item.guard, true);
    const std::string text = fmt::format("load_one<{}>(&{}[{}])", cached, pointer_of(item.buffer),
                                         index_text(item.index, true, is_wide(item.index)));
    out_.line("{}[v] = {};", target,
              guard.empty() ? text : fmt::format("{} ? {} : {}{{}}", guard, text, storage_type(item.dtype)));
    out_.close();
    return;
  }
  const std::string guard = item.guard >= 0 ? value(item.guard, false) : "";
  if (!guard.empty()) {
    out_.line("#pragma unroll");
    out_.line("for (int v = 0; v < {}; ++v) {}[v] = {}{{}};", n, target, storage_type(item.dtype));
    out_.open("if ({})", guard);
  }
  for (std::int64_t at = 0; at < n; at += access.width) {
    const std::string from =
        fmt::format("{} + {}", pointer_of(item.buffer), index_text(item.index, false, is_wide(item.index)));
    const std::string shift = at == 0 ? "" : fmt::format(" + {}", at);
    if (tail && group_.shift) {
      out_.line("load_part<{}, {}>({}{}, {}{}, {});", access.width, cached, target, shift, from, shift,
                part_bounds(at));
    } else if (tail) {
      out_.line("load_tail<{}, {}>({}{}, {}{}, {} - {}{});", access.width, cached, target, shift, from, shift,
                extent_text(axis), axis_name(axis), at == 0 ? "" : fmt::format(" - {}", at));
    } else {
      out_.line("load<{}, {}>({}{}, {}{});", access.width, cached, target, shift, from, shift);
    }
  }
  if (!guard.empty()) out_.close();
}

}  // namespace stitch::codegen
