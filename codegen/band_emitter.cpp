#include "codegen/band_emitter.h"

#include <algorithm>

#include "codegen/spelling.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {

using kernel::Anchor;
using kernel::AxisSet;
using kernel::HeldItem;
using kernel::Item;
using kernel::ItemId;
using kernel::Level;

namespace {

template <class Id>
bool contains(const std::vector<Id>& all, Id id) {
  return std::ranges::find(all, id) != all.end();
}

}  // namespace

std::string band_guard(const GroupScope& scope, const Band& band) {
  AxisSet axes = band.kept;
  for (const ItemId id : band.items) axes |= scope.program.at(id).axes;
  for (const int a : band.anchors) axes |= scope.anchor(a).axes;
  return AxisPrinter(scope).range_guard(axes, false);
}

bool BandEmitter::is_kept_from(ItemId id, int sweep) const {
  const HeldItem* held = scope_.held_in_shared(id);
  return held != nullptr && held->from == sweep;
}

BandEmitter::Work BandEmitter::work_of(const Band& band, int sweep) const {
  const kernel::Sweep& of = group_.sweeps[sweep];
  Work work{band, sweep, {}, {}, {}, {}, {}};
  for (const ItemId id : band.items) {
    if (!contains(of.early, id)) {
      work.computed.push_back(id);
      continue;
    }
    work.early.push_back(id);
    const bool there = contains(of.copied, id) || shared_.is_found(id) || scope_.taken_over.contains(id);
    if (!there) work.direct.push_back(id);
  }
  for (const auto& [id, held] : scope_.held) {
    const bool there = held->from < sweep || (held->from == sweep && contains(of.copied, id));
    if (held->place != kernel::Hold::shared || !there || held->until < sweep) continue;
    if (band_axes(scope_, scope_.program.at(id).axes) == band.axes) work.kept.push_back(id);
  }
  return work;
}

bool BandEmitter::outlives(const Band& band, ItemId id, int sweep) const {
  const kernel::Sweep& of = group_.sweeps[sweep];
  const auto elsewhere = [&](AxisSet axes) { return band_axes(scope_, axes) != band.axes; };
  return std::ranges::any_of(of.body,
                             [&](ItemId user) {
                               return elsewhere(scope_.program.at(user).axes) &&
                                      contains(kernel::dependencies(scope_.program, user), id);
                             }) ||
         std::ranges::any_of(of.anchors, [&](int a) {
           const Anchor& it = scope_.anchor(a);
           return elsewhere(it.axes) && contains(kernel::roots_of(scope_.program, it), id);
         });
}

void BandEmitter::declare(const Work& work) {
  const kernel::Sweep& sweep = group_.sweeps[work.sweep];
  for (const ItemId id : work.early) {
    if (!items_.is_array(id) && !contains(sweep.copied, id)) loads_.declare_for_sweep(id);
  }
  for (const ItemId id : work.kept) loads_.declare_for_sweep(id);
  for (const ItemId id : work.band.items) {
    const bool early = scope_.program.at(id).kind == Item::Kind::load && contains(work.early, id);
    if (early || items_.is_array(id) || work.band.axes.empty()) continue;
    if (outlives(work.band, id, work.sweep) || is_kept_from(id, work.sweep)) loads_.declare_for_sweep(id);
  }
}

void BandEmitter::emit(const Band& band, int sweep, const std::string& once) {
  Work work = work_of(band, sweep);
  const int depth = out_.depth();
  if (!once.empty() && !band.anchors.empty()) {
    const bool shares = std::ranges::any_of(band.items, [&](ItemId id) { return outlives(band, id, sweep); });
    if (shares) {
      work.once = once;
    } else {
      out_.open("if ({})", once);
    }
  }
  declare(work);
  emit_loads(work);
  leave_in_shared(work);
  emit_elements(work);
  out_.close(out_.depth() - depth);
}

void BandEmitter::open_places(const Band& band) {
  loops_.open_register_loops(band.axes);
  if (const std::string guard = band_guard(scope_, band); !guard.empty()) out_.open("if ({})", guard);
}

void BandEmitter::emit_loads(const Work& work) {
  for (const ItemId id : work.early) {
    if (!contains(group_.sweeps[work.sweep].copied, id) && shared_.is_found(id)) emit_found_load(work.band, id);
  }
  const bool registers = std::ranges::any_of(work.band.axes, [&](int a) { return group_.extent(a, Level::reg) > 1; });
  const bool loads = !work.direct.empty() || !work.kept.empty();
  const int depth = out_.depth();
  if (loads) {
    open_places(work.band);
    for (const ItemId id : work.direct) {
      scope_.staged.contains(id) ? shared_.emit_from(id, shared_.staged_place(id)) : loads_.emit_run(id);
    }
    for (const ItemId id : work.kept) shared_.emit_from(id, shared_.kept_place(id));
    if (registers) out_.close(out_.depth() - depth);
  }
  // The loads of all registers are in flight before the first value is used.
  if (registers || !loads) open_places(work.band);
}

/// A load that an earlier phase has made: from shared memory in the rounds that are retained, else once more. The
/// question is asked outside the loops over registers, so that all their loads are in flight together.
void BandEmitter::emit_found_load(const Band& band, ItemId id) {
  const int depth = out_.depth();
  out_.open("if ({})", shared_.round_is_retained(id));
  open_places(band);
  shared_.emit_from(id, shared_.is_kept(id) ? shared_.kept_place(id) : shared_.retained_place(id));
  out_.close(out_.depth() - depth);
  out_.open("else");
  open_places(band);
  loads_.emit_run(id);
  out_.close(out_.depth() - depth);
}

/// Loads that must wait in shared memory for later sweeps, or phases.
void BandEmitter::leave_in_shared(const Work& work) {
  for (const ItemId id : work.early) {
    if (contains(group_.sweeps[work.sweep].copied, id)) continue;
    if (is_kept_from(id, work.sweep)) {
      shared_.emit_to(id, shared_.kept_place(id));
    } else if (shared_.is_left(id)) {
      out_.open("if ({})", shared_.round_is_retained(id));
      shared_.emit_to(id, shared_.retained_place(id));
      out_.close();
    }
  }
}

std::vector<int> BandEmitter::declare_run_stores(const Band& band) {
  std::vector<int> anchors;
  for (const int a : band.anchors) {
    if (!stores_.takes_runs(a)) continue;
    anchors.push_back(a);
    out_.line("{} result_{}[{}];", storage_type(scope_.anchor(a).dtype), a, axes_.vector_extent());
  }
  return anchors;
}

/// The arithmetic of one band: one element, or all elements of a vector.
void BandEmitter::emit_elements(const Work& work) {
  const bool vector = axes_.has_vector(work.band.axes);
  if (work.computed.empty() && work.band.anchors.empty()) return;
  const std::vector<int> run_stores = vector ? declare_run_stores(work.band) : std::vector<int>{};
  std::vector<int> run_sums;
  std::ranges::copy_if(work.band.anchors, std::back_inserter(run_sums),
                       [&](int a) { return reductions_.takes_runs(a); });
  for (const int a : run_sums) reductions_.declare_run(a);
  if (vector) {
    out_.line("#pragma unroll");
    out_.open("for (int v = 0; v < {}; ++v)", axes_.vector_extent());
  }
  for (const ItemId id : work.computed) emit_item(id, vector);
  const bool guarded = !work.once.empty();
  if (guarded) out_.open("if ({})", work.once);
  emit_anchors(work, run_stores, run_sums, vector);
  if (guarded) out_.close();
  if (vector) out_.close();
  const bool runs = !run_stores.empty() || !run_sums.empty();
  if (guarded && runs) out_.open("if ({})", work.once);
  for (const int a : run_stores) stores_.emit_run(a);
  for (const int a : run_sums) reductions_.emit_run(a);
  if (guarded && runs) out_.close();
  for (const ItemId id : work.computed) {
    if (is_kept_from(id, work.sweep)) shared_.emit_to(id, shared_.kept_place(id));
  }
}

/// One element's; of what goes by runs, its place in the run.
void BandEmitter::emit_anchors(const Work& work, const std::vector<int>& run_stores, const std::vector<int>& run_sums,
                               bool vector) {
  for (const int a : work.band.anchors) {
    const Anchor::Kind kind = scope_.anchor(a).kind;
    if (contains(run_stores, a)) {
      out_.line("result_{}[v] = {};", a, stores_.stored_value(a, true));
    } else if (contains(run_sums, a)) {
      reductions_.emit_run_element(a);
    } else if (kind == Anchor::Kind::store || kind == Anchor::Kind::atomic) {
      stores_.emit_element(a, vector);
    } else {
      reductions_.emit_accumulate(a, vector);
    }
  }
}

void BandEmitter::emit_item(ItemId id, bool vector) {
  const Item& item = scope_.program.at(id);
  const std::string value = items_.expression_of(id, vector);
  if (!items_.is_array(id)) {
    out_.line("const {} {} = {};", compute_type(item.dtype), items_.name(id), value);
  } else if (item.kind == Item::Kind::load) {
    // Kept in its storage type; its expression has widened it.
    out_.line("{} = narrow<{}>({});", items_.registers(id, vector), storage_type(item.dtype), value);
  } else {
    out_.line("{} = {};", items_.registers(id, vector), value);
  }
}

}  // namespace stitch::codegen
