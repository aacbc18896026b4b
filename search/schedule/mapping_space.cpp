#include "search/schedule/mapping_space.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <utility>

namespace stitch::search {
namespace {

bool has(std::uint64_t mask, std::size_t axis) { return ((mask >> axis) & 1) != 0; }

std::int64_t power_above(std::int64_t n) {
  return std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1)));
}
std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// A group's axes by role.
struct Roles {
  std::vector<std::int64_t> extents;
  std::uint64_t local = 0;    ///< reduced inside the tile
  std::uint64_t partial = 0;  ///< reduced across tiles
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
  roles.partial &= ~roles.local;
  return roles;
}

/// Hands out a block's threads to axes: lanes until a warp is full, then warps.
class ThreadLayout {
 public:
  explicit ThreadLayout(std::size_t axes) : mapping_(axes) {}

  /// Gives `threads` (a power of two) to an axis.
  void give(std::size_t axis, std::int64_t threads) {
    const std::int64_t lane = std::min(threads, 32 / lanes_);
    mapping_[axis].at(kernel::Level::lane) *= lane;
    mapping_[axis].at(kernel::Level::warp) *= threads / lane;
    lanes_ *= lane;
    total_ *= threads;
  }
  [[nodiscard]] std::int64_t total() const { return total_; }
  [[nodiscard]] std::vector<kernel::AxisMapping>& mapping() { return mapping_; }
  [[nodiscard]] const std::vector<kernel::AxisMapping>& mapping() const { return mapping_; }

 private:
  std::vector<kernel::AxisMapping> mapping_;
  std::int64_t lanes_ = 1, total_ = 1;
};

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
    // An axis without elements is walked once, behind a guard that lets nothing through.
    for (std::int64_t& extent : roles_.extents) extent = std::max<std::int64_t>(extent, 1);
    if (options.one_tile && options.cluster > 1) share_axis();
    find_repeated();
    interleaves_ = roles_.has_partials && !options.one_tile && !crosses() && !overlaps();
  }

  std::vector<kernel::GroupMapping> enumerate() {
    const std::size_t axes = roles_.extents.size();
    if (axes == 0) {
      out_.push_back({});
      return out_;
    }
    if (group_.anchors[0].kind == kernel::Anchor::Kind::scan ||
        group_.anchors[0].kind == kernel::Anchor::Kind::scatter) {
      enumerate_whole_tensor(group_.anchors[0]);
      return out_;
    }
    enumerate_widths();
    enumerate_shifted();
    if (out_.empty()) {
      // A tensor too small to fill a warp has nothing but sparse mappings.
      sparse_ = true;
      enumerate_widths();
    }
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
    for (std::size_t a = 0; a < roles_.extents.size(); ++a) {
      const std::int64_t extent = roles_.extents[a];
      if (has(roles_.local, a) || extent % options_.cluster != 0 || extent < least * options_.cluster) continue;
      if (shared_axis_ < 0 || extent > roles_.extents[shared_axis_]) shared_axis_ = static_cast<int>(a);
    }
    if (shared_axis_ >= 0) roles_.extents[shared_axis_] /= options_.cluster;
  }

  void enumerate_widths() {
    for (const std::int64_t width : vector_widths()) {
      width_ = width;
      if (roles_.local != 0) {
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
    roles_.local != 0 ? enumerate_rows() : enumerate_flat();
    roles_.extents[vector_axis()] -= width_ - 1;
    shifted_ = false;
  }

  [[nodiscard]] std::vector<std::int64_t> vector_widths() const {
    if (vector_.axis < 0 || vector_.width == 1) return {1};
    std::vector<std::int64_t> widths = {vector_.width};
    if (options_.wide && vector_.width > 2) widths.push_back(vector_.width / 2);
    if (vector_.axis >= 0 && roles_.extents[vector_.axis] <= vector_.width) widths.push_back(1);
    return widths;
  }

  [[nodiscard]] std::size_t vector_axis() const {
    if (vector_.axis >= 0) return vector_.axis;
    // The innermost, but of slabs a tile has one.
    const std::size_t last = roles_.extents.size() - 1;
    return last > 0 && group_.slab_axis == static_cast<int>(last) ? last - 1 : last;
  }

  [[nodiscard]] ThreadLayout fresh() const {
    ThreadLayout layout(roles_.extents.size());
    layout.mapping()[vector_axis()].at(kernel::Level::vector) = width_;
    return layout;
  }

  /// Elements of an axis still to be covered by threads and registers.
  [[nodiscard]] std::int64_t runs(std::size_t axis) const {
    return divide_up(roles_.extents[axis], axis == vector_axis() ? width_ : 1);
  }

  /// Axes in the order in which they are given what is left: innermost first.
  [[nodiscard]] std::vector<std::size_t> inner_first(std::uint64_t mask) const {
    std::vector<std::size_t> order;
    for (std::size_t a = roles_.extents.size(); a-- > 0;) {
      if (has(mask, a) && a != vector_axis()) order.push_back(a);
    }
    return order;
  }

  [[nodiscard]] std::uint64_t all_axes() const { return (std::uint64_t{1} << roles_.extents.size()) - 1; }

  /// Gives the rest of the block's threads to `order`, as far as their extents go.
  void spread(ThreadLayout& layout, const std::vector<std::size_t>& order) const {
    for (const std::size_t a : order) {
      const std::int64_t left = options_.threads / layout.total();
      if (left <= 1) return;
      layout.give(a, std::min(left, power_above(runs(a))));
    }
  }

  void add(ThreadLayout& layout, kernel::Hold hold) {
    kernel::GroupMapping mapping;
    mapping.axes = layout.mapping();
    mapping.vector_axis = static_cast<int>(vector_axis());
    mapping.hold = hold;
    mapping.shifted = shifted_;
    cover(mapping.axes, roles_.extents);
    if (shared_axis_ >= 0) mapping.axes[shared_axis_].at(kernel::Level::cluster) = options_.cluster;
    for (kernel::AxisMapping& axis : mapping.axes) {
      if (options_.one_tile) axis.at(kernel::Level::loop) *= std::exchange(axis.at(kernel::Level::grid), 1);
    }
    if (interleaves_) {
      for (std::size_t a = 0; a < mapping.axes.size(); ++a)
        mapping.axes[a].interleaved = has(roles_.partial, a) && mapping.axes[a].at(kernel::Level::loop) > 1;
    }
    if (std::find(out_.begin(), out_.end(), mapping) == out_.end()) out_.push_back(std::move(mapping));
  }

  /// Axes along which a tensor that is read along the vector axis repeats: a gain or a bias along its rows.
  void find_repeated() {
    if (roles_.extents.empty()) return;
    repeats_along_.assign(roles_.extents.size(), 0);
    const std::uint64_t walked = roles_.local | std::uint64_t{1} << vector_axis();
    for (const kernel::Item& item : group_.program->items()) {
      if (item.kind != kernel::Item::Kind::load || !has(item.axes, vector_axis()) || (item.axes & walked) != walked)
        continue;
      repeated_ |= all_axes() & ~item.axes;
      for (std::size_t a = 0; a < roles_.extents.size(); ++a) repeats_along_[a] += has(item.axes, a) ? 0 : 1;
    }
    for (std::size_t a = 0; a < roles_.extents.size(); ++a) {
      if (roles_.extents[a] == 1) repeated_ &= ~(std::uint64_t{1} << a);
    }
  }

  // ---- scan and scatter --------------------------------------------------------------------------------------

  /// A warp along the contiguous axis, other axes on warps and grid; what the anchor combines over is looped.
  void enumerate_whole_tensor(const kernel::Anchor& anchor) {
    ThreadLayout layout = fresh();  // width_ is 1
    const std::size_t v = vector_axis();
    const bool walks = has(anchor.reduced, v);
    if (anchor.kind == kernel::Anchor::Kind::scatter || walks || runs(v) >= 32) {
      layout.give(v, 32);
    } else {
      layout.give(v, power_above(runs(v)));
    }
    if (anchor.kind == kernel::Anchor::Kind::scatter) {
      const std::int64_t each = divide_up(roles_.extents[v], 32);
      layout.mapping()[v].at(kernel::Level::reg) = std::min<std::int64_t>(each, 32);
    }
    spread(layout, inner_first(all_axes() & ~anchor.reduced));
    for (std::size_t a = 0; a < roles_.extents.size(); ++a) {
      if (has(anchor.reduced, a))
        layout.mapping()[a].at(kernel::Level::loop) =
            divide_up(roles_.extents[a], layout.mapping()[a].step(kernel::Level::loop));
    }
    add(layout, kernel::Hold::registers);
  }

  // ---- no reduction ends in the tile ------------------------------------------------------------------------

  void enumerate_flat() {
    const std::size_t v = vector_axis();
    std::vector<std::int64_t> shares = {std::min<std::int64_t>(options_.threads, power_above(runs(v)))};
    if (roles_.has_partials || options_.wide) {
      for (const std::int64_t share : {8, 16, 32, 64, 128}) {
        if (share < shares[0]) shares.push_back(share);
      }
    }
    // With few lanes along the vectors, those along the axis that is contiguous elsewhere fill a sector there.
    if (crosses()) {
      for (const std::int64_t share : {4, 2}) {
        if (share < shares[0]) shares.push_back(share);
      }
    }
    std::vector<std::int64_t> unrolls = {1, 2, 4};
    if (!options_.wide && (roles_.has_partials || repeated_ == 0))
      unrolls = roles_.has_partials ? std::vector<std::int64_t>{4} : std::vector<std::int64_t>{1, 2};
    // A window's dozens of loads, for 32 elements each, are code that takes minutes to compile and spills.
    constexpr std::int64_t most_statements = 8192;
    const auto statements = static_cast<std::int64_t>(group_.program->items().size()) * width_;
    std::erase_if(unrolls, [&](std::int64_t unroll) { return unroll > 1 && statements * unroll > most_statements; });
    if (unrolls.empty()) unrolls = {1};
    for (const std::int64_t share : shares) {
      for (const std::int64_t unroll : unrolls) {
        ThreadLayout layout = fresh();
        layout.give(v, share);
        spread(layout, inner_first(roles_.partial));
        spread(layout, inner_first(all_axes() & ~roles_.partial));
        if (!unroll_flat(layout, unroll)) continue;
        if (roles_.has_partials) loop_partials(layout);
        add(layout, kernel::Hold::registers);
      }
    }
  }

  /// Whether something large lies across: contiguous along an axis other than that of the vectors (a transpose).
  [[nodiscard]] bool crosses() const {
    const kernel::ScalarProgram& program = *group_.program;
    const auto across = [&](kernel::Index address, std::uint64_t mask) {
      if (!has(mask, vector_axis())) return false;
      for (std::size_t a = 0; a < roles_.extents.size(); ++a) {
        if (a == vector_axis() || !has(mask, a) || roles_.extents[a] == 1) continue;
        const kernel::IndexPool::Run run = program.pool().run(address, program.axes().variables[a], 1);
        if (run.regular && std::abs(run.step) == 1) return true;
      }
      return false;
    };
    return std::any_of(program.items().begin(), program.items().end(),
                       [&](const kernel::Item& item) {
                         return item.kind == kernel::Item::Kind::load && across(item.index, item.axes);
                       }) ||
           std::any_of(group_.anchors.begin(), group_.anchors.end(), [&](const kernel::Anchor& anchor) {
             return anchor.kind == kernel::Anchor::Kind::store && across(anchor.addresses[0], anchor.axes);
           });
  }

  /// Whether loads of one buffer together want clearly more of it than there is: the windows of a convolution.
  [[nodiscard]] bool overlaps() const {
    const kernel::ScalarProgram& program = *group_.program;
    struct Loads {
      double elements = 0;
      std::int64_t low = std::numeric_limits<std::int64_t>::max(), high = 0;
    };
    std::map<kernel::Buffer, Loads> loads;
    for (const kernel::Item& item : program.items()) {
      if (item.kind != kernel::Item::Kind::load || (item.axes & roles_.partial) == 0) continue;
      double elements = 1;
      for (std::size_t a = 0; a < roles_.extents.size(); ++a)
        elements *= has(item.axes, a) ? static_cast<double>(roles_.extents[a]) : 1.0;
      Loads& all = loads[item.buffer];
      all.elements += elements;
      all.low = std::min(all.low, program.pool().low(item.index));
      all.high = std::max(all.high, program.pool().high(item.index));
    }
    return std::ranges::any_of(loads, [](const auto& each) {
      const Loads& all = each.second;
      return all.elements > 2 * static_cast<double>(all.high - all.low + 1);
    });
  }

  /// Several elements a thread, so that their loads are in flight together: along the partial axis if there is one,
  /// else along one on which operands repeat, for which one load does then, else along the vector axis, else along the
  /// innermost other.
  bool unroll_flat(ThreadLayout& layout, std::int64_t unroll) const {
    if (unroll == 1) return true;
    std::vector<std::size_t> order = inner_first(roles_.partial);
    if (has(roles_.partial, vector_axis())) order.push_back(vector_axis());
    if (!roles_.has_partials) {
      // Of shifted rows a thread takes one at a time.
      const std::uint64_t others = shifted_ ? 0 : all_axes();
      order = inner_first(others & repeated_);
      order.push_back(vector_axis());
      const auto rest = inner_first(others & ~repeated_);
      order.insert(order.end(), rest.begin(), rest.end());
    }
    for (const std::size_t a : order) {
      kernel::AxisMapping& m = layout.mapping()[a];
      if (m.step(kernel::Level::reg) * unroll <= power_above(roles_.extents[a])) {
        m.at(kernel::Level::reg) = unroll;
        return true;
      }
    }
    return false;
  }

  /// The rest of the partial axes is looped over in the tile, leaving about the wanted number of tiles.
  void loop_partials(ThreadLayout& layout) const {
    std::vector<kernel::AxisMapping>& mapping = layout.mapping();
    std::int64_t other = 1;
    for (std::size_t a = 0; a < mapping.size(); ++a) {
      if (!has(roles_.partial, a)) other *= divide_up(roles_.extents[a], mapping[a].step(kernel::Level::grid));
    }
    std::int64_t wanted = std::max<std::int64_t>(1, options_.partial_tiles / other), left = 1;
    // Outer partial axes take the tiles, and inner ones are looped over whole; or the other way round, so that tiles
    // that walk together lie side by side.
    std::vector<std::size_t> order;
    for (std::size_t a = 0; a < mapping.size(); ++a) {
      if (!has(roles_.partial, a)) continue;
      order.push_back(a);
      left *= iterations(mapping, a);
    }
    if (interleaves_) std::ranges::reverse(order);
    for (const std::size_t a : order) {
      const std::int64_t turns = iterations(mapping, a);
      left /= turns;
      const std::int64_t tiles = tiles_along(turns, left, wanted);
      mapping[a].at(kernel::Level::loop) = divide_up(turns, tiles);
      wanted = std::max<std::int64_t>(1, wanted / tiles);
    }
  }

  [[nodiscard]] std::int64_t iterations(const std::vector<kernel::AxisMapping>& mapping, std::size_t axis) const {
    return divide_up(roles_.extents[axis], mapping[axis].step(kernel::Level::loop));
  }

  /// How many of the wanted tiles an axis of so many iterations takes, where `left` could be along the axes that
  /// follow: as many as it can, unless what is left for those then is much less than wanted in all.
  static std::int64_t tiles_along(std::int64_t iterations, std::int64_t left, std::int64_t wanted) {
    const std::int64_t least = divide_up(iterations, wanted);  // iterations a tile
    std::int64_t chosen = 0, best = 0;
    for (std::int64_t each = least; each < least + 8 && each <= iterations; ++each) {
      const std::int64_t tiles = divide_up(iterations, each), all = tiles * std::min(left, wanted / tiles);
      if (10 * all > 11 * best) {
        chosen = tiles;
        best = all;
      }
    }
    return chosen;
  }

  // ---- reductions that end in the tile ----------------------------------------------------------------------

  void enumerate_rows() {
    std::int64_t row = 1;
    for (std::size_t a = 0; a < roles_.extents.size(); ++a) {
      if (has(roles_.local, a)) row *= runs(a);
    }
    const bool walks_row = has(roles_.local, vector_axis());
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
    const std::size_t v = vector_axis();
    if (!has(roles_.local, v)) layout.give(v, beside);
    std::int64_t left = per_row;
    std::vector<std::size_t> order = inner_first(roles_.local);
    if (has(roles_.local, v)) order.insert(order.begin(), v);
    for (const std::size_t a : order) {
      const std::int64_t threads = std::min(left, power_above(runs(a)));
      layout.give(a, threads);
      left /= threads;
    }
    if (left > 1) return;
    spread(layout, inner_first(all_axes() & ~roles_.local));
    if (!has(roles_.local, v)) spread(layout, {v});
    if (!sparse_ && layout.total() < options_.threads / 2 && layout.total() < 32) return;
    if (cluster_ > 1) {
      // The longest row axis is split over the cluster.
      std::size_t longest = order[0];
      for (const std::size_t a : order) {
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

  void place_row(ThreadLayout layout, const std::vector<std::size_t>& order, kernel::Hold hold, bool unrolled) {
    std::int64_t each = 1;
    for (const std::size_t a : order) {
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
    if (roles_.has_partials) loop_partials(layout);
    add(layout, hold);
    if (unrolled && !roles_.has_partials) several_rows(layout, hold, each * width_);
  }

  /// Several rows a thread, for which what repeats along them is loaded once: side by side in registers where they are
  /// short, one after the other where enough blocks are left for an SM to load one's row while others compute.
  void several_rows(const ThreadLayout& layout, kernel::Hold hold, std::int64_t each) {
    const std::vector<std::size_t> order = inner_first(repeated_ & ~roles_.local);
    if (order.empty()) return;
    // Along the axis on which most repeats: positions do along a batch, gains along both.
    const std::size_t along = *std::ranges::max_element(order, {}, [&](std::size_t a) { return repeats_along_[a]; });
    std::int64_t tiles = 1;
    for (std::size_t a = 0; a < roles_.extents.size(); ++a)
      tiles *= divide_up(roles_.extents[a], layout.mapping()[a].step(kernel::Level::grid));
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
  std::uint64_t repeated_ = 0;      ///< find_repeated()
  std::vector<int> repeats_along_;  ///< by axis: tensors that repeat along it
  /// Blocks that loop over partial axes walk along them together, so that a later phase finds in L2 what all of them
  /// have read last. Not where a block finds in L1 what it asked for a turn before: the rest of a sector, or of a
  /// window.
  bool interleaves_ = false;
  std::int64_t width_ = 1;
  int shared_axis_ = -1;  ///< share_axis(); roles_ has a block's part of it
  bool sparse_ = false;   ///< also mappings that leave most of a warp idle
  bool shifted_ = false;  ///< rows are shifted; roles_ has the longer ones
  std::vector<kernel::GroupMapping> out_;
};

}  // namespace

VectorChoice choose_vector(const kernel::GroupStructure& group) {
  const kernel::ScalarProgram& program = *group.program;
  const auto& axes = program.axes();
  std::vector<double> weight(axes.axes.size(), 0);
  struct Contiguous {
    std::size_t axis;
    int bytes;
    double elements;
  };
  std::vector<Contiguous> accesses;
  const auto consider = [&](kernel::Index address, int bytes, std::uint64_t mask) {
    double elements = 1;
    for (std::size_t a = 0; a < axes.axes.size(); ++a) {
      if (has(mask, a)) elements *= static_cast<double>(std::min<std::int64_t>(axes.extents[a], 1 << 20));
    }
    for (std::size_t a = 0; a < axes.axes.size(); ++a) {
      if (!has(mask, a) || static_cast<int>(a) == group.slab_axis) continue;
      const kernel::IndexPool::Run run = program.pool().run(address, axes.variables[a], 1);
      if (!run.regular || run.step != 1) continue;
      weight[a] += elements * bytes;
      accesses.push_back({a, bytes, elements});
    }
  };
  for (const kernel::Item& item : program.items()) {
    if (item.kind == kernel::Item::Kind::load) consider(item.index, graph::byte_size(item.dtype), item.axes);
  }
  for (const kernel::Anchor& anchor : group.anchors) {
    if (anchor.kind == kernel::Anchor::Kind::store)
      consider(anchor.addresses[0], graph::byte_size(anchor.dtype), anchor.axes);
    if (anchor.kind == kernel::Anchor::Kind::partial)
      consider(anchor.addresses.back(), 4, anchor.axes & ~anchor.reduced);
  }
  VectorChoice choice;
  double best = 0;
  for (std::size_t a = 0; a < weight.size(); ++a) {
    if (weight[a] > best) {
      best = weight[a];
      choice.axis = static_cast<int>(a);
    }
  }
  if (choice.axis < 0) return choice;
  const std::size_t at = choice.axis;
  // A lane's 16 bytes of the widest elements: of more it would take every second half of 32 bytes at a time, and touch
  // every sector twice. What has few elements (a gain, a bias) does not decide.
  double most = 0;
  for (const Contiguous& access : accesses) most = std::max(most, access.axis == at ? access.elements : 0.0);
  int widest = 1;
  for (const Contiguous& access : accesses) {
    if (access.axis == at && 4 * access.elements >= most) widest = std::max(widest, access.bytes);
  }
  choice.width = std::clamp(16 / widest, 1, 8);
  const bool alone = axes.axes.size() == 1;
  constexpr std::int64_t few = 4;  // vectors of a row: what they save is lost at its ends
  if (!alone && choice.width > 1 && axes.extents[at] >= few * choice.width &&
      kernel::row_shift(group, at, choice.width))
    choice.shifted_width = choice.width;
  while (choice.width > 1 && !alone && axes.extents[at] % choice.width != 0) choice.width /= 2;
  while (choice.width > 1 && axes.extents[at] < choice.width) choice.width /= 2;
  return choice;
}

std::vector<kernel::GroupMapping> enumerate_mappings(const kernel::GroupStructure& group,
                                                     const MappingSpaceOptions& options, const DeviceSpec& device) {
  return Enumerator(group, options, device).enumerate();
}

}  // namespace stitch::search
