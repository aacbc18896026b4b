#pragma once

#include <string>
#include <string_view>

#include "codegen/axis_printer.h"

namespace stitch::codegen {

/// Prints the items and index expressions of a group as C++ expressions: "in0_3[j_r][v]" where an item has been kept,
/// "(3 * j + v)" for an index, "maximum(in0_3, 0.0f)" for what a computed item is made of. Items are named by what they
/// are and their number; those that are written inline (kernel/structure/items.h) have no name.
class ItemPrinter {
 public:
  explicit ItemPrinter(const GroupScope& scope) : scope_(scope), axes_(scope), program_(scope.program) {}

  [[nodiscard]] std::string name(kernel::ItemId id) const;
  /// Of the thread's own part of a reduction: "sum2".
  [[nodiscard]] std::string accumulator_name(int anchor) const;
  [[nodiscard]] bool is_arg_reduce(int anchor) const;
  [[nodiscard]] bool is_max_exp_sum(int anchor) const;
  /// The type in which an item is kept: a load's as it lies in memory.
  [[nodiscard]] std::string kept_type(kernel::ItemId id) const;
  /// Type and extents of the registers that keep these axes of it: "f32" and "[2][8]", or small elements several in a
  /// word, "Packed<bf16, 8>" and "[2]".
  struct Registers {
    std::string type, dims;
  };
  [[nodiscard]] Registers registers_of(kernel::ItemId id, kernel::AxisSet axes) const;

  /// The item's value where the current loops stand.
  [[nodiscard]] std::string value(kernel::ItemId id, bool element) const;
  /// What the item is computed of.
  [[nodiscard]] std::string expression_of(kernel::ItemId id, bool element) const;
  /// The registers of an item that is kept as an array.
  [[nodiscard]] std::string registers(kernel::ItemId id, bool element, std::string_view suffix = "") const {
    return fmt::format("{}{}{}", name(id), suffix, axes_.subscript(scope_.arrays.at(id), element));
  }
  [[nodiscard]] bool is_array(kernel::ItemId id) const { return scope_.arrays.contains(id); }

  /// An index expression in C++; `wide`: as s64.
  [[nodiscard]] std::string index(kernel::Index index, bool element, bool wide = false) const;
  /// An index expression that is added to a pointer: as wide as it has to be.
  [[nodiscard]] std::string address(kernel::Index address, bool element) const {
    return index(address, element, is_wide(address));
  }
  /// What index expressions depend on: an axis, or an item that a gather goes by.
  [[nodiscard]] std::string variable(kernel::Index variable, bool element, bool wide) const;
  [[nodiscard]] bool is_wide(kernel::Index address) const;

  /// "load_one<Cached::streamed>(&in0[j])".
  [[nodiscard]] std::string load_one(const kernel::Item& item, bool element) const;
  /// How a load of the item may be cached: an enumerator of device/memory.cuh's Cached.
  [[nodiscard]] std::string_view caching(const kernel::Item& item) const;

 private:
  [[nodiscard]] std::string reduced_value(kernel::ItemId id, bool element) const;
  [[nodiscard]] std::string rounded(const kernel::Item& item, const std::string& text) const;
  [[nodiscard]] std::string in_range(const kernel::Item& item, bool element) const;
  /// One element, zero where the guard or the axes' ranges do not hold.
  [[nodiscard]] std::string scalar_load(const kernel::Item& item, bool element) const;
  [[nodiscard]] std::string clamped(kernel::Index dynamic, bool element, bool wide) const;
  /// Whether an index's value takes 64 bits.
  [[nodiscard]] bool is_wide(const kernel::Item& place) const;
  /// Whether an item is the number of an element of a vector, whose first one's is a multiple of how many there are.
  [[nodiscard]] bool is_aligned_place(const kernel::Item& item) const;
  [[nodiscard]] std::string joined_place(const kernel::Item& item) const;

  const GroupScope& scope_;
  const AxisPrinter axes_;
  const kernel::ScalarProgram& program_;
};

}  // namespace stitch::codegen
