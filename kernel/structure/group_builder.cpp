#include "kernel/structure/group_builder.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "kernel/structure/items.h"
#include "kernel/structure/scatter_items.h"

namespace stitch::kernel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// Extent given to the axis over partial results; the mapping of the phase before decides how many there are.
constexpr std::int64_t partial_extent = 1 << 20;

graph::DType partial_dtype(const Node& node, std::size_t result) {
  const graph::DType dtype = node.results[result].dtype;
  return result == 0 ? graph::info(dtype).accumulator : dtype;
}

/// Puts the axes of `more` into `axes`, keeping both orders where they agree.
void merge_axes(std::vector<int>& axes, const std::vector<int>& more) {
  std::ptrdiff_t at = 0;
  for (const int axis : more) {
    const auto found = std::find(axes.begin(), axes.end(), axis);
    if (found != axes.end()) {
      at = found - axes.begin() + 1;
    } else {
      axes.insert(axes.begin() + at, axis);
      ++at;
    }
  }
}

/// The positions of axes in a group.
/// Error: internal (an axis that the group does not have: an anchor's own are always its group's).
Result<AxisSet> positions(const ScalarProgram& program, const std::vector<int>& axes) {
  AxisSet found;
  for (const int axis : axes) {
    const int position = program.position(axis);
    if (position < 0)
      return make_error(ErrorKind::internal, "an anchor along axis {}, which its group does not have", axis);
    found.insert(position);
  }
  return found;
}

void assign_sweeps(GroupStructure& group) {
  const ScalarProgram& program = *group.program;
  std::map<NodeId, int> reduction_sweep;
  group.item_sweep.assign(program.items().size(), 0);
  ItemId done = 0;
  const auto assign_until = [&](ItemId last) {
    for (; done <= last; ++done) {
      const Item& item = program.at(done);
      int sweep = 0;
      if (item.kind == Item::Kind::reduced) sweep = reduction_sweep.at(item.origin.node) + 1;
      for (const ItemId operand : item.operands) sweep = std::max(sweep, group.item_sweep[operand]);
      if (item.guard >= 0) sweep = std::max(sweep, group.item_sweep[item.guard]);
      if (item.index >= 0) {
        for (const ItemId needed : program.items_of(item.index)) sweep = std::max(sweep, group.item_sweep[needed]);
      }
      group.item_sweep[done] = sweep;
    }
  };
  for (Anchor& anchor : group.anchors) {
    for (const ItemId item : roots_of(program, anchor)) {
      assign_until(item);
      anchor.sweep = std::max(anchor.sweep, group.item_sweep[item]);
    }
    if (anchor.kind == Anchor::Kind::reduce) reduction_sweep[anchor.node] = anchor.sweep;
    group.sweep_count = std::max(group.sweep_count, anchor.sweep + 1);
  }
  assign_until(program.item_count() - 1);
}

}  // namespace

Result<GroupStructure> GroupBuilder::build(const std::vector<Draft*>& members) {
  blocked_.reset();
  GroupStructure group;
  std::vector<int> axes;
  for (const Draft* draft : members) merge_axes(axes, draft->axes);
  std::vector<std::int64_t> extents;
  for (const int axis : axes) extents.push_back(analysis_.axes()[axis].extent);
  const auto finish =
      std::find_if(members.begin(), members.end(), [](const Draft* d) { return d->kind == Draft::Kind::finish; });
  if (finish != members.end()) {
    group.partial_axis = 0;
    group.partial_of = (*finish)->node;
    axes.insert(axes.begin(), analysis_.axes().size());
    extents.insert(extents.begin(), partial_extent);
  }
  const auto scatter =
      std::find_if(members.begin(), members.end(), [](const Draft* d) { return d->kind == Draft::Kind::scatter; });
  if (scatter != members.end()) {
    // The updates are one more axis, which every element of the result loops over.
    axes.push_back(analysis_.axes().size());
    extents.push_back(update_count(graph_, (*scatter)->node));
  }
  if (axes.size() > 60) return make_error(ErrorKind::constraint, "a group with {} axes", axes.size());
  group.program = std::make_shared<ScalarProgram>(graph_, axes, extents);
  group.program->set_stored(stored_);
  // Finishes come first, then everything in topological order of the nodes; a store follows its reductions.
  std::vector<Draft*> order = members;
  std::stable_sort(order.begin(), order.end(), [](const Draft* a, const Draft* b) {
    const auto rank = [](const Draft* d) {
      return std::tuple(d->kind != Draft::Kind::finish, d->node, d->kind != Draft::Kind::reduce);
    };
    return rank(a) < rank(b);
  });
  for (const Draft* draft : order) {
    Result<Anchor> anchor = build_anchor(*draft, group);
    if (!anchor) {
      if (group.program->blocking()) blocked_ = Block{draft, *group.program->blocking()};
      return anchor.error();
    }
    group.anchors.push_back(std::move(*anchor));
  }
  assign_sweeps(group);
  count_buffers(group);
  return group;
}

void GroupBuilder::count_buffers(const GroupStructure& group) {
  std::set<Buffer> named;
  for (const Item& item : group.program->items()) {
    if (item.kind == Item::Kind::load && item.buffer.kind != Buffer::Kind::table) named.insert(item.buffer);
  }
  buffers_ += named.size();
}

Result<Anchor> GroupBuilder::build_anchor(const Draft& draft, GroupStructure& group) {
  ScalarProgram& program = *group.program;
  Anchor anchor;
  anchor.node = draft.node;
  anchor.value = draft.value;
  STITCH_ASSIGN(anchor.axes, positions(program, draft.axes));
  anchor.dtype = graph_.type(draft.value).dtype;
  switch (draft.kind) {
    case Draft::Kind::reduce: return build_reduce(draft, program, std::move(anchor));
    case Draft::Kind::finish: return build_finish(draft, group, std::move(anchor));
    case Draft::Kind::scan: return build_scan(draft, program, std::move(anchor));
    case Draft::Kind::sort: return build_sort(draft, program, std::move(anchor));
    case Draft::Kind::scatter: return build_scatter(draft, program, std::move(anchor));
    case Draft::Kind::fill: return build_whole(draft, graph_.node(draft.node).operands[0], program, std::move(anchor));
    case Draft::Kind::keep: return build_whole(draft, draft.value, program, std::move(anchor));
    case Draft::Kind::update:
    case Draft::Kind::add_updates: return build_update(draft, program, std::move(anchor));
    case Draft::Kind::output:
    case Draft::Kind::piece: break;
  }
  const std::vector<Index> indices = program.canonical_indices(analysis_, draft.value);
  STITCH_ASSIGN(const ItemId item, program.item(draft.value, indices));
  anchor.items = {item};
  std::vector<Index> moved;
  for (std::size_t d = 0; d < indices.size(); ++d) moved.push_back(program.pool().offset(indices[d], draft.offset[d]));
  const graph::Dims& dims = graph_.type(graph_.results()[draft.output]).dims;
  anchor.buffers = {Buffer{Buffer::Kind::output, draft.output}};
  anchor.addresses = {program.pool().linear(moved, graph::row_major_strides(dims))};
  return anchor;
}

Result<Anchor> GroupBuilder::build_reduce(const Draft& draft, ScalarProgram& program, Anchor anchor) {
  const Value operand = graph_.node(draft.node).operands[0];
  const std::vector<Index> indices = program.canonical_indices(analysis_, operand);
  STITCH_ASSIGN(const ItemId item, program.item(operand, indices));
  anchor.items = {item};
  anchor.value = {draft.node, 0};
  STITCH_ASSIGN(anchor.reduced, positions(program, analysis_.reduced(draft.node)));
  anchor.combiner = graph_.node(draft.node).op;
  const std::vector<Index> kept = program.canonical_indices(analysis_, {draft.node, 0});
  if (anchor.combiner == Op::arg_reduce) {
    // The position along the reduced dimension takes part in the reduction.
    const std::size_t along = graph_.node(draft.node).as<graph::ArgReduceAttributes>().dimension;
    anchor.addresses = {indices[along]};
  }
  if (!draft.global) {
    anchor.kind = Anchor::Kind::reduce;
    program.set_reduced(draft.node, kept);
    return anchor;
  }
  anchor.kind = Anchor::Kind::partial;
  anchor.dtype = partial_dtype(graph_.node(draft.node), 0);
  anchor.buffers = partials_for(draft.node);
  anchor.addresses.push_back(
      program.pool().linear(kept, graph::row_major_strides(graph_.node(draft.node).type().dims)));
  return anchor;
}

/// The partial results of an earlier phase, reduced over their axis.
Result<Anchor> GroupBuilder::build_finish(const Draft& draft, GroupStructure& group, Anchor anchor) {
  ScalarProgram& program = *group.program;
  const Node& node = graph_.node(draft.node);
  const std::vector<Index> kept = program.canonical_indices(analysis_, {draft.node, 0});
  const Index element = program.pool().linear(kept, graph::row_major_strides(node.type().dims));
  const Index partial = program.axes().variables[group.partial_axis];
  const Index address =
      program.pool().add(program.pool().scale(partial, std::max<std::int64_t>(node.type().elements(), 1)), element);
  for (std::size_t r = 0; r < node.results.size(); ++r) {
    const Buffer buffer = partials_of_.at(draft.node)[r];
    const Value origin{draft.node, static_cast<std::int32_t>(r)};
    anchor.items.push_back(program.load(buffer, partial_dtype(node, r), address, origin));
  }
  anchor.kind = Anchor::Kind::reduce;
  anchor.combiner = node.op;
  anchor.axes.insert(group.partial_axis);
  anchor.reduced = AxisSet::of(group.partial_axis);
  program.set_reduced(draft.node, kept);
  return anchor;
}

/// All of the draft's value, where later phases find it; its elements are those of `source` (itself, or what a
/// scatter's updates will be added to).
Result<Anchor> GroupBuilder::build_whole(const Draft& draft, Value source, ScalarProgram& program, Anchor anchor) {
  const std::vector<Index> indices = program.canonical_indices(analysis_, draft.value);
  STITCH_ASSIGN(const ItemId item, program.item(source, indices));
  anchor.items = {item};
  anchor.dtype = accumulator_of(graph_, draft.value);
  anchor.buffers = {buffer_of(draft)};
  anchor.addresses = {program.pool().linear(indices, graph::row_major_strides(graph_.type(draft.value).dims))};
  return anchor;
}

/// The elements of an update, stored (dynamic-update-slice in place) or added (scatter) where they belong.
Result<Anchor> GroupBuilder::build_update(const Draft& draft, ScalarProgram& program, Anchor anchor) {
  const Node& node = graph_.node(draft.node);
  const bool adds = draft.kind == Draft::Kind::add_updates;
  const Value update = node.operands[adds ? 2 : 1];
  const std::vector<Index> indices = program.canonical_indices(analysis_, update);
  STITCH_ASSIGN(const UpdateTarget target,
                adds ? scatter_target(program, draft.node, indices) : update_target(program, draft.node, indices));
  STITCH_ASSIGN(const ItemId item, program.item(update, indices, target.guard));
  anchor.kind = adds ? Anchor::Kind::atomic : Anchor::Kind::store;
  anchor.dtype = accumulator_of(graph_, draft.value);
  anchor.items = {item};
  anchor.guard = target.guard;
  anchor.buffers = {buffer_of(draft)};
  anchor.addresses = {program.pool().linear(target.indices, graph::row_major_strides(node.type().dims))};
  return anchor;
}

Buffer GroupBuilder::buffer_of(const Draft& draft) {
  return draft.output >= 0 ? Buffer{Buffer::Kind::output, draft.output} : scratch_for(draft.value);
}

Result<Anchor> GroupBuilder::build_scan(const Draft& draft, ScalarProgram& program, Anchor anchor) {
  const Node& node = graph_.node(draft.node);
  const std::vector<Index> indices = program.canonical_indices(analysis_, draft.value);
  anchor.kind = Anchor::Kind::scan;
  for (const Value operand : node.operands) {
    STITCH_ASSIGN(const ItemId item, program.item(operand, indices));
    anchor.items.push_back(item);
  }
  STITCH_ASSIGN(anchor.reduced, positions(program, analysis_.reduced(draft.node)));
  address_results(draft, indices, program, anchor);
  return anchor;
}

/// Where the results that are wanted go: element `indices` of each.
void GroupBuilder::address_results(const Draft& draft, const std::vector<Index>& indices, ScalarProgram& program,
                                   Anchor& anchor) {
  const Index address = program.pool().linear(indices, graph::row_major_strides(graph_.node(draft.node).type().dims));
  for (const auto& [result, output] : draft.stored) {
    anchor.results.push_back(result);
    anchor.buffers.push_back(output >= 0 ? Buffer{Buffer::Kind::output, output} : scratch_for({draft.node, result}));
    anchor.addresses.push_back(address);
  }
}

/// The key of an element and what goes along; the addresses are those of the place that a thread writes.
Result<Anchor> GroupBuilder::build_sort(const Draft& draft, ScalarProgram& program, Anchor anchor) {
  const Node& node = graph_.node(draft.node);
  const std::vector<Index> indices = program.canonical_indices(analysis_, node.operands[0]);
  anchor.kind = Anchor::Kind::sort;
  anchor.dtype = graph_.type(node.operands[0]).dtype;
  STITCH_ASSIGN(const ItemId key, program.item(node.operands[0], indices));
  anchor.items = {key};
  for (const auto& [result, output] : draft.stored) {
    STITCH_ASSIGN(const ItemId item, program.item(node.operands[result], indices));
    anchor.items.push_back(item);
  }
  STITCH_ASSIGN(anchor.reduced, positions(program, analysis_.reduced(draft.node)));
  address_results(draft, indices, program, anchor);
  return anchor;
}

Result<Anchor> GroupBuilder::build_scatter(const Draft& draft, ScalarProgram& program, Anchor anchor) {
  const Node& node = graph_.node(draft.node);
  const std::vector<Index> indices = program.canonical_indices(analysis_, draft.value);
  STITCH_ASSIGN(const ItemId item, program.item(node.operands[0], indices));
  anchor.kind = Anchor::Kind::scatter;
  const std::size_t updates = program.axes().axes.size() - 1;
  STITCH_ASSIGN(const ScatterTerm term, scatter_term(program, draft.node, indices, program.axes().variables[updates]));
  anchor.items = {item, term.hits, term.update};
  if (term.key >= 0) anchor.items.insert(anchor.items.end(), {term.key, term.place});
  anchor.reduced = AxisSet::of(updates);
  anchor.axes |= anchor.reduced;
  anchor.buffers = {buffer_of(draft)};
  anchor.addresses = {program.pool().linear(indices, graph::row_major_strides(node.type().dims))};
  return anchor;
}

Buffer GroupBuilder::scratch_for(Value value) {
  const auto [found, fresh] = scratch_of_.try_emplace(value, static_cast<int>(structure_.scratch.size()));
  if (fresh) {
    const graph::TensorType& type = graph_.type(value);
    structure_.scratch.push_back({Scratch::Kind::value, value, accumulator_of(graph_, value), type.elements()});
  }
  return {Buffer::Kind::scratch, found->second};
}

std::vector<Buffer> GroupBuilder::partials_for(NodeId id) {
  const Node& node = graph_.node(id);
  std::vector<Buffer>& buffers = partials_of_[id];
  for (std::size_t r = 0; r < node.results.size(); ++r) {
    buffers.push_back({Buffer::Kind::scratch, static_cast<int>(structure_.scratch.size())});
    structure_.scratch.push_back({Scratch::Kind::partials,
                                  {id, static_cast<std::int32_t>(r)},
                                  partial_dtype(node, r),
                                  std::max<std::int64_t>(node.results[r].elements(), 1)});
  }
  return buffers;
}

void GroupBuilder::record_stored(const std::vector<Draft*>& drafts) {
  // The programs of this phase keep what they know.
  const auto known = std::make_shared<StoredValues>(*stored_);
  StoredValues& stored = *known;
  for (const Draft* each : drafts) {
    const Draft& draft = *each;
    const graph::TensorType& type = graph_.type(draft.value);
    const Buffer output{Buffer::Kind::output, draft.output};
    switch (draft.kind) {
      case Draft::Kind::output:
      case Draft::Kind::update: stored[draft.value] = {output, type.dims, type.dtype}; break;
      case Draft::Kind::keep: stored.try_emplace(draft.value, in_scratch(draft.value)); break;
      case Draft::Kind::scan:
      case Draft::Kind::sort:
        for (const auto& [result, number] : draft.stored) {
          const Value value{draft.node, result};
          const graph::TensorType& of_result = graph_.type(value);
          stored[value] = number >= 0 ? StoredValue{{Buffer::Kind::output, number}, of_result.dims, of_result.dtype}
                                      : in_scratch(value);
        }
        break;
      case Draft::Kind::scatter:
      case Draft::Kind::add_updates:
        stored[draft.value] = draft.output >= 0 ? StoredValue{output, type.dims, type.dtype} : in_scratch(draft.value);
        break;
      case Draft::Kind::piece:
      case Draft::Kind::reduce:
      case Draft::Kind::finish:
      case Draft::Kind::fill: break;
    }
  }
  stored_ = known;
}

StoredValue GroupBuilder::in_scratch(Value value) const {
  return {{Buffer::Kind::scratch, scratch_of_.at(value)}, graph_.type(value).dims, accumulator_of(graph_, value)};
}

}  // namespace stitch::kernel
