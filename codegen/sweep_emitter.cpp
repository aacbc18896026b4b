#include "codegen/sweep_emitter.h"

#include <algorithm>

#include "codegen/ahead_emitter.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {

using kernel::Anchor;
using kernel::AxisSet;
using kernel::ItemId;
using kernel::Level;
using kernel::Sweep;
using Iterations = LoopEmitter::Iterations;

std::vector<Band> SweepEmitter::bands_of(int sweep) const {
  std::vector<Band> bands;
  const auto band = [&](AxisSet all) -> Band& {
    const AxisSet axes = band_axes(scope_, all);
    const auto found = std::ranges::find(bands, axes, &Band::axes);
    return found != bands.end() ? *found : bands.emplace_back(Band{axes});
  };
  for (const kernel::HeldItem& held : group_.held) {
    if (held.place != kernel::Hold::shared || held.from >= sweep || held.until < sweep) continue;
    const AxisSet axes = scope_.program.at(held.item).axes;
    band(axes).kept |= axes;
  }
  for (const ItemId id : group_.sweeps[sweep].body) {
    if (!kernel::is_inline(scope_.program, id)) band(scope_.program.at(id).axes).items.push_back(id);
  }
  for (const int a : group_.sweeps[sweep].anchors) {
    if (!kernel::is_product_of(group_.products, a)) band(scope_.anchor(a).axes).anchors.push_back(a);
  }
  std::ranges::stable_sort(bands, {}, [](const Band& each) { return each.axes.size(); });
  return bands;
}

void SweepEmitter::emit_title(int sweep) {
  std::string computes;
  for (const int a : group_.sweeps[sweep].anchors) {
    const Anchor& it = scope_.anchor(a);
    computes += fmt::format("{}{} {}", computes.empty() ? "" : ", ",
                            it.kind == Anchor::Kind::store ? "store" : graph::to_string(scope_.graph.node(it.node).op),
                            it.node);
  }
  out_.blank();
  out_.line("// sweep {}: {}", sweep, computes.empty() ? "nothing of its own" : computes);
}

void SweepEmitter::emit(int sweep) {
  emit_title(sweep);
  for (const int a : group_.sweeps[sweep].anchors) {
    if (scope_.anchor(a).kind == Anchor::Kind::reduce) reductions_.declare(a);
  }
  for (const int a : group_.sweeps[sweep].anchors) products_.emit_sum(a);
  for (const ItemId id : group_.sweeps[sweep].uniform) {
    if (!scope_.taken_over.contains(id)) loads_.emit_uniform(id);
  }
  emit_bands(sweep);
  std::vector<int> plans;
  for (int i = 0; i < std::ssize(group_.reductions); ++i) {
    const Anchor& it = scope_.anchor(group_.reductions[i].anchor);
    if (it.kind == Anchor::Kind::reduce && it.sweep == sweep) plans.push_back(i);
  }
  reductions_.finish(plans);
}

void SweepEmitter::emit_bands(int sweep) {
  std::vector<Band> looped, straight;
  for (const Band& band : bands_of(sweep)) (band.axes.meets(group_.inner_loops) ? looped : straight).push_back(band);
  // What is loaded for this sweep alone ends with it.
  const int outside = out_.depth();
  if (!straight.empty() && group_.sweeps.size() > 1) out_.open();
  for (const Band& band : straight) bands_.emit(band, sweep, "");
  if (!looped.empty()) emit_looped(looped, sweep);
  out_.close(out_.depth() - outside);
  for (const ItemId id : scope_.sweep_arrays) scope_.arrays.erase(id);
  scope_.sweep_arrays.clear();
}

void SweepEmitter::emit_looped(const std::vector<Band>& bands, int sweep) {
  AxisSet all;
  for (const Band& band : bands) all |= band.axes;
  emit_copies(bands, sweep);
  const std::optional<Iterations> whole = loops_.whole_iterations(all);
  if (!whole) return emit_iterations(bands, sweep, std::nullopt);
  const Iterations others = whole->first == 0
                                ? Iterations{whole->axis, whole->last, group_.extent(whole->axis, Level::loop)}
                                : Iterations{whole->axis, whole->last, whole->first, true};
  const bool end_first = scope_.frame.backwards && group_.mapping.axes[whole->axis].interleaved;
  if (end_first) emit_iterations(bands, sweep, others);
  scope_.whole_axes = AxisSet::of(whole->axis);
  emit_iterations(bands, sweep, whole);
  scope_.whole_axes = {};
  if (!end_first) emit_iterations(bands, sweep, others);
}

void SweepEmitter::emit_iterations(const std::vector<Band>& bands, int sweep,
                                   const std::optional<Iterations>& iterations) {
  AxisSet all;
  for (const Band& band : bands) all |= band.axes;
  const int depth = out_.depth();
  const std::size_t arrays = scope_.sweep_arrays.size();
  open_iterations(all, sweep, iterations);
  for (const Band& band : bands) {
    // A band that lacks one of the loops would store and add up once too often per iteration of it.
    bands_.emit(band, sweep, first_of((all & group_.inner_loops) - band.axes));
  }
  out_.close(out_.depth() - depth);
  // What was declared inside the loops ends with them.
  for (; scope_.sweep_arrays.size() > arrays; scope_.sweep_arrays.pop_back())
    scope_.arrays.erase(scope_.sweep_arrays.back());
  const kernel::LoadsAhead& ahead = group_.sweeps[sweep].ahead;
  for (const ItemId id : ahead.loads) scope_.taken_over.erase(id);
  for (const kernel::StagedLoad& load : ahead.staged) scope_.staged.erase(load.item);
}

/// The loops over these axes; in the innermost one loads may be made turns ahead.
void SweepEmitter::open_iterations(AxisSet all, int sweep, const std::optional<Iterations>& iterations) {
  const kernel::LoadsAhead& ahead = group_.sweeps[sweep].ahead;
  if (ahead.empty() || scope_.frame.runtime_extent) return loops_.open_inner_loops(all, iterations);
  const bool some = iterations && iterations->axis == ahead.axis;
  const Iterations turns = some ? *iterations : Iterations{ahead.axis, 0, group_.extent(ahead.axis, Level::loop)};
  if (turns.wrapped || turns.last - turns.first < ahead.stages) return loops_.open_inner_loops(all, iterations);
  const AxisSet last = AxisSet::of(ahead.axis);
  out_.open();
  loops_.open_inner_loops(all - last, iterations);
  AheadEmitter emitter(scope_, ahead);
  emitter.begin(turns);
  loops_.open_inner_loops(all & last, iterations);
  emitter.take_over(turns);
  scope_.sweep_arrays.insert(scope_.sweep_arrays.end(), ahead.loads.begin(), ahead.loads.end());
}

/// The condition that loops stand at their first turns.
std::string SweepEmitter::first_of(AxisSet loops) const {
  std::string first;
  for (const int a : loops) first = both(first, fmt::format("{}_loop == 0", axes_.name(a)));
  return first;
}

void SweepEmitter::emit_copies(const std::vector<Band>& bands, int sweep) {
  const std::vector<ItemId>& copied = group_.sweeps[sweep].copied;
  bool any = false;
  for (const Band& band : bands) {
    for (const ItemId id : band.items) {
      if (std::ranges::find(copied, id) == copied.end() || scope_.staged.contains(id)) continue;
      any = true;
      emit_copy(band, id);
    }
  }
  if (any) out_.line("wait_for_copies();");
}

void SweepEmitter::emit_copy(const Band& band, ItemId id) {
  const int depth = out_.depth();
  if (shared_.is_found(id)) out_.open("if (!({}))", shared_.round_is_retained(id));
  loops_.open_inner_loops(band.axes);
  loops_.open_register_loops(band.axes);
  if (const std::string guard = band_guard(scope_, band); !guard.empty()) out_.open("if ({})", guard);
  loads_.emit_copy(id, shared_.kept_place(id));
  out_.close(out_.depth() - depth);
}

}  // namespace stitch::codegen
