// GroupEmitter: sweeps — bands of items, their loops, loads before arithmetic, stores.

#include <algorithm>
#include <bit>

#include "codegen/group_emitter.h"
#include "codegen/spelling.h"
#include "kernel/structure/items.h"

namespace stitch::codegen {

using kernel::Anchor;
using kernel::Item;
using kernel::ItemId;
using kernel::Level;
using kernel::Sweep;

namespace {

bool has(std::uint64_t mask, std::size_t axis) { return ((mask >> axis) & 1) != 0; }

}  // namespace

bool GroupEmitter::is_copied(ItemId id, int stage) const {
  return std::ranges::count(group_.sweeps[stage].copied, id) > 0;
}

bool GroupEmitter::is_kept_in_shared(ItemId id) const {
  const auto found = held_.find(id);
  return found != held_.end() && found->second->place == kernel::Hold::shared;
}

/// Threads that would store the same element: those that differ only on axes which the anchor does not have.
std::string GroupEmitter::replica_guard(std::uint64_t axes) const {
  std::string guard;
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (has(axes, a)) continue;
    for (const Level level : {Level::lane, Level::warp, Level::cluster, Level::grid}) {
      if (group_.extent(a, level) > 1) guard += fmt::format("{}{} == 0", guard.empty() ? "" : " && ", digit(a, level));
    }
    if (has(group_.outer_loops, a) && group_.extent(a, Level::loop) > 1)
      guard += fmt::format("{}{}_loop == 0", guard.empty() ? "" : " && ", axis_name(a));
  }
  return guard;
}

/// Values that do not change along the tile's outer loops, in registers before them.
void GroupEmitter::emit_hoisted() {
  if (group_.hoisted.empty()) return;
  if (!context_.hoisted_apart) out_.line("// the same for every iteration of the tile");
  for (const ItemId id : group_.hoisted) {
    if (!context_.hoisted_apart) declare_array(id);
    arrays_[id] = program_.at(id).axes & group_.varying;
    const std::uint64_t band = program_.at(id).axes & group_.varying;
    const int depth = out_.depth();
    open_register_loops(band);
    const std::string guard = range_guard(program_.at(id).axes, false);
    if (!guard.empty()) out_.open("if ({})", guard);
    emit_vector_load(id);
    out_.close(out_.depth() - depth);
  }
}

void GroupEmitter::open_loop(std::size_t axis, const Iterations& iterations) {
  if (context_.backwards && group_.mapping.axes[axis].interleaved) {
    out_.line("// from the end, of which L2 still has something");
    out_.open("for (int {0}_loop = {1}; {0}_loop >= {2}; --{0}_loop)", axis_name(axis), iterations.last - 1,
              iterations.first);
  } else {
    out_.open("for (int {0}_loop = {1}; {0}_loop < {2}; ++{0}_loop)", axis_name(axis), iterations.first,
              iterations.last);
  }
}

/// All iterations of every loop, or `some` of one.
void GroupEmitter::open_inner_loops(std::uint64_t axes, const std::optional<Iterations>& some) {
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (!has(axes, a) || !has(group_.inner_loops, a)) continue;
    const std::int64_t chunk = group_.mapping.axes[a].step(Level::loop);
    if (context_.runtime_extent) {
      out_.open("for (int {0}_loop = 0; {0}_loop * {1} < extent; ++{0}_loop)", axis_name(a), chunk);
    } else {
      const bool all = !some || some->axis != a;
      if (!all && some->wrapped) {
        out_.open("for (int {0}_next = {1}; {0}_next < {2}; ++{0}_next)", axis_name(a), some->first,
                  some->last + group_.extent(a, Level::loop));
        out_.line("const int {0}_loop = {0}_next % {1};", axis_name(a), group_.extent(a, Level::loop));
      } else {
        open_loop(a, all ? Iterations{a, 0, group_.extent(a, Level::loop)} : *some);
      }
    }
    if (group_.extent(a, Level::reg) == 1) out_.line("const int {0} = {0}0 + {0}_loop * {1};", axis_name(a), chunk);
  }
}

void GroupEmitter::open_register_loops(std::uint64_t axes) {
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (!has(axes, a) || group_.extent(a, Level::reg) == 1) continue;
    out_.line("#pragma unroll");
    out_.open("for (int {0}_r = 0; {0}_r < {1}; ++{0}_r)", axis_name(a), group_.extent(a, Level::reg));
    std::string text = fmt::format("{0}0 + {0}_r * {1}", axis_name(a), group_.mapping.axes[a].step(Level::reg));
    if (group_.extent(a, Level::loop) > 1)
      text += fmt::format(" + {}_loop * {}", axis_name(a), group_.mapping.axes[a].step(Level::loop));
    out_.line("const {} {} = {};", group_.extents[a] >= (std::int64_t{1} << 31) ? "s64" : "int", axis_name(a), text);
  }
}

std::vector<GroupEmitter::Band> GroupEmitter::bands_of(const Sweep& sweep) const {
  std::vector<Band> bands;
  const auto band = [&](std::uint64_t axes) -> Band& {
    const auto found = std::find_if(bands.begin(), bands.end(), [&](const Band& b) { return b.axes == axes; });
    if (found != bands.end()) return *found;
    bands.push_back({axes, {}, {}});
    return bands.back();
  };
  const int stage = &sweep - group_.sweeps.data();
  for (const kernel::HeldItem& held : group_.held) {
    if (held.place != kernel::Hold::shared || held.from >= stage || held.until < stage) continue;
    const std::uint64_t axes = program_.at(held.item).axes;
    band(band_of(axes)).kept |= axes;
  }
  for (const ItemId id : sweep.body) {
    if (!kernel::is_inline(program_, id)) band(band_of(program_.at(id).axes)).items.push_back(id);
  }
  for (const int a : sweep.anchors) band(band_of(anchor(a).axes)).anchors.push_back(a);
  // An item needs only items on a subset of its axes: fewer axes first.
  std::stable_sort(bands.begin(), bands.end(),
                   [](const Band& x, const Band& y) { return std::popcount(x.axes) < std::popcount(y.axes); });
  return bands;
}

/// The loop of which only the last iteration meets the end of its axis, and that end; of shifted rows the first one
/// meets the beginning.
std::optional<GroupEmitter::Iterations> GroupEmitter::whole_iterations(std::uint64_t axes) const {
  std::optional<Iterations> whole;
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (!has(axes, a) || !has(group_.inner_loops, a) || !has_tail(a) || context_.runtime_extent) continue;
    const std::int64_t last = group_.extents[a] / group_.mapping.axes[a].step(Level::loop);
    const std::int64_t first = group_.is_shifted(a) ? 1 : 0;
    if (whole || last < first + 2 || last >= group_.extent(a, Level::loop)) return std::nullopt;
    whole = Iterations{a, first, last};
  }
  return whole;
}

/// Asks for all that the loops will find in shared memory, and waits for it.
void GroupEmitter::emit_copies(const std::vector<Band>& bands, int stage) {
  bool any = false;
  for (const Band& band : bands) {
    for (const ItemId id : band.items) {
      if (!is_copied(id, stage)) continue;
      any = true;
      const Item& item = program_.at(id);
      const int depth = out_.depth();
      if (is_found(id)) out_.open("if (!({}))", round_is_retained(id));
      open_inner_loops(band.axes);
      open_register_loops(band.axes);
      if (const std::string guard = band_guard(band); !guard.empty()) out_.open("if ({})", guard);
      const int width = group_.accesses[id].width;
      const bool along =
          group_.mapping.vector_axis >= 0 && has(item.axes, static_cast<std::size_t>(group_.mapping.vector_axis));
      for (std::int64_t at = 0; at < (along ? vector_extent() : 1); at += width) {
        const std::string shift = at == 0 ? "" : fmt::format(" + {}", at);
        const std::string from =
            fmt::format("{} + ({})", pointer_of(item.buffer), index_text(item.index, false, is_wide(item.index)));
        if (group_.shift && along) {
          out_.line("copy_part<{}>({}{}, {}{}, {});", width, kept_place(id), shift, from, shift, part_bounds(at));
        } else {
          out_.line("copy_async<{}>({}{}, {}{});", width, kept_place(id), shift, from, shift);
        }
      }
      out_.close(out_.depth() - depth);
    }
  }
  if (any) out_.line("wait_for_copies();");
}

/// Bands that share the inner loops. Where only the last iteration is partly out of range, the others test nothing.
void GroupEmitter::emit_looped(const std::vector<Band>& bands, int stage) {
  std::uint64_t all = 0;
  for (const Band& band : bands) all |= band.axes;
  const auto emit = [&](const std::optional<Iterations>& iterations) {
    const int depth = out_.depth();
    const std::size_t arrays = sweep_arrays_.size();
    open_inner_loops(all, iterations);
    for (const Band& band : bands) {
      // A band that lacks one of the loops would run once too often per iteration of it.
      const std::uint64_t missing = all & group_.inner_loops & ~band.axes;
      std::string first;
      for (std::size_t a = 0; a < group_.extents.size(); ++a) {
        if (has(missing, a)) first += fmt::format("{}{}_loop == 0", first.empty() ? "" : " && ", axis_name(a));
      }
      if (!first.empty() && !band.anchors.empty()) out_.open("if ({})", first);
      emit_band(band, stage);
      if (!first.empty() && !band.anchors.empty()) out_.close();
    }
    out_.close(out_.depth() - depth);
    // What was declared inside the loops ends with them.
    for (; sweep_arrays_.size() > arrays; sweep_arrays_.pop_back()) arrays_.erase(sweep_arrays_.back());
  };
  emit_copies(bands, stage);
  const std::optional<Iterations> whole = whole_iterations(all);
  if (!whole) return emit(std::nullopt);
  const Iterations others = whole->first == 0
                                ? Iterations{whole->axis, whole->last, group_.extent(whole->axis, Level::loop)}
                                : Iterations{whole->axis, whole->last, whole->first, true};
  const bool end_first = context_.backwards && group_.mapping.axes[whole->axis].interleaved;
  if (end_first) emit(others);
  whole_axes_ = std::uint64_t{1} << whole->axis;
  emit(whole);
  whole_axes_ = 0;
  if (!end_first) emit(others);
}

void GroupEmitter::emit_sweep(const Sweep& sweep, int stage) {
  std::string computes;
  for (const int a : sweep.anchors) {
    const Anchor& it = anchor(a);
    computes +=
        fmt::format("{}{} {}", computes.empty() ? "" : ", ",
                    it.kind == Anchor::Kind::store ? "store" : graph::to_string(graph_.node(it.node).op), it.node);
  }
  out_.blank();
  out_.line("// sweep {}: {}", stage, computes.empty() ? "nothing of its own" : computes);
  for (const int a : sweep.anchors) {
    if (anchor(a).kind == Anchor::Kind::reduce) declare_accumulators(a);
  }
  for (const ItemId id : sweep.uniform) emit_uniform(id);

  // Bands without an inner loop come first, each with its own loops; the others share the inner loops.
  std::vector<Band> looped, straight;
  for (const Band& band : bands_of(sweep)) ((band.axes & group_.inner_loops) != 0 ? looped : straight).push_back(band);
  // What is loaded for this sweep alone ends with it.
  const int outside = out_.depth();
  if (!straight.empty() && group_.sweeps.size() > 1) out_.open();
  for (const Band& band : straight) emit_band(band, stage);
  if (!looped.empty()) emit_looped(looped, stage);
  out_.close(out_.depth() - outside);
  for (const ItemId id : sweep_arrays_) arrays_.erase(id);
  sweep_arrays_.clear();

  std::vector<int> plans;
  for (std::size_t i = 0; i < group_.reductions.size(); ++i) {
    const Anchor& it = anchor(group_.reductions[i].anchor);
    if (it.kind == Anchor::Kind::reduce && it.sweep == stage) plans.push_back(static_cast<int>(i));
  }
  if (!plans.empty()) finish_reductions(plans);
}

std::string GroupEmitter::band_guard(const Band& band) const {
  std::uint64_t axes = band.kept;
  for (const ItemId id : band.items) axes |= program_.at(id).axes;
  for (const int a : band.anchors) axes |= anchor(a).axes;
  return range_guard(axes, false);
}

std::string GroupEmitter::kept_place(ItemId id) const {
  return place_in_shared(id, name(id) + "_kept", group_.inner_loops);
}

/// The thread's run of an item, which has a place for every turn of `loops`.
std::string GroupEmitter::place_in_shared(ItemId id, std::string_view pointer, std::uint64_t loops) const {
  // Runs of one step lie side by side for all threads, so lanes touch distinct banks.
  std::string step;
  const auto add = [&](const std::string& digit, std::int64_t extent) {
    step = step.empty() ? digit : fmt::format("({} * {} + {})", step, extent, digit);
  };
  for (std::size_t a = 0; a < group_.extents.size(); ++a) {
    if (!has(program_.at(id).axes, a)) continue;
    if (has(loops, a) && group_.extent(a, Level::loop) > 1) add(axis_name(a) + "_loop", group_.extent(a, Level::loop));
    if (group_.extent(a, Level::reg) > 1) add(axis_name(a) + "_r", group_.extent(a, Level::reg));
  }
  const bool along = group_.mapping.vector_axis >= 0 &&
                     has(program_.at(id).axes, static_cast<std::size_t>(group_.mapping.vector_axis));
  const std::string thread = "static_cast<int>(threadIdx.x)";
  const std::string run = step.empty() ? thread : fmt::format("({} * {} + {})", step, group_.threads, thread);
  return along ? fmt::format("{} + {} * {}", pointer, run, vector_extent()) : fmt::format("{} + {}", pointer, run);
}

void GroupEmitter::emit_from_shared(ItemId id, const std::string& place) {
  const std::string target = name(id) + array_subscript(arrays_.at(id), false);
  if (!has_vector(program_.at(id).axes)) return out_.line("{} = *({});", target, place);
  const int width = std::min<int>(static_cast<int>(vector_extent()), 16 / kernel::held_bytes(program_.at(id)));
  for (int at = 0; at < vector_extent(); at += width) {
    const std::string shift = at == 0 ? "" : fmt::format(" + {}", at);
    out_.line("load<{}, Cached::plain>({}{}, {}{});", width, target, shift, place, shift);
  }
}

void GroupEmitter::emit_to_shared(ItemId id, const std::string& place) {
  const std::string source = name(id) + array_subscript(arrays_.at(id), false);
  if (!has_vector(program_.at(id).axes)) return out_.line("*({}) = {};", place, source);
  const int width = std::min<int>(static_cast<int>(vector_extent()), 16 / kernel::held_bytes(program_.at(id)));
  for (int at = 0; at < vector_extent(); at += width) {
    const std::string shift = at == 0 ? "" : fmt::format(" + {}", at);
    out_.line("store<{}>({}{}, {}{});", width, place, shift, source, shift);
  }
}

void GroupEmitter::keep_for_sweep(ItemId id) {
  arrays_[id] = program_.at(id).axes & group_.varying;
  sweep_arrays_.push_back(id);
}

void GroupEmitter::emit_band(const Band& band, int stage) {
  const bool vector = group_.mapping.vector_axis >= 0 &&
                      has(band.axes, static_cast<std::size_t>(group_.mapping.vector_axis)) && vector_extent() > 1;
  // Early loads need nothing that this band computes; they are all issued before the arithmetic.
  std::vector<ItemId> early, kept;
  const std::vector<ItemId>& all_early = group_.sweeps[stage].early;
  for (const ItemId id : band.items) {
    if (std::find(all_early.begin(), all_early.end(), id) != all_early.end()) early.push_back(id);
  }
  // Values of earlier sweeps that lie in shared memory.
  for (const auto& [id, held] : held_) {
    const bool there = held->from < stage || (held->from == stage && is_copied(id, stage));
    if (held->place != kernel::Hold::shared || !there || held->until < stage) continue;
    if (band_of(program_.at(id).axes) != band.axes) continue;
    kept.push_back(id);
  }
  for (const ItemId id : early) {
    if (!is_array(id) && !is_copied(id, stage)) {
      keep_for_sweep(id);
      out_.line("{} {}{};", storage_type(program_.at(id).dtype), name(id), array_dims(program_.at(id).axes));
    }
  }
  for (const ItemId id : kept) {
    const Item& item = program_.at(id);
    keep_for_sweep(id);
    out_.line("{} {}{};", item.kind == Item::Kind::load ? storage_type(item.dtype) : compute_type(item.dtype), name(id),
              array_dims(item.axes));
  }
  // Items of this band that a band with more axes will use outlive its loops.
  for (const ItemId id : band.items) {
    const bool local =
        program_.at(id).kind == Item::Kind::load && std::find(early.begin(), early.end(), id) != early.end();
    if (local || is_array(id) || band.axes == 0) continue;
    const bool outlives =
        std::any_of(group_.sweeps[stage].body.begin(), group_.sweeps[stage].body.end(), [&](ItemId user) {
          if (band_of(program_.at(user).axes) == band.axes) return false;
          const std::vector<ItemId> needs = kernel::dependencies(program_, user);
          return std::find(needs.begin(), needs.end(), id) != needs.end();
        });
    const bool anchor_needs =
        std::any_of(group_.sweeps[stage].anchors.begin(), group_.sweeps[stage].anchors.end(), [&](int a) {
          const Anchor& it = anchor(a);
          const std::vector<ItemId> needs = kernel::roots_of(program_, it);
          return band_of(it.axes) != band.axes && std::find(needs.begin(), needs.end(), id) != needs.end();
        });
    const bool shared_here = is_kept_in_shared(id) && held_.at(id)->from == stage;
    if (!outlives && !anchor_needs && !shared_here) continue;
    keep_for_sweep(id);
    const Item& item = program_.at(id);
    out_.line("{} {}{};", item.kind == Item::Kind::load ? storage_type(item.dtype) : compute_type(item.dtype), name(id),
              array_dims(item.axes));
  }

  const std::string guard = band_guard(band);
  const int depth = out_.depth();
  bool registers = false;
  for (std::size_t a = 0; a < group_.extents.size(); ++a)
    registers = registers || (has(band.axes, a) && group_.extent(a, Level::reg) > 1);
  std::vector<ItemId> direct;
  for (const ItemId id : early) {
    if (is_copied(id, stage)) continue;
    if (is_found(id))
      emit_found_load(band, id);
    else
      direct.push_back(id);
  }
  const bool loads = !direct.empty() || !kept.empty();
  if (loads) {
    open_register_loops(band.axes);
    if (!guard.empty()) out_.open("if ({})", guard);
    for (const ItemId id : direct) emit_vector_load(id);
    for (const ItemId id : kept) emit_from_shared(id, kept_place(id));
    if (registers) out_.close(out_.depth() - depth);
  }
  if (registers || !loads) {
    open_register_loops(band.axes);
    if (!guard.empty()) out_.open("if ({})", guard);
  }
  // Loads that must wait in shared memory for later sweeps.
  for (const ItemId id : early) {
    if (is_copied(id, stage)) continue;
    if (is_kept_in_shared(id) && held_.at(id)->from == stage) {
      emit_to_shared(id, kept_place(id));
    } else if (group_.retention(id) != nullptr && !is_found(id)) {
      out_.open("if ({})", round_is_retained(id));
      emit_to_shared(id, retained_place(id));
      out_.close();
    }
  }
  emit_element_step(band, early, stage, vector);
  out_.close(out_.depth() - depth);
}

/// The arithmetic of one band: one element, or all elements of a vector.
void GroupEmitter::emit_element_step(const Band& band, const std::vector<ItemId>& early, int stage, bool vector) {
  std::vector<int> vector_stores;
  bool anything = false;
  for (const ItemId id : band.items) anything = anything || std::find(early.begin(), early.end(), id) == early.end();
  for (const int a : band.anchors) {
    anything = true;
    if (vector && anchor(a).kind == Anchor::Kind::store && group_.stores[a][0].width > 1) {
      vector_stores.push_back(a);
      out_.line("{} result_{}[{}];", storage_type(anchor(a).dtype), a, vector_extent());
    }
  }
  if (!anything) return;
  if (vector) {
    out_.line("#pragma unroll");
    out_.open("for (int v = 0; v < {}; ++v)", vector_extent());
  }
  for (const ItemId id : band.items) {
    if (std::find(early.begin(), early.end(), id) != early.end()) continue;
    const Item& item = program_.at(id);
    if (is_array(id)) {
      const std::string target = name(id) + array_subscript(arrays_.at(id), vector);
      if (item.kind == Item::Kind::load) {
        // Kept in its storage type; scalar_load would widen it.
        out_.line("{} = narrow<{}>({});", target, storage_type(item.dtype), item_expression(id, vector));
      } else {
        out_.line("{} = {};", target, item_expression(id, vector));
      }
    } else {
      out_.line("const {} {} = {};", compute_type(item.dtype), name(id), item_expression(id, vector));
    }
  }
  for (const int a : band.anchors) {
    if (std::find(vector_stores.begin(), vector_stores.end(), a) != vector_stores.end()) {
      out_.line("result_{}[v] = {};", a, stored_value(anchor(a), true));
    } else if (anchor(a).kind == Anchor::Kind::store || anchor(a).kind == Anchor::Kind::atomic) {
      emit_element(a, vector);
    } else {
      emit_accumulate(a, vector);
    }
  }
  if (vector) out_.close();
  for (const int a : vector_stores) emit_vector_store(a);
  for (const ItemId id : band.items) {
    if (std::find(early.begin(), early.end(), id) != early.end() || !is_kept_in_shared(id) ||
        held_.at(id)->from != stage)
      continue;
    emit_to_shared(id, kept_place(id));
  }
}

/// The value of a store's item in the type of its buffer.
std::string GroupEmitter::stored_value(const Anchor& it, bool element) const {
  const std::string text = value(it.items[0], element), type = storage_type(it.dtype);
  const bool same = program_.at(it.items[0]).dtype == it.dtype && compute_type(it.dtype) == type;
  return same ? text : fmt::format("narrow<{}>({})", type, text);
}

/// Stores an element, or combines it into what is there.
void GroupEmitter::emit_element(int number, bool element) {
  const Anchor& it = anchor(number);
  std::string guard = replica_guard(it.axes);
  const auto add = [&](const std::string& text) { guard += (guard.empty() ? "" : " && ") + text; };
  if (element && vector_tail_by_element()) {
    const std::size_t axis = group_.mapping.vector_axis;
    if (has(it.axes, axis)) add(in_range(axis, true));
  }
  if (it.guard >= 0) add(value(it.guard, element));
  if (const std::string own = block_guard(it.buffers[0]); !own.empty()) add(own);
  if (!guard.empty()) out_.open("if ({})", guard);
  const std::string pointer = pointer_of(it.buffers[0]);
  const std::string index = index_text(it.addresses[0], element, is_wide(it.addresses[0]));
  if (it.kind == Anchor::Kind::atomic) {
    const auto& scatter = graph_.node(it.node).as<graph::ScatterAttributes>();
    out_.line("{}::combine_atomically({} + {}, {});", combiner(scatter.combiner), pointer, index,
              value(it.items[0], element));
  } else if (is_kept(it.buffers[0]) && context_.copies > 1) {
    out_.line("const {} shared_{} = {};", storage_type(it.dtype), number, stored_value(it, element));
    out_.line("store_in_cluster<{}, 1>({} + {}, &shared_{});", context_.copies, pointer, index, number);
  } else {
    const std::string stored = stored_value(it, element);
    if (is_passing(it.buffers[0]))
      out_.line("store_one<Written::passing>({} + {}, {});", pointer, index, stored);
    else
      out_.line("{}[{}] = {};", pointer, index, stored);
  }
  if (!guard.empty()) out_.close();
}

void GroupEmitter::emit_vector_store(int number) {
  const Anchor& it = anchor(number);
  const kernel::Access& access = group_.stores[number][0];
  std::string guard = replica_guard(it.axes);
  if (it.guard >= 0) guard += (guard.empty() ? "" : " && ") + value(it.guard, false);
  if (const std::string own = block_guard(it.buffers[0]); !own.empty()) guard += (guard.empty() ? "" : " && ") + own;
  if (!guard.empty()) out_.open("if ({})", guard);
  const bool everywhere = is_kept(it.buffers[0]) && context_.copies > 1;
  const std::string copies = everywhere ? fmt::format("{}, ", context_.copies) : "";
  const std::string_view where = everywhere ? "_in_cluster" : "";
  const std::string_view how = is_passing(it.buffers[0]) ? ", Written::passing" : "";
  const std::size_t axis = group_.mapping.vector_axis;
  for (std::int64_t at = 0; at < vector_extent(); at += access.width) {
    const std::string to =
        fmt::format("{} + {}", pointer_of(it.buffers[0]), index_text(it.addresses[0], false, is_wide(it.addresses[0])));
    const std::string shift = at == 0 ? "" : fmt::format(" + {}", at);
    if (group_.shift && vector_tail_by_element()) {
      out_.line("store_part<{}{}>({}{}, result_{}{}, {});", access.width, how, to, shift, number, shift,
                part_bounds(at));
    } else if (vector_tail_by_element()) {
      out_.line("store_tail{}<{}{}{}>({}{}, result_{}{}, {} - {}{});", where, copies, access.width, how, to, shift,
                number, shift, extent_text(axis), axis_name(axis), at == 0 ? "" : fmt::format(" - {}", at));
    } else {
      out_.line("store{}<{}{}{}>({}{}, result_{}{});", where, copies, access.width, how, to, shift, number, shift);
    }
  }
  if (!guard.empty()) out_.close();
}

}  // namespace stitch::codegen
