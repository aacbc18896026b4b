// GroupEmitter: loads that blocks retain in shared memory from one phase to another (kernel/program/retention.h).

#include "codegen/group_emitter.h"
#include "codegen/spelling.h"

namespace stitch::codegen {

using kernel::ItemId;
using kernel::Level;
using kernel::RetainedLoad;

bool GroupEmitter::is_found(ItemId id) const {
  const RetainedLoad* load = group_.retention(id);
  return load != nullptr && !load->fills;
}

std::string GroupEmitter::round_is_retained(ItemId id) const {
  return fmt::format("{}_round < {}", name(id), group_.retention(id)->rounds);
}

/// Where the block has what belongs to this round, if it is retained.
std::string GroupEmitter::retained_round(ItemId id) const {
  const RetainedLoad& load = *group_.retention(id);
  return fmt::format("shared + {} + {}_round * {}", context_.shared_retained + load.shared_offset, name(id),
                     load.round_bytes);
}

std::string GroupEmitter::retained_place(ItemId id) const {
  return place_in_shared(id, name(id) + "_retained", group_.retention(id)->inner_loops);
}

/// The block's how manieth it is of the loop over tiles and of the loops that make rounds.
void GroupEmitter::emit_round(ItemId id) {
  std::string round = context_.tiles_at_once > 0 ? fmt::format("tile / {}", context_.tiles_at_once) : "";
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    const std::int64_t turns = group_.extent(a, Level::loop);
    if (((group_.retention(id)->round_loops >> a) & 1) == 0 || turns == 1) continue;
    const std::string turn = axis_name(a) + "_loop";
    round = round.empty() ? turn : fmt::format("({}) * {} + {}", round, turns, turn);
  }
  out_.line("const int {}_round = {};", name(id), round.empty() ? "0" : round);
}

/// What is not held in shared memory between sweeps has a place there of its own, in the rounds that are retained.
void GroupEmitter::emit_retained_places() {
  for (const RetainedLoad& load : group_.retained) {
    if (is_kept_in_shared(load.item)) continue;
    emit_round(load.item);
    out_.line("{0}* const {1}_retained = reinterpret_cast<{0}*>({2} ? {3} : shared);",
              storage_type(program_.at(load.item).dtype), name(load.item), round_is_retained(load.item),
              retained_round(load.item));
  }
}

/// A load that an earlier phase has made: from shared memory in the rounds that are retained, else once more. The
/// question is asked outside the loops over registers, so that all their loads are in flight together.
void GroupEmitter::emit_found_load(const Band& band, ItemId id) {
  const std::string guard = band_guard(band);
  const int depth = out_.depth();
  const auto open = [&] {
    open_register_loops(band.axes);
    if (!guard.empty()) out_.open("if ({})", guard);
  };
  out_.open("if ({})", round_is_retained(id));
  open();
  emit_from_shared(id, is_kept_in_shared(id) ? kept_place(id) : retained_place(id));
  out_.close(out_.depth() - depth);
  out_.open("else");
  open();
  emit_vector_load(id);
  out_.close(out_.depth() - depth);
}

}  // namespace stitch::codegen
