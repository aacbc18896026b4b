#include "kernel/structure/scalar_program.h"

#include <algorithm>
#include <utility>

#include "graph/literal.h"
#include "kernel/structure/kernel_graph.h"
#include "kernel/structure/layout_items.h"
#include "kernel/structure/window_items.h"

namespace stitch::kernel {
namespace {

using graph::contains;
using graph::Dims;
using graph::Node;
using graph::Op;
using graph::Value;

/// A group larger than this is no kernel anybody wants; the bound also ends runaway window expansions.
constexpr ItemId max_items = 1 << 14;

/// Reductions this small are computed where they are used, by whoever needs them.
constexpr std::int64_t max_unrolled_reduction = 16;

Error too_many_items() { return make_error(ErrorKind::constraint, "more than {} scalar computations", max_items); }

}  // namespace

const StoredValue* ScalarProgram::stored(Value value) const {
  if (stored_ == nullptr) return nullptr;
  const auto found = stored_->find(value);
  return found == stored_->end() ? nullptr : &found->second;
}

std::vector<Index> ScalarProgram::canonical_indices(const AxisAnalysis& analysis, Value value) {
  Index flat = pool().constant(0);
  for (const int axis : analysis.of(value)) {
    const std::size_t at = position(axis);
    flat = pool().add(pool().scale(flat, axes().extents[at]), axes().variables[at]);
  }
  return pool().delinearise(flat, graph().type(value).dims);
}

Result<ItemId> ScalarProgram::item(Value value, const std::vector<Index>& indices, ItemId guard) {
  const Request request{value, indices, guard};
  if (const auto found = memo_.find(request); found != memo_.end()) return found->second;
  if (item_count() > max_items) return too_many_items();
  STITCH_ASSIGN(const ItemId made, propagate(value, indices, guard));
  memo_[request] = made;
  return made;
}

Result<ItemId> ScalarProgram::propagate(Value value, const std::vector<Index>& indices, ItemId guard) {
  const Node& node = graph().node(value.node);
  if (const StoredValue* found = stored(value)) {
    const Dims strides = graph::row_major_strides(found->dims);
    return load(found->buffer, found->dtype, pool().linear(indices, strides), value, guard);
  }
  switch (node.op) {
    case Op::parameter: {
      const Dims strides = graph::row_major_strides(node.type().dims);
      const Buffer buffer{Buffer::Kind::input, *parameter_number(graph(), value.node)};
      return load(buffer, node.type().dtype, pool().linear(indices, strides), value, guard);
    }
    case Op::constant: {
      const auto& constant = node.as<graph::ConstantAttributes>();
      const Index at = pool().linear(indices, graph::row_major_strides(constant.type.dims));
      if (pool().is_constant(at))
        return literal(value, constant.type.dtype, graph::element_bits(constant, pool().constant_part(at)));
      if (graph::is_splat(constant)) return literal(value, constant.type.dtype, graph::element_bits(constant, 0));
      return load({Buffer::Kind::table, value.node}, constant.type.dtype, at, value, guard);
    }
    case Op::iota: {
      const auto& a = node.as<graph::IotaAttributes>();
      Item item;
      item.kind = Item::Kind::index;
      item.origin = value;
      item.dtype = a.type.dtype;
      item.index = indices[a.dimension];
      return add(std::move(item));
    }
    case Op::reduce:
    case Op::arg_reduce:
    case Op::max_exp_sum:
    case Op::scan:
    case Op::associative_scan: {
      const auto found = reduced_.find(value.node);
      if (found != reduced_.end() && found->second == indices) {
        Item item;
        item.kind = Item::Kind::reduced;
        item.origin = value;
        item.dtype = node.type(value.result).dtype;
        for (const Index index : indices) item.axes |= axes_of(index);
        return add(std::move(item));
      }
      if (node.op == Op::reduce) return small_reduce(node, value, indices, guard);
      blocking_ = value.node;
      return make_error(ErrorKind::constraint, "{} '{}' is needed where no thread holds it", to_string(node.op),
                        node.name);
    }
    case Op::reduce_window: return window_item(*this, node, value, indices, guard);
    case Op::select_and_scatter: return selected_item(*this, node, value, indices, guard);
    case Op::sort:
    case Op::scatter:
      blocking_ = value.node;
      return make_error(ErrorKind::constraint, "{} '{}' is used inside its kernel", to_string(node.op), node.name);
    default: break;
  }
  if (graph::is_elementwise(node.op)) return propagate_elementwise(value, indices, guard);
  return layout_item(*this, node, value, indices, guard);
}

bool ScalarProgram::is_computed_by_element(Value value) const {
  return stored(value) == nullptr && graph::is_elementwise(graph().node(value.node).op);
}

Result<ItemId> ScalarProgram::propagate_elementwise(Value value, const std::vector<Index>& indices, ItemId guard) {
  struct Begun {
    Value value;
    std::vector<ItemId> operands;
  };
  std::vector<Begun> begun = {{value, {}}};
  while (true) {
    Begun& last = begun.back();
    const Node& node = graph().node(last.value.node);
    if (last.operands.size() < node.operands.size()) {
      const Value operand = node.operands[last.operands.size()];
      if (is_computed_by_element(operand) && !memo_.contains({operand, indices, guard})) {
        if (item_count() > max_items) return too_many_items();
        begun.push_back({operand, {}});
        continue;
      }
      STITCH_ASSIGN(const ItemId item, this->item(operand, indices, guard));
      last.operands.push_back(item);
      continue;
    }
    const Value done = last.value;
    // What was kept in a wider type has no bits of its own type yet.
    if (node.op == Op::bitcast_convert) {
      const Value operand = node.operands[0];
      const graph::DType dtype = graph().type(operand).dtype;
      if (at(last.operands[0]).dtype != dtype)
        last.operands[0] = compute(Op::convert, operand, dtype, {last.operands[0]});
    }
    const ItemId made = compute(node.op, done, node.type(done.result).dtype, std::move(last.operands));
    begun.pop_back();
    if (begun.empty()) return made;
    memo_[{done, indices, guard}] = made;
    begun.back().operands.push_back(made);
  }
}

Result<ItemId> ScalarProgram::small_reduce(const Node& node, Value value, const std::vector<Index>& indices,
                                           ItemId guard) {
  const auto& a = node.as<graph::ReduceAttributes>();
  const graph::TensorType& operand = graph().type(node.operands[0]);
  Dims reduced_extents;
  for (const std::int64_t d : a.dimensions) reduced_extents.push_back(operand.dims[d]);
  const std::int64_t count = graph::element_count(reduced_extents);
  if (count > max_unrolled_reduction || count == 0) {
    blocking_ = value.node;
    return make_error(ErrorKind::constraint, "reduce '{}' is needed where no thread holds it", node.name);
  }
  ItemId total = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<Index> along = pool().delinearise(pool().constant(i), reduced_extents);
    std::vector<Index> inner;
    std::size_t kept = 0, dropped = 0;
    for (std::size_t d = 0; d < operand.dims.size(); ++d) {
      inner.push_back(contains(a.dimensions, d) ? along[dropped++] : indices[kept++]);
    }
    STITCH_ASSIGN(const ItemId element, item(node.operands[0], inner, guard));
    if (total < 0) {
      total = element;
      continue;
    }
    total = combine(a.kind, value, node.type().dtype, total, element);
  }
  return total;
}

}  // namespace stitch::kernel
