#include "graph/reference/evaluate_ops.h"

#include <algorithm>
#include <cmath>

#include "graph/literal.h"
#include "graph/reference/evaluate_functions.h"

namespace stitch::graph::reference {

const Block& OpContext::holding(std::size_t i, const Box& box) const {
  return operands[i]->blocks[operands[i]->region.find(box)];
}

Result<Block> OpContext::operand(std::size_t i, const Box& box) const {
  if (!box.empty()) return extract(memory, holding(i, box), box);
  STITCH_ASSIGN(StorageRef storage, memory.make(operand_type(i).dtype, 0, false));
  return Block{operand_type(i).dtype, box, std::move(storage), false};
}

bool OpContext::all_exact() const {
  const auto exact = [](const Block& block) { return block.exact(); };
  return std::all_of(indices.begin(), indices.end(), exact) &&
         std::all_of(operands.begin(), operands.end(), [&](const Slot* slot) {
           return slot == nullptr || std::all_of(slot->blocks.begin(), slot->blocks.end(), exact);
         });
}

bool OpContext::operand_nonnegative(std::size_t i) const {
  return operands[i] == nullptr || std::all_of(operands[i]->blocks.begin(), operands[i]->blocks.end(),
                                               [](const Block& block) { return block.data->nonnegative; });
}

bool is_layout(Op op) {
  switch (op) {
    case Op::broadcast:
    case Op::reshape:
    case Op::transpose:
    case Op::slice:
    case Op::concatenate:
    case Op::pad:
    case Op::reverse: return true;
    default: return false;
  }
}

void demand(const OpContext& context, const Box& out, std::span<Region> regions) {
  if (is_layout(context.node().op)) return layout_demand(context, out, regions);
  switch (context.node().op) {
    case Op::parameter:
    case Op::constant:
    case Op::iota: return;
    case Op::gather:
    case Op::scatter:
    case Op::dynamic_slice:
    case Op::dynamic_update_slice: return index_demand(context, out, regions);
    case Op::reduce:
    case Op::arg_reduce:
    case Op::max_exp_sum:
    case Op::scan: return reduction_demand(context, out, regions);
    case Op::reduce_window:
    case Op::select_and_scatter: return window_demand(context, out, regions);
    case Op::dot:
    case Op::convolution: return contraction_demand(context, out, regions);
    default:
      for (Region& region : regions) region.add(out);
  }
}

namespace {

/// How far a kernel may be from the index that a narrow dtype rounds, or cannot hold: it may have left it as it is.
double index_bound(std::int64_t index, double rounded) {
  return std::isfinite(rounded) ? std::fabs(static_cast<double>(index) - rounded) : unchecked;
}

/// The index along one dimension; uniform over the others.
void fill_iota(const IotaAttributes& a, const Box& out, Storage& storage) {
  const std::size_t d = a.dimension;
  const Dims strides = row_major_strides(out.size);
  const std::int64_t run = strides[d], period = run * out.size[d], total = out.elements();
  for (std::int64_t at = 0; at < total; at += run) {
    const std::int64_t index = out.start[d] + (at % period) / run;
    if (is_floating(a.type.dtype)) {
      const double rounded = round_to(a.type.dtype, index);
      std::fill_n(storage.floats.begin() + at, run, rounded);
      if (!storage.bounds.empty()) std::fill_n(storage.bounds.begin() + at, run, index_bound(index, rounded));
    } else {
      std::byte memory[8];
      store_integer(a.type.dtype, index, memory);
      std::fill_n(storage.integers.begin() + at, run, load_integer(a.type.dtype, memory));
    }
  }
}

}  // namespace

Result<Block> evaluate_source(const OpContext& context, const Box& out) {
  const Node& node = context.node();
  const DType dtype = node.type().dtype;
  const bool splat = node.op == Op::constant && is_splat(node.as<ConstantAttributes>());
  const bool narrow = node.op == Op::iota && is_floating(dtype) && info(dtype).accumulator != dtype;
  STITCH_ASSIGN(StorageRef storage,
                context.memory.make(dtype, splat ? 1 : out.elements(), narrow && context.options.bounds));
  if (node.op == Op::iota) {
    fill_iota(node.as<IotaAttributes>(), out, *storage);
  } else {
    const ConstantAttributes& constant = node.as<ConstantAttributes>();
    const Box box = splat ? Box{out.start, Dims(out.size.size(), 1)} : out;
    const Dims strides = row_major_strides(constant.type.dims);
    // Element by element through the box's index; constants are small or splat, or read once.
    Dims index = box.start;
    for (std::int64_t i = 0, count = box.elements(); i < count; ++i) {
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < index.size(); ++d) offset += index[d] * strides[d];
      const std::byte* from = element_at(constant, offset);
      if (is_floating(dtype)) {
        storage->floats[i] = load_element(dtype, from);
      } else {
        storage->integers[i] = load_integer(dtype, from);
      }
      next_index(box, index);
    }
  }
  storage->nonnegative = is_floating(dtype) &&
                         std::all_of(storage->floats.begin(), storage->floats.end(), [](double v) { return v >= 0; });
  return Block{dtype, out, std::move(storage), splat};
}

}  // namespace stitch::graph::reference
