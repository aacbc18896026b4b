#pragma once

#include <string>

#include "codegen/load_emitter.h"
#include "codegen/scan_tuple.h"

namespace stitch::codegen {

/// Writes a group that combines cumulatively along an axis. In every turn of the loop along it a thread takes a run of
/// neighbours, scans them by itself, and then needs what is combined of all before its run:
///
///  * the lanes' runs before, where 32 lanes lie along the axis: a scan of the runs' totals by shuffles;
///  * the warps' before, where several warps do: their totals through shared memory;
///  * the turns' before, which every thread carries along.
///
/// Where lanes lie along the axis, a run is a vector in memory; else each lane has lines of its own, and a run is a few
/// rows, whose loads are in flight together. No step needs an identity: what has nothing before it is left as it is.
class ScanEmitter {
 public:
  /// `anchor`: of the scan, the only one of its group.
  ScanEmitter(GroupScope& scope, int anchor);

  void emit();

 private:
  [[nodiscard]] bool by_lanes() const { return axis_ >= 0 && group_.extent(axis_, kernel::Level::lane) == 32; }
  [[nodiscard]] std::int64_t warps() const { return axis_ < 0 ? 1 : group_.extent(axis_, kernel::Level::warp); }
  /// Whether a run is a vector.
  [[nodiscard]] bool in_vectors() const { return axis_ >= 0 && axes_.vector_extent() > 1; }
  [[nodiscard]] std::int64_t run() const;
  [[nodiscard]] std::int64_t extent() const { return axis_ < 0 ? 1 : group_.extents[axis_]; }
  /// Threads along the axis.
  [[nodiscard]] std::int64_t threads() const { return axis_ < 0 ? 1 : group_.mapping.axes[axis_].threads(); }
  /// Whether the element at `step` is one: a condition.
  [[nodiscard]] std::string inside(const std::string& step) const;
  [[nodiscard]] std::string title() const;

  void open_walk();
  void emit_turn();
  void emit_loads();
  void load_vectors();
  void load_elements();
  void emit_places(const std::string& offset);
  void open_run();
  void scan_run();
  void scan_lanes();
  void join_warps();
  void apply();
  void emit_stores();
  void store_vectors();
  void store_elements();
  /// What is stored of component `c`, which is in run(c)[at].
  [[nodiscard]] std::string stored(int component, const std::string& at) const;

  GroupScope& scope_;
  const int number_;
  const kernel::GroupProgram& group_;
  Writer& out_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
  LoadEmitter loads_;
  const kernel::Anchor& anchor_;
  const graph::Node& node_;
  ScanTuple tuple_;
  int axis_ = -1;  ///< the innermost of the axes that are walked; -1: one element is, which is no axis
  bool reverse_ = false, exclusive_ = false;
  std::string in_lines_;  ///< condition that the thread's lines are there; empty: they are
};

}  // namespace stitch::codegen
