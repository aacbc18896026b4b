#pragma once

#include <string>
#include <vector>

#include "codegen/load_emitter.h"
#include "kernel/program/sort_plan.h"

namespace stitch::codegen {

/// Writes a group that puts lines in order (device/sort.cuh). A thread computes the keys of some elements of its line,
/// whichever are side by side with its neighbours'; the line's threads sort words of key and place; then each knows
/// which element stands at its ranks, computes what goes along there, and stores it. The key itself is in the word.
class SortEmitter {
 public:
  /// `anchor`: of the sort, the only one of its group.
  SortEmitter(GroupScope& scope, int anchor);

  void emit();

 private:
  [[nodiscard]] std::string title() const;
  /// Opens a block for each of the thread's words, `r` its number, with `at`, the place or rank in the line.
  void open_words(std::int64_t words);
  /// Names the axes of the line where the element at `place` is.
  void emit_place(const std::string& place);
  void emit_keys();
  void emit_results();
  void emit_result(std::size_t buffer);

  GroupScope& scope_;
  const kernel::GroupProgram& group_;
  Writer& out_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
  LoadEmitter loads_;
  const kernel::Anchor& anchor_;
  const graph::Node& node_;
  const kernel::SortPlan plan_;
  std::string in_lines_;  ///< condition that the thread's line is there; empty: it is
};

}  // namespace stitch::codegen
