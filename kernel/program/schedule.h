#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "kernel/index/axes.h"

namespace stitch::kernel {

// A schedule is all that is decided about how a kernel runs: everything else follows from it and the graph. It is a
// plain value that is compared, hashed (schedule_hash.h), printed and stored with measurements. Of a row-wise reduction
// of f32[1024,768] by one warp a row, four rows a block:
//
//     threads 128; one phase, one group with the axes
//       row:    warp 4, grid 256             four rows a block, one for each warp
//       column: vector 4, lane 32, reg 6     4 · 32 · 6 = 768: a thread has six vectors of its row in registers
//
// The stitch explorer makes schedules (search/schedule), trials and the store keep them, and derive_program reads one.

/// Where a part of an axis is laid out, innermost first.
enum class Level : std::uint8_t { vector, lane, warp, reg, loop, cluster, grid };
inline constexpr std::size_t level_count = 7;

std::string_view to_string(Level level);

/// How one axis is split over the levels. The index on the axis is, innermost digit first, vector, lane, warp,
/// register, loop, cluster, grid; the product of the extents covers the axis, what is beyond it is guarded.
struct AxisMapping {
  std::array<std::int64_t, level_count> extent = {1, 1, 1, 1, 1, 1, 1};
  /// The loop's digit is the outermost one: instead of a part of its own, a block takes every so many elements, and all
  /// blocks walk along the axis together (a grid-stride loop).
  bool interleaved = false;

  [[nodiscard]] std::int64_t at(Level level) const { return extent[static_cast<std::size_t>(level)]; }
  std::int64_t& at(Level level) { return extent[static_cast<std::size_t>(level)]; }
  /// Product of the extents of the digits inside that of `level`: the digit's step.
  [[nodiscard]] std::int64_t step(Level level) const;
  /// Product of all extents: elements from the first to the last that some thread handles.
  [[nodiscard]] std::int64_t covered() const;
  /// Elements of the axis that one thread handles in one tile.
  [[nodiscard]] std::int64_t per_thread() const { return at(Level::vector) * at(Level::reg) * at(Level::loop); }
  /// Elements of the axis in one block's tile.
  [[nodiscard]] std::int64_t per_block() const { return per_thread() * threads(); }
  [[nodiscard]] std::int64_t threads() const { return at(Level::lane) * at(Level::warp); }

  bool operator==(const AxisMapping&) const = default;
};

/// Where values that later sweeps need again are kept.
enum class Hold : std::uint8_t {
  registers,
  shared,
  reload,
  shared_least,  ///< in shared memory as few bytes as will do; what can be computed of them is computed again
};

std::string_view to_string(Hold hold);

/// One group's mapping: an entry per axis of its iteration space, outermost axis first.
struct GroupMapping {
  std::vector<AxisMapping> axes;
  int vector_axis = -1;  ///< position of the axis whose vector extent is > 1, or the one that lanes walk
  Hold hold = Hold::registers;
  bool shifted = false;  ///< vectors begin before their row where it is not aligned (kernel/structure/row_shift.h)
  /// Turns of a loop whose loads are there or under way: with 2 the next turn's are on their way while this one's are
  /// used (kernel/program/loads_ahead.h), with 1 each turn asks for its own and waits.
  int stages = 1;
  /// The stages lie in shared memory, which asynchronous copies fill; else the next turn's loads have registers of
  /// their own, and there are two stages at most.
  bool shared_stages = false;
  /// Of stages in shared memory: each warp has its part of a row brought by bulk copies, which one of its lanes asks
  /// for and whose bytes an mbarrier counts; else every thread copies what it will read itself.
  bool bulk_stages = false;
  /// What is the same in all turns of the loops around the sweeps is loaded once, as far as registers reach
  /// (kernel/program/hoisting.h); else a thread keeps nothing but its sums from turn to turn, to have these registers.
  bool hoists = true;

  bool operator==(const GroupMapping&) const = default;
};

/// What stands between two phases of one kernel.
enum class Sync : std::uint8_t {
  last_block,  ///< the block that arrives last runs everything that follows
  barrier,     ///< grid-wide barrier (cooperative launch): all blocks go on
  block,       ///< every block goes on by itself: it reads nothing that another one has written (recurrent kernels)
  gate,        ///< the block that arrives last goes on by itself; the others wait until it opens (cooperative launch)
  open,        ///< behind phases that a gate has before them: all blocks go on
};

std::string_view to_string(Sync sync);

/// One kernel's schedule: a plain, comparable value. Schemes, access widths and buffers follow from it.
struct Schedule {
  std::set<int> tile_axes;              ///< axes that lie within one tile
  std::int64_t gathered = 0;            ///< StructureOptions::gathered
  Slabs slabs;                          ///< taken through all phases one after the other (kernel/program/slabs.h)
  std::set<graph::Value> materialised;  ///< values kept in scratch between phases
  int threads = 256;                    ///< per block
  int cluster = 1;                      ///< blocks per cluster
  std::int64_t blocks = 0;              ///< launched; fewer than the tiles when blocks take several
  std::int64_t rows = 0;                ///< of a recurrent kernel: that a block, or a cluster, takes through all turns
  std::int64_t retained = 0;  ///< shared memory for what phases hand on within a block (kernel/program/retention.h)
  std::vector<Sync> syncs;    ///< between phase i and i + 1
  std::vector<std::vector<GroupMapping>> phases;  ///< per phase, per group of the derived structure

  bool operator==(const Schedule&) const = default;
};

}  // namespace stitch::kernel
