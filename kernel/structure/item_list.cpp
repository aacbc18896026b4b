#include "kernel/structure/item_list.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "graph/literal.h"
#include "graph/reduce_kind.h"

namespace stitch::kernel {

using graph::DType;
using graph::Graph;
using graph::Op;
using graph::Value;

std::optional<std::int64_t> tensor_bytes(const Graph& graph, const Buffer& buffer) {
  const std::size_t number = buffer.number;
  switch (buffer.kind) {
    case Buffer::Kind::input: return graph.node(graph.parameters()[number]).type().bytes();
    case Buffer::Kind::output: return graph.type(graph.results()[number]).bytes();
    case Buffer::Kind::table: return graph.node(buffer.number).type().bytes();
    case Buffer::Kind::scratch: break;
  }
  return std::nullopt;
}

ItemList::ItemList(const Graph& graph, std::vector<int> axes, std::vector<std::int64_t> extents)
    : graph_(graph), axes_{std::move(axes), std::move(extents), {}} {
  for (const std::int64_t extent : axes_.extents) axes_.variables.push_back(pool_.variable(0, extent - 1));
}

int ItemList::position(int axis) const {
  const auto found = std::find(axes_.axes.begin(), axes_.axes.end(), axis);
  return found == axes_.axes.end() ? -1 : static_cast<int>(found - axes_.axes.begin());
}

ItemId ItemList::dynamic_item(Index variable) const {
  const auto found = dynamic_.find(variable);
  return found == dynamic_.end() ? -1 : found->second;
}

AxisSet ItemList::axes_of(Index index) const {
  AxisSet axes;
  pool_.for_each_variable(index, [&](Index variable) {
    if (const ItemId item = dynamic_item(variable); item >= 0) {
      axes |= at(item).axes;
      return;
    }
    const auto found = std::find(axes_.variables.begin(), axes_.variables.end(), variable);
    if (found != axes_.variables.end()) axes.insert(found - axes_.variables.begin());
  });
  return axes;
}

AxisSet ItemList::looked_up_axes(Index index) const {
  AxisSet axes;
  pool_.for_each_variable(index, [&](Index variable) {
    if (const ItemId item = dynamic_item(variable); item >= 0) axes |= at(item).axes;
  });
  return axes;
}

bool ItemList::counts_along(Index index, int axis, std::int64_t width) const {
  const IndexPool::Run run = pool_.run(index, axes_.variables[axis], width);
  return run.regular && run.step == 1 && run.aligned && !looked_up_axes(index).contains(axis);
}

std::int64_t ItemList::loaded_bytes(const Item& load) const {
  return axes_.elements(load.axes) * graph::byte_size(load.dtype);
}

std::vector<ItemId> ItemList::items_of(Index index) const {
  std::vector<ItemId> needed;
  pool_.for_each_variable(index, [&](Index variable) {
    const ItemId item = dynamic_item(variable);
    if (item >= 0 && std::find(needed.begin(), needed.end(), item) == needed.end()) needed.push_back(item);
  });
  return needed;
}

ItemId ItemList::add(Item item) {
  for (const ItemId operand : item.operands) item.axes |= at(operand).axes;
  if (item.guard >= 0) item.axes |= at(item.guard).axes;
  if (item.index >= 0) item.axes |= axes_of(item.index);
  items_.push_back(std::move(item));
  return item_count() - 1;
}

ItemId ItemList::compute(Op op, Value origin, DType dtype, std::vector<ItemId> operands) {
  Item item;
  item.op = op;
  item.origin = origin;
  item.dtype = dtype;
  item.operands = std::move(operands);
  if (op == Op::compare) item.comparison = graph_.node(origin.node).as<graph::CompareAttributes>().direction;
  return add(std::move(item));
}

ItemId ItemList::literal(Value origin, DType dtype, std::uint64_t bits) {
  Item item;
  item.kind = Item::Kind::literal;
  item.origin = origin;
  item.dtype = dtype;
  item.bits = bits;
  return add(std::move(item));
}

ItemId ItemList::identity(graph::ReduceKind kind, Value origin, DType dtype) {
  return literal(origin, dtype, graph::identity_bits(kind, dtype));
}

ItemId ItemList::in_range(Index index, std::int64_t low, std::int64_t high) {
  Item item;
  item.kind = Item::Kind::in_range;
  item.dtype = DType::pred;
  item.index = index;
  item.low = low;
  item.high = high;
  return add(std::move(item));
}

ItemId ItemList::both(ItemId a, ItemId b) {
  if (a < 0 || a == b) return b;
  if (b < 0) return a;
  return compute(Op::bit_and, {}, DType::pred, {a, b});
}

ItemId ItemList::load(Buffer buffer, DType dtype, Index address, Value origin, ItemId guard) {
  Item item;
  item.kind = Item::Kind::load;
  item.origin = origin;
  item.dtype = dtype;
  item.index = address;
  item.buffer = buffer;
  item.guard = guard;
  return add(std::move(item));
}

Index ItemList::dynamic_index(ItemId item, std::int64_t high) {
  if (const Item& start = at(item); start.kind == Item::Kind::literal) {
    std::byte bytes[8];
    std::memcpy(bytes, &start.bits, sizeof bytes);
    const std::int64_t value = graph::load_integer(start.dtype, bytes);
    const bool beyond = value < 0 && graph::is_unsigned_integer(start.dtype);  // of 64 bits
    return pool_.constant(beyond ? high : std::clamp<std::int64_t>(value, 0, high));
  }
  const auto key = std::pair(item, high);
  if (const auto found = dynamic_by_item_.find(key); found != dynamic_by_item_.end()) return found->second;
  const Index variable = pool_.variable(0, high);
  dynamic_[variable] = item;
  dynamic_by_item_[key] = variable;
  return variable;
}

ItemId ItemList::compare_to_integer(graph::Comparison comparison, ItemId item, std::int64_t integer) {
  const DType dtype = at(item).dtype;
  std::byte bytes[8] = {};
  graph::store_integer(dtype, integer, bytes);
  std::uint64_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return compare(comparison, item, literal({}, dtype, bits));
}

ItemId ItemList::compare(graph::Comparison comparison, ItemId a, ItemId b) {
  Item comparing;
  comparing.op = Op::compare;
  comparing.dtype = DType::pred;
  comparing.comparison = comparison;
  comparing.operands = {a, b};
  return add(std::move(comparing));
}

ItemId ItemList::combine(graph::ReduceKind kind, Value origin, DType dtype, ItemId a, ItemId b) {
  Item item;
  item.kind = Item::Kind::combine;
  item.combiner = kind;
  item.origin = origin;
  item.dtype = dtype;
  item.operands = {a, b};
  return add(std::move(item));
}

}  // namespace stitch::kernel
