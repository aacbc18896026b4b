#pragma once

#include <string>
#include <vector>

#include "codegen/group_scope.h"

namespace stitch::codegen {

/// What a scan combines, in C++: one value, or a tuple of them, each a variable whose name ends in the component's
/// number ("run0[v]", "run1[v]"). A single operator combines by its functor of device/reduce.cuh; the combiner of an
/// associative-scan becomes a function of the kernel's own.
class ScanTuple {
 public:
  /// Names that differ in their component: `name` and 0 or 1, …, then `subscript`.
  struct Names {
    std::string name, subscript;
  };

  ScanTuple(GroupScope& scope, const kernel::Anchor& anchor);

  [[nodiscard]] int components() const { return static_cast<int>(types_.size()); }
  [[nodiscard]] const std::string& type(int component) const { return types_[component]; }
  /// The value that combining nothing gives; only of a single operator.
  [[nodiscard]] std::string identity() const;

  /// Defines the combiner, where it is no functor.
  void emit_combiner();
  /// "f32 run0[4];", a line per component.
  void declare(const Names& names);
  void assign(const Names& to, const Names& from);
  /// `right` becomes left ∘ right.
  void combine(const Names& left, const Names& right, const std::string& condition = {});
  /// Declares `to` with what the lane `distance` before has in `from`.
  void shuffle_up(const Names& to, const Names& from, const std::string& distance);
  /// Declares `to` with what a lane has in `from`.
  void broadcast(const Names& to, const Names& from, int lane);

 private:
  [[nodiscard]] std::string each(const Names& names) const;

  GroupScope& scope_;
  const graph::Node& node_;
  const kernel::Anchor& anchor_;
  std::vector<std::string> types_;
};

}  // namespace stitch::codegen
