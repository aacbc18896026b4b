#include "kernel/program/residence.h"

#include <algorithm>

namespace stitch::kernel {
namespace {

using Source = RecurrentStep::Source;

/// Per item, whether it depends on what a turn hands to the next: a counter.
std::vector<bool> changing_items(const Residence& residence, const ScalarProgram& program) {
  std::vector<bool> changes(program.items().size(), false);
  const auto any = [&](const std::vector<ItemId>& ids) {
    return std::any_of(ids.begin(), ids.end(), [&](ItemId id) { return changes[id]; });
  };
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const Item& item = program.items()[i];
    changes[i] = any(item.operands) || (item.index >= 0 && any(program.items_of(item.index)));
    if (item.kind == Item::Kind::load) changes[i] = changes[i] || residence.changes(item.buffer);
  }
  return changes;
}

/// Bytes that a block reads of a load in one turn.
double block_bytes(const GroupProgram& group, const Item& load) {
  double elements = 1;
  for (const int a : load.axes)
    elements *= static_cast<double>(std::min(group.mapping.axes[a].per_block(), group.extents[a]));
  return elements * graph::byte_size(load.dtype);
}

}  // namespace

bool Residence::is_resident(const Buffer& buffer) const {
  if (!takes_turns()) return false;
  switch (buffer.kind) {
    case Buffer::Kind::scratch: return true;
    case Buffer::Kind::output: return step_->targets[buffer.number].is_state;
    case Buffer::Kind::input: {
      const Source::Kind kind = step_->sources[buffer.number].kind;
      return kind == Source::Kind::state || kind == Source::Kind::first_row;
    }
    case Buffer::Kind::table: break;
  }
  return false;
}

bool Residence::changes(const Buffer& buffer) const {
  if (!takes_turns() || buffer.kind == Buffer::Kind::table) return false;
  return buffer.kind != Buffer::Kind::input || step_->sources[buffer.number].kind == Source::Kind::state;
}

bool Residence::is_sequence(const Buffer& buffer) const {
  return takes_turns() && buffer.kind == Buffer::Kind::input && step_->is_sequence(buffer.number);
}

LoadPlaces::LoadPlaces(const Residence& residence, const GroupProgram& group, double l1_bytes) {
  if (!residence.takes_turns()) return;
  const ScalarProgram& program = *group.structure.program;
  places_.resize(program.items().size(), Place::device);
  lasting_.resize(places_.size(), false);
  const std::vector<bool> changes = changing_items(residence, program);
  const std::vector<bool> needed = needed_beside(group.products, group.structure);
  double same = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const Item& item = program.items()[i];
    if (item.kind != Item::Kind::load) continue;
    if (residence.is_resident(item.buffer)) {
      places_[i] = Place::shared;
    } else if (changes[i]) {
      if (residence.is_sequence(item.buffer)) places_[i] = Place::l2;
    } else {
      lasting_[i] = true;
      // Weights of tensor cores have been brought to where these find them.
      const bool hoisted = !needed[i] || std::ranges::count(group.hoisted, static_cast<ItemId>(i)) > 0;
      places_[i] = hoisted ? Place::registers : Place::l1;
      if (!hoisted) same += block_bytes(group, item);
    }
  }
  if (same > l1_bytes || !residence.keeps_l1()) std::ranges::replace(places_, Place::l1, Place::l2);
}

}  // namespace stitch::kernel
