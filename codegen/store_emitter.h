#pragma once

#include <string>

#include "codegen/item_printer.h"

namespace stitch::codegen {

/// Writes what a group leaves in buffers: an element, or a thread's run along the vector axis out of the registers
/// `result_N[v]` of anchor N.
class StoreEmitter {
 public:
  explicit StoreEmitter(GroupScope& scope)
      : scope_(scope), group_(scope.group), out_(scope.out), axes_(scope), items_(scope) {}

  /// The value of a store's item in the type of its buffer.
  [[nodiscard]] std::string stored_value(int anchor, bool element) const;
  /// Stores an element, or combines it into what is there.
  void emit_element(int anchor, bool element);
  /// Whether whole vectors are stored, or combined into what is there.
  [[nodiscard]] bool takes_runs(int anchor) const;
  /// Stores result_N, or combines it into what is there.
  void emit_run(int anchor);

 private:
  [[nodiscard]] bool is_passing(const kernel::Buffer& buffer) const;
  /// Blocks of the cluster that get what is stored, when it stays in shared memory; 1: only the one that stores.
  [[nodiscard]] int copies(const kernel::Buffer& buffer) const;
  /// Conditions on which this thread of this block stores.
  [[nodiscard]] std::string guard(const kernel::Anchor& anchor, bool element) const;

  GroupScope& scope_;
  const kernel::GroupProgram& group_;
  Writer& out_;
  const AxisPrinter axes_;
  const ItemPrinter items_;
};

}  // namespace stitch::codegen
