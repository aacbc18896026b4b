#pragma once

#include <string>

#include "codegen/load_emitter.h"

namespace stitch::codegen {

/// Writes a group that combines cumulatively along an axis. Where lanes walk the axis, a warp takes 32 elements at a
/// time and carries the total on; else every thread walks its own line.
class ScanEmitter {
 public:
  /// `anchor`: of the scan, the only one of its group.
  ScanEmitter(GroupScope& scope, int anchor);

  void emit();

 private:
  [[nodiscard]] bool by_warp() const { return lanes_axis_ >= 0; }
  /// The axis' value, in the order in which it is walked.
  void open_walk();
  void open_lanes(int axis);
  void open_line(int axis);
  void emit_by_warp(const std::string& element);
  void emit_by_thread(const std::string& element);
  /// Statement that stores a value of the accumulator's type.
  [[nodiscard]] std::string store_of(const std::string& value) const;

  GroupScope& scope_;
  const kernel::GroupProgram& group_;
  Writer& out_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
  LoadEmitter loads_;
  const kernel::Anchor& anchor_;
  const graph::ScanAttributes& scan_;
  const graph::DType dtype_;
  const std::string type_;  ///< of the accumulator
  const std::string op_;
  int lanes_axis_ = -1;  ///< the axis that the lanes of a warp walk; -1: none
};

}  // namespace stitch::codegen
