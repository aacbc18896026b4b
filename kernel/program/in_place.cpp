#include "kernel/program/in_place.h"

#include <algorithm>
#include <map>

namespace stitch::kernel {
namespace {

/// The one group that reads an input, or writes an output, if there is only one.
struct Place {
  const GroupProgram* group = nullptr;
  bool alone = true;

  void add(const GroupProgram& other) {
    alone = alone && (group == nullptr || group == &other);
    group = &other;
  }
};

/// Which groups read a kernel's inputs, and which write its outputs.
class Places {
 public:
  explicit Places(const KernelProgram& program) {
    for (const PhaseProgram& phase : program.phases) {
      for (const GroupProgram& group : phase.groups) add(group);
    }
  }

  /// The group that is alone in reading the one and in writing the other; null where there is none.
  [[nodiscard]] const GroupProgram* group_of(const InPlace& pair) const {
    const auto reads = places_.find({Buffer::Kind::input, pair.input});
    const auto writes = places_.find({Buffer::Kind::output, pair.output});
    if (reads == places_.end() || writes == places_.end()) return nullptr;
    const bool same = reads->second.group == writes->second.group;
    return same && reads->second.alone && writes->second.alone ? reads->second.group : nullptr;
  }

 private:
  void add(const GroupProgram& group) {
    for (const Item& item : group.structure.program->items()) {
      if (item.kind == Item::Kind::load) places_[item.buffer].add(group);
    }
    for (const Anchor& anchor : group.structure.anchors) {
      for (const Buffer& buffer : anchor.buffers) places_[buffer].add(group);
    }
  }

  std::map<Buffer, Place> places_;
};

/// The only anchor of a group that writes a buffer, if it is a plain store by one thread an element.
const Anchor* store_of(const GroupProgram& group, const Buffer& buffer) {
  const Anchor* found = nullptr;
  for (const Anchor& anchor : group.structure.anchors) {
    if (std::ranges::count(anchor.buffers, buffer) == 0) continue;
    if (found != nullptr || anchor.kind != Anchor::Kind::store) return nullptr;
    found = &anchor;
  }
  if (found == nullptr) return nullptr;
  for (int axis = 0; axis < std::ssize(group.extents); ++axis) {
    if (group.extents[axis] > 1 && !found->axes.contains(axis)) return nullptr;  // several threads would read it
  }
  return found;
}

/// Whether a thread has made a load before it makes the store, in every sweep that has it.
bool is_made_before(const GroupProgram& group, ItemId load, const Anchor& store) {
  for (int number = 0; number < std::ssize(group.sweeps); ++number) {
    const Sweep& sweep = group.sweeps[number];
    const bool in_body = std::ranges::count(sweep.body, load) > 0;
    if (in_body && (std::ranges::count(sweep.early, load) == 0 || std::ranges::count(sweep.copied, load) > 0))
      return false;
    if (number > store.sweep && (in_body || std::ranges::count(sweep.uniform, load) > 0)) return false;
  }
  return true;
}

bool is_in_place(const GroupProgram& group, const InPlace& pair) {
  const Anchor* store = store_of(group, {Buffer::Kind::output, pair.output});
  if (store == nullptr) return false;
  const ScalarProgram& program = *group.structure.program;
  for (const ItemId id : program.item_ids()) {
    const Item& item = program.at(id);
    if (item.kind != Item::Kind::load || item.buffer != Buffer{Buffer::Kind::input, pair.input}) continue;
    const bool same = item.index == store->addresses[0] && item.guard < 0;
    if (!same || !is_made_before(group, id, *store)) return false;
  }
  return true;
}

}  // namespace

std::vector<InPlace> in_place_pairs(const graph::Graph& kernel, const KernelProgram& program) {
  std::vector<InPlace> pairs;
  if (!kernel.constraints.in_place || program.recurrent != nullptr || program.schedule.cluster > 1) return pairs;
  const Places places(program);
  for (int input = 0; input < std::ssize(kernel.parameters()); ++input) {
    for (int output = 0; output < std::ssize(kernel.results()); ++output) {
      const graph::TensorType& type = kernel.type(kernel.results()[output]);
      if (type.elements() == 0 || type != kernel.node(kernel.parameters()[input]).type()) continue;
      const InPlace pair{input, output};
      const GroupProgram* group = places.group_of(pair);
      if (group != nullptr && is_in_place(*group, pair)) pairs.push_back(pair);
    }
  }
  return pairs;
}

}  // namespace stitch::kernel
