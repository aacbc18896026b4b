#include "search/schedule/mapping_space.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "search/schedule/access_pattern.h"
#include "search/schedule/fixed_rows.h"
#include "search/schedule/partial_loops.h"
#include "search/schedule/thread_layout.h"
#include "search/schedule/vector_choice.h"

namespace stitch::search {
namespace {

/// A group's axes by role.
struct Roles {
  std::vector<std::int64_t> extents;
  kernel::AxisSet local;    ///< reduced inside the tile
  kernel::AxisSet partial;  ///< reduced across tiles
  bool has_partials = false;
};

Roles roles_of(const kernel::GroupStructure& group, std::int64_t partials) {
  Roles roles;
  roles.extents = group.program->axes().extents;
  if (group.partial_axis >= 0) roles.extents[group.partial_axis] = partials;
  if (group.slab_axis >= 0) roles.extents[group.slab_axis] = 1;
  for (const kernel::Anchor& anchor : group.anchors) {
    if (anchor.kind == kernel::Anchor::Kind::reduce) roles.local |= anchor.reduced;
    if (anchor.kind == kernel::Anchor::Kind::partial) {
      roles.partial |= anchor.reduced;
      roles.has_partials = true;
    }
  }
  roles.partial -= roles.local;
  return roles;
}

/// Sets the grid extents so that every axis is covered.
void cover(std::vector<kernel::AxisMapping>& mapping, const std::vector<std::int64_t>& extents) {
  for (std::size_t a = 0; a < extents.size(); ++a) {
    mapping[a].at(kernel::Level::grid) = 1;
    mapping[a].at(kernel::Level::grid) = divide_up(extents[a], mapping[a].step(kernel::Level::grid));
  }
}

class Enumerator {
 public:
  Enumerator(const kernel::GroupStructure& group, const MappingSpaceOptions& options, const DeviceSpec& device)
      : group_(group),
        options_(options),
        device_(device),
        cluster_(options.one_tile ? 1 : options.cluster),
        roles_(roles_of(group, options.partials)),
        vector_(choose_vector(group)) {
    if (group.program->graph().constraints.batch_invariant) fixed_vector_ = fixed_row_vector(group);
    // An axis without elements is walked once, behind a guard that lets nothing through.
    for (std::int64_t& extent : roles_.extents) extent = std::max<std::int64_t>(extent, 1);
    if (options.one_tile && options.cluster > 1) share_axis();
    if (roles_.extents.empty()) return;
    repeats_ = find_repeats(group_, roles_.extents, roles_.local | kernel::AxisSet::of(vector_axis()));
    crosses_ = crosses(group_, roles_.extents, vector_axis());
    interleaves_ =
        roles_.has_partials && !options.one_tile && !crosses_ && !overlaps(group_, roles_.extents, roles_.partial);
  }

  std::vector<kernel::GroupMapping> enumerate() {
    const std::size_t axes = roles_.extents.size();
    if (axes == 0) {
      out_.push_back({});
      return out_;
    }
    if (group_.anchors[0].kind == kernel::Anchor::Kind::scan) {
      enumerate_scan(group_.anchors[0]);
      return out_;
    }
    if (group_.anchors[0].kind == kernel::Anchor::Kind::sort) {
      enumerate_sort(group_.anchors[0]);
      return out_;
    }
    if (group_.anchors[0].kind == kernel::Anchor::Kind::scatter) {
      enumerate_scatter(group_.anchors[0]);
      return out_;
    }
    if (fixed_vector_) {
      // Few lanes are as good as any where the row says how many there are.
      sparse_ = true;
      enumerate_widths();
      std::erase_if(out_, [&](const kernel::GroupMapping& mapping) { return !keeps_rows_fixed(group_, mapping); });
      return out_;
    }
    enumerate_widths();
    enumerate_shifted();
    if (out_.empty()) {
      // A tensor too small to fill a warp has nothing but sparse mappings.
      sparse_ = true;
      enumerate_widths();
    }
    if (options_.one_tile) enumerate_products();
    return out_;
  }

 private:
  /// The blocks of a cluster that has the tile to itself share the longest axis along which nothing is reduced; every
  /// block computes all where there is none that is long enough.
  void share_axis() {
    constexpr std::int64_t least = 4;  // elements of a block
    // What walks a whole tensor, and what adds to what is there, is stored in the block's own memory.
    const bool by_each = std::any_of(group_.anchors.begin(), group_.anchors.end(), [](const kernel::Anchor& anchor) {
      return anchor.kind != kernel::Anchor::Kind::store && anchor.kind != kernel::Anchor::Kind::reduce;
    });
    if (by_each) return;
    for (int a = 0; a < axis_count(); ++a) {
      const std::int64_t extent = roles_.extents[a];
      if (roles_.local.contains(a) || extent % options_.cluster != 0 || extent < least * options_.cluster) continue;
      if (shared_axis_ < 0 || extent > roles_.extents[shared_axis_]) shared_axis_ = a;
    }
    if (shared_axis_ >= 0) roles_.extents[shared_axis_] /= options_.cluster;
  }

  void enumerate_widths() {
    for (const std::int64_t width : vector_widths()) {
      width_ = width;
      if (!roles_.local.empty()) {
        enumerate_rows();
      } else {
        enumerate_flat();
      }
    }
  }

  /// Rows are covered as if they were longer by what their vectors may begin before them.
  void enumerate_shifted() {
    if (vector_.shifted_width == 1 || options_.one_tile) return;
    width_ = vector_.shifted_width;
    shifted_ = true;
    roles_.extents[vector_axis()] += width_ - 1;
    roles_.local.empty() ? enumerate_flat() : enumerate_rows();
    roles_.extents[vector_axis()] -= width_ - 1;
    shifted_ = false;
  }

  [[nodiscard]] std::vector<std::int64_t> vector_widths() const {
    if (fixed_vector_) return {std::min<std::int64_t>(*fixed_vector_, vector_.axis < 0 ? 1 : vector_.width)};
    if (vector_.axis < 0 || vector_.width == 1) return {1};
    std::vector<std::int64_t> widths = {vector_.width};
    if (options_.wide && vector_.width > 2) widths.push_back(vector_.width / 2);
    if (vector_.axis >= 0 && roles_.extents[vector_.axis] <= vector_.width) widths.push_back(1);
    return widths;
  }

  [[nodiscard]] int axis_count() const { return roles_.extents.size(); }

  [[nodiscard]] int vector_axis() const {
    if (vector_.axis >= 0) return vector_.axis;
    // The innermost, but of slabs a tile has one.
    const int last = axis_count() - 1;
    return last > 0 && group_.slab_axis == last ? last - 1 : last;
  }

  [[nodiscard]] ThreadLayout fresh() const {
    ThreadLayout layout(roles_.extents.size());
    layout.mapping()[vector_axis()].at(kernel::Level::vector) = width_;
    return layout;
  }

  /// Elements of an axis still to be covered by threads and registers.
  [[nodiscard]] std::int64_t runs(int axis) const {
    return divide_up(roles_.extents[axis], axis == vector_axis() ? width_ : 1);
  }

  /// Axes in the order in which they are given what is left: innermost first.
  [[nodiscard]] std::vector<int> inner_first(kernel::AxisSet axes) const {
    axes.erase(vector_axis());
    std::vector<int> order(axes.begin(), axes.end());
    std::ranges::reverse(order);
    return order;
  }

  [[nodiscard]] kernel::AxisSet all_axes() const { return kernel::AxisSet::first(axis_count()); }

  /// Gives the rest of the block's threads to `order`, as far as their extents go.
  void spread(ThreadLayout& layout, const std::vector<int>& order) const {
    for (const int a : order) {
      const std::int64_t left = options_.threads / layout.total();
      if (left <= 1) return;
      layout.give(a, std::min(left, power_above(runs(a))));
    }
  }

  void add(ThreadLayout& layout, kernel::Hold hold) {
    kernel::GroupMapping mapping;
    mapping.axes = layout.mapping();
    mapping.vector_axis = vector_axis();
    mapping.hold = hold;
    mapping.shifted = shifted_;
    mapping.tensor_cores = tensor_cores_;
    cover(mapping.axes, roles_.extents);
    if (shared_axis_ >= 0) mapping.axes[shared_axis_].at(kernel::Level::cluster) = options_.cluster;
    for (kernel::AxisMapping& axis : mapping.axes) {
      if (options_.one_tile) axis.at(kernel::Level::loop) *= std::exchange(axis.at(kernel::Level::grid), 1);
    }
    if (interleaves_) {
      for (const int a : roles_.partial) mapping.axes[a].interleaved = mapping.axes[a].at(kernel::Level::loop) > 1;
    }
    if (std::find(out_.begin(), out_.end(), mapping) != out_.end()) return;
    out_.push_back(mapping);
    if (!options_.loads_ahead || !loads_in_loop(mapping)) return;
    mapping.stages = 2;
    out_.push_back(std::move(mapping));
  }

  /// Whether a loop may have loads that can be made a turn ahead: of something that changes along it. Of what is copied
  /// to shared memory all turns of a loop are on their way as it is.
  [[nodiscard]] bool loads_in_loop(const kernel::GroupMapping& mapping) const {
    if (options_.one_tile || group_.anchors[0].has_own_loops()) return false;
    kernel::AxisSet looped;
    for (int a = 0; a < axis_count(); ++a) {
      if (mapping.axes[a].at(kernel::Level::loop) > 1) looped.insert(a);
    }
    return std::ranges::any_of(group_.program->items(), [&](const kernel::Item& item) {
      return item.kind == kernel::Item::Kind::load && item.axes.meets(looped) && item.guard < 0;
    });
  }

  // ---- scatter ---------------------------------------------------------------------------------------------

  /// Elements that a thread has in registers while it searches for their updates: with more, blocks of 1,024 threads
  /// spill.
  static constexpr std::int64_t most_searched_for = 16;

  /// A warp along the contiguous axis, other axes on warps and grid; what the anchor combines over is looped by every
  /// thread, once for all of its elements: many share that work, few give more blocks. Of updates that are searched a
  /// warp may have several places, for which it looks at once, and of single elements also one place, whose updates its
  /// lanes load.
  void enumerate_scatter(const kernel::Anchor& anchor) {
    std::vector<int> kept = inner_first(all_axes() - anchor.reduced);
    int lanes = vector_axis();
    // Where only updates are contiguous, lanes along them would all do the same.
    if (anchor.reduced.contains(lanes) && !kept.empty()) {
      lanes = kept.front();
      kept.erase(kept.begin());
    }
    const bool searched = anchor.items.size() > 3;
    const kernel::AxisSet placed = group_.program->at(anchor.items[1]).axes - anchor.reduced;
    const std::int64_t runs = divide_up(roles_.extents[lanes], 32);
    for (const std::int64_t elements : {32, 8, 1}) {
      const std::int64_t each = std::min(runs, elements);
      for (const std::int64_t places : {1, 4, 8}) {
        if (searched && elements > 1 && each * places > most_searched_for) continue;
        if (places > 1 && (!searched || placed.contains(lanes) || kept.empty())) continue;
        if (places > 1 && roles_.extents[kept.front()] < 32 * places) continue;
        ThreadLayout layout = fresh();          // width_ is 1
        if (!anchor.reduced.contains(lanes)) {  // of a single element one thread is enough
          layout.give(lanes, 32);
          layout.mapping()[lanes].at(kernel::Level::reg) = each;
          if (places > 1) layout.mapping()[kept.front()].at(kernel::Level::reg) = places;
          spread(layout, kept);
          const std::int64_t left = options_.threads / layout.total();
          if (left > 1) layout.give(lanes, std::min(left, power_above(divide_up(runs, each))));
        }
        add_scatter(anchor, layout);
      }
    }
    if (!searched || !placed.contains(lanes)) return;
    ThreadLayout layout = fresh();
    for (const int a : anchor.reduced) layout.give(a, 32);
    kept.insert(kept.begin(), lanes);
    spread(layout, kept);
    add_scatter(anchor, layout);
  }

  void add_scatter(const kernel::Anchor& anchor, ThreadLayout& layout) {
    for (const int a : anchor.reduced) loop_over(layout, a);
    add(layout, kernel::Hold::registers);
  }

  void loop_over(ThreadLayout& layout, int axis) const {
    kernel::AxisMapping& mapping = layout.mapping()[axis];
    mapping.at(kernel::Level::loop) = divide_up(roles_.extents[axis], mapping.step(kernel::Level::loop));
  }

  // ---- scan ------------------------------------------------------------------------------------------------

  /// The innermost of the scanned axes is walked by threads, the others line by line. Where it is contiguous, 32 lanes
  /// lie along it, each with a vector; else lanes lie along what is contiguous, each with a few rows. One warp has a
  /// line (or 32), or all of a block have.
  void enumerate_scan(const kernel::Anchor& anchor) {
    int walked = -1;
    for (const int a : anchor.reduced) walked = a;
    if (walked < 0) return add_scan(anchor, walked, false, 1, 1);  // one element, which is no axis
    const bool by_lanes = vector_axis() == walked;
    const std::int64_t warps = options_.threads / 32;
    // Of several axes every line must be walked to its end: what is beyond it would be carried on.
    const bool whole = std::ranges::count_if(anchor.reduced, [&](int a) { return roles_.extents[a] > 1; }) > 1;
    std::vector<std::int64_t> runs = {8, 4, 16, 1};
    if (by_lanes) runs = {vector_.width, vector_.width / 2, 1};
    for (const std::int64_t run : runs) {
      if (run < 1 || (by_lanes && roles_.extents[walked] % run != 0)) continue;
      if (run > 1 && !by_lanes && run >= 2 * roles_.extents[walked]) continue;
      for (const std::int64_t of_line : {warps, std::int64_t{1}}) {
        const std::int64_t each = run * of_line * (by_lanes ? 32 : 1);
        if (of_line > 1 && each >= 2 * power_above(roles_.extents[walked])) continue;
        if (whole && roles_.extents[walked] % each != 0) continue;
        add_scan(anchor, walked, by_lanes, run, of_line);
      }
    }
    if (out_.empty()) add_scan(anchor, walked, false, 1, 1);
  }

  void add_scan(const kernel::Anchor& anchor, int walked, bool by_lanes, std::int64_t run, std::int64_t warps) {
    width_ = by_lanes ? run : 1;
    ThreadLayout layout = fresh();
    const std::vector<int> others = inner_first(all_axes() - anchor.reduced);
    if (by_lanes) {
      layout.give(walked, 32);
    } else {
      if (walked >= 0) layout.mapping()[walked].at(kernel::Level::reg) = run;
      std::vector<int> order = others;
      if (!anchor.reduced.contains(vector_axis())) order.insert(order.begin(), vector_axis());
      // A warp's lanes; all of them where warps share lines, whose places in shared memory the lanes are.
      for (const int a : order) {
        if (layout.total() < 32) layout.give(a, std::min(32 / layout.total(), power_above(runs(a))));
      }
      if (warps > 1 && layout.total() < 32) return;
    }
    if (warps > 1) {
      layout.give(walked, warps);
    } else if (layout.total() >= 32) {
      spread(layout, others);
    }
    for (const int a : anchor.reduced) loop_over(layout, a);
    add(layout, kernel::Hold::registers);
  }

  // ---- sort ------------------------------------------------------------------------------------------------

  /// Threads lie along the sorted line first, each with a few of its elements, and then along others. Fewer elements a
  /// thread are more ways through shared memory, more of them fewer threads; a step of the network takes two.
  void enumerate_sort(const kernel::Anchor& anchor) {
    if (options_.one_tile || options_.cluster > 1) return;  // a block takes whole lines
    std::int64_t length = 1;
    int walked = -1;
    for (const int a : anchor.reduced) {
      length *= roles_.extents[a];
      walked = a;
    }
    const std::int64_t padded = power_above(length);
    for (const std::int64_t elements : {8, 16, 4, 2, 32}) {
      const std::int64_t of_line = std::max<std::int64_t>(padded / elements, 1);
      if (of_line > options_.threads || of_line * elements > 2 * padded) continue;
      add_sort(anchor, walked, of_line);
    }
  }

  void add_sort(const kernel::Anchor& anchor, int walked, std::int64_t of_line) {
    width_ = 1;
    ThreadLayout layout = fresh();
    if (walked >= 0) layout.give(walked, of_line);
    kernel::AxisSet rows = all_axes() - anchor.reduced;
    const std::vector<int> others(rows.begin(), rows.end());
    spread(layout, {others.rbegin(), others.rend()});
    for (const int a : anchor.reduced) {
      const std::int64_t covered = a == walked ? of_line : 1;
      layout.mapping()[a].at(kernel::Level::reg) = divide_up(roles_.extents[a], covered);
    }
    add(layout, kernel::Hold::registers);
    for (kernel::GroupMapping& mapping : out_) mapping.vector_axis = walked >= 0 ? walked : mapping.vector_axis;
  }

  // ---- sums by tensor cores ---------------------------------------------------------------------------------

  /// What is left to threads is element-wise: vectors and lanes along the columns, warps along rows, several rows a
  /// thread or one after the other.
  void enumerate_products() {
    const std::vector<kernel::StateProducts> products = kernel::find_state_products(group_);
    if (products.empty()) return;
    const int columns = products[0].column_axis, rows = products[0].row_axis;
    if (roles_.extents[rows] < kernel::StateProducts::least_rows) return;
    tensor_cores_ = true;
    for (const kernel::StateProducts& product : products) roles_.extents[product.depth_axis] = 1;
    constexpr std::int64_t most = 4;  // f32 of an access
    std::int64_t width = vector_.axis == columns ? vector_.width : most;
    vector_.axis = columns;
    for (; width >= 1; width /= 2) {
      if (roles_.extents[columns] % width != 0) continue;
      width_ = width;
      const std::int64_t all = std::min<std::int64_t>(options_.threads, power_above(runs(columns)));
      for (const std::int64_t share : {all, all / 2}) {
        if (share < 1) continue;
        for (const std::int64_t unroll : {1, 2, 4}) {
          ThreadLayout layout = fresh();
          layout.give(columns, share);
          spread(layout, inner_first(all_axes()));
          kernel::AxisMapping& several = layout.mapping()[rows];
          if (several.step(kernel::Level::reg) * unroll > power_above(roles_.extents[rows])) continue;
          several.at(kernel::Level::reg) = unroll;
          add(layout, kernel::Hold::registers);
        }
      }
    }
    tensor_cores_ = false;
  }

  // ---- no reduction ends in the tile ------------------------------------------------------------------------

  void enumerate_flat() {
    const int v = vector_axis();
    std::vector<std::int64_t> shares = {std::min<std::int64_t>(options_.threads, power_above(runs(v)))};
    if (roles_.has_partials || options_.wide) {
      for (const std::int64_t share : {8, 16, 32, 64, 128}) {
        if (share < shares[0]) shares.push_back(share);
      }
    }
    // With few lanes along the vectors, those along the axis that is contiguous elsewhere fill a sector there.
    if (crosses_) {
      for (const std::int64_t share : {4, 2}) {
        if (share < shares[0]) shares.push_back(share);
      }
    }
    std::vector<std::int64_t> unrolls = {1, 2, 4};
    if (!options_.wide && (roles_.has_partials || repeats_.axes.empty()))
      unrolls = roles_.has_partials ? std::vector<std::int64_t>{4} : std::vector<std::int64_t>{1, 2};
    // A window's dozens of loads, for 32 elements each, are code that takes minutes to compile and spills.
    constexpr std::int64_t most_statements = 8192;
    const std::int64_t statements = group_.program->item_count() * width_;
    std::erase_if(unrolls, [&](std::int64_t unroll) { return unroll > 1 && statements * unroll > most_statements; });
    if (unrolls.empty()) unrolls = {1};
    for (const std::int64_t share : shares) {
      for (const std::int64_t unroll : unrolls) {
        ThreadLayout layout = fresh();
        layout.give(v, share);
        spread(layout, inner_first(roles_.partial));
        spread(layout, inner_first(all_axes() - roles_.partial));
        if (!unroll_flat(layout, unroll)) continue;
        if (roles_.has_partials)
          loop_partials(layout.mapping(), roles_.extents, roles_.partial, options_.partial_tiles, interleaves_);
        add(layout, kernel::Hold::registers);
      }
    }
  }

  /// Several elements a thread, so that their loads are in flight together: along the partial axis if there is one,
  /// else along one on which operands repeat, for which one load does then, else along the vector axis, else along the
  /// innermost other.
  bool unroll_flat(ThreadLayout& layout, std::int64_t unroll) const {
    if (unroll == 1) return true;
    std::vector<int> order = inner_first(roles_.partial);
    if (roles_.partial.contains(vector_axis())) order.push_back(vector_axis());
    if (!roles_.has_partials) {
      // Of shifted rows a thread takes one at a time.
      const kernel::AxisSet others = shifted_ ? kernel::AxisSet() : all_axes();
      order = inner_first(others & repeats_.axes);
      order.push_back(vector_axis());
      const auto rest = inner_first(others - repeats_.axes);
      order.insert(order.end(), rest.begin(), rest.end());
    }
    for (const int a : order) {
      kernel::AxisMapping& m = layout.mapping()[a];
      if (m.step(kernel::Level::reg) * unroll <= power_above(roles_.extents[a])) {
        m.at(kernel::Level::reg) = unroll;
        return true;
      }
    }
    return false;
  }

  // ---- reductions that end in the tile ----------------------------------------------------------------------

  void enumerate_rows() {
    std::int64_t row = 1;
    for (const int a : roles_.local) row *= runs(a);
    const bool walks_row = roles_.local.contains(vector_axis());
    for (std::int64_t per_row = 1; per_row <= options_.threads; per_row *= 2) {
      const std::int64_t share = divide_up(row, per_row * cluster_);  // vectors (or elements) a thread
      if (per_row > 1 && per_row >= 2 * power_above(row)) break;
      if (share > 4096) continue;
      if (walks_row) {
        enumerate_row(per_row, 1);
      } else {
        for (const std::int64_t beside : {4, 8, 16, 32, 64}) {
          const bool narrow = beside < 2 * power_above(runs(vector_axis())) || sparse_;
          if (beside * per_row <= options_.threads && narrow) enumerate_row(per_row, beside);
        }
      }
    }
  }

  /// `per_row` threads reduce a row together; `beside` threads stand along the vector axis when rows do not.
  void enumerate_row(std::int64_t per_row, std::int64_t beside) {
    ThreadLayout layout = fresh();
    const int v = vector_axis();
    if (!roles_.local.contains(v)) layout.give(v, beside);
    std::int64_t left = per_row;
    std::vector<int> order = inner_first(roles_.local);
    if (roles_.local.contains(v)) order.insert(order.begin(), v);
    for (const int a : order) {
      const std::int64_t threads = std::min(left, power_above(runs(a)));
      layout.give(a, threads);
      left /= threads;
    }
    if (left > 1) return;
    spread(layout, inner_first(all_axes() - roles_.local));
    if (!roles_.local.contains(v)) spread(layout, {v});
    if (!sparse_ && layout.total() < options_.threads / 2 && layout.total() < 32) return;
    if (cluster_ > 1) {
      // The longest row axis is split over the cluster.
      int longest = order[0];
      for (const int a : order) {
        if (runs(a) / layout.mapping()[a].threads() > runs(longest) / layout.mapping()[longest].threads()) longest = a;
      }
      layout.mapping()[longest].at(kernel::Level::cluster) = cluster_;
    }
    for (const kernel::Hold hold :
         {kernel::Hold::registers, kernel::Hold::shared, kernel::Hold::shared_least, kernel::Hold::reload})
      place_row(layout, order, hold, hold == kernel::Hold::registers);
    // Column results of a long row need every element's place fixed, but not its value in a register.
    if (roles_.has_partials) place_row(layout, order, kernel::Hold::shared, true);
  }

  void place_row(ThreadLayout layout, const std::vector<int>& order, kernel::Hold hold, bool unrolled) {
    std::int64_t each = 1;
    for (const int a : order) {
      kernel::AxisMapping& m = layout.mapping()[a];
      const std::int64_t cluster = m.at(kernel::Level::cluster);
      m.at(kernel::Level::cluster) = 1;
      std::int64_t iterations = divide_up(roles_.extents[a], m.step(kernel::Level::reg) * cluster);
      each *= iterations;
      if (unrolled) {
        m.at(kernel::Level::reg) = iterations;
      } else {
        // A few vectors at a time, the rest in a loop. Single elements need more of them for enough bytes in flight,
        // even if the last iteration is cut short then.
        const std::int64_t even = iterations % 4 == 0 ? 4 : iterations % 2 == 0 ? 2 : 1;
        const std::int64_t unroll = std::min(iterations, width_ == 1 && a == vector_axis() ? 8 : even);
        m.at(kernel::Level::reg) = unroll;
        m.at(kernel::Level::loop) = divide_up(iterations, unroll);
      }
      m.at(kernel::Level::cluster) = cluster;
    }
    if (unrolled && each * width_ > 96) return;
    if (!unrolled && each * width_ < 32) return;  // it would fit registers
    if (group_.sweep_count < 2 && hold == kernel::Hold::shared) return;
    if (group_.sweep_count < 3 && hold == kernel::Hold::shared_least)
      return;  // at most one value of a row is held in any case
    if (roles_.has_partials)
      loop_partials(layout.mapping(), roles_.extents, roles_.partial, options_.partial_tiles, interleaves_);
    add(layout, hold);
    if (unrolled && !roles_.has_partials) several_rows(layout, hold, each * width_);
  }

  /// Several rows a thread, for which what repeats along them is loaded once: side by side in registers where they are
  /// short, one after the other where enough blocks are left for an SM to load one's row while others compute.
  void several_rows(const ThreadLayout& layout, kernel::Hold hold, std::int64_t each) {
    const std::vector<int> order = inner_first(repeats_.axes - roles_.local);
    if (order.empty()) return;
    // Along the axis on which most repeats: positions do along a batch, gains along both.
    const int along = *std::ranges::max_element(order, {}, [&](int a) { return repeats_.tensors[a]; });
    std::int64_t tiles = 1;
    for (const int a : all_axes()) tiles *= divide_up(roles_.extents[a], layout.mapping()[a].step(kernel::Level::grid));
    const auto with = [&](kernel::Level level, std::int64_t rows) {
      ThreadLayout several = layout;
      kernel::AxisMapping& mapping = several.mapping()[along];
      if (mapping.step(kernel::Level::grid) * rows > roles_.extents[along]) return false;
      mapping.at(level) = rows;
      add(several, hold);
      return true;
    };
    bool beside = false;
    for (const std::int64_t rows : {4, 2}) {
      if (each * rows > 48 || shifted_) continue;
      beside = with(kernel::Level::reg, rows) || beside;
      if (beside && !options_.wide) return;
    }
    const std::int64_t enough =
        std::int64_t{device_.sm_count} * std::max(1, device_.threads_per_sm / 2 / options_.threads);
    for (const std::int64_t rows : options_.wide ? std::vector<std::int64_t>{2, 4, 8} : std::vector<std::int64_t>{4}) {
      if (tiles >= rows * enough) with(kernel::Level::loop, rows);
    }
  }

  const kernel::GroupStructure& group_;
  const MappingSpaceOptions& options_;
  const DeviceSpec& device_;
  const int cluster_;  ///< among whose blocks the reduced axes are split
  Roles roles_;
  VectorChoice vector_;
  std::optional<std::int64_t> fixed_vector_;  ///< of rows that are mapped in one way only
  Repeats repeats_;       ///< of tensors that are read along the vectors, and along what is reduced in the tile
  bool crosses_ = false;  ///< something large is contiguous along another axis
  /// Blocks that loop over partial axes walk along them together, so that a later phase finds in L2 what all of them
  /// have read last. Not where a block finds in L1 what it asked for a turn before: the rest of a sector, or of a
  /// window.
  bool interleaves_ = false;
  std::int64_t width_ = 1;
  int shared_axis_ = -1;       ///< share_axis(); roles_ has a block's part of it
  bool sparse_ = false;        ///< also mappings that leave most of a warp idle
  bool shifted_ = false;       ///< rows are shifted; roles_ has the longer ones
  bool tensor_cores_ = false;  ///< what is contracted is on no level; it has an extent of 1 in roles_
  std::vector<kernel::GroupMapping> out_;
};

}  // namespace

std::vector<kernel::GroupMapping> enumerate_mappings(const kernel::GroupStructure& group,
                                                     const MappingSpaceOptions& options, const DeviceSpec& device) {
  return Enumerator(group, options, device).enumerate();
}

}  // namespace stitch::search
