#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernel/contraction/contraction_results.h"
#include "kernel/structure/scalar_program.h"

// What the functions between a kernel's products have alike: each is of one element (batch, row, column) of a product,
// by index propagation over these three axes (kernel/structure/scalar_program.h).
namespace stitch::codegen {

/// Of a value that lies so, the indices of the element that (batch, row, column) is: the program's first three axes.
std::vector<kernel::Index> element_of(kernel::ScalarProgram& program, const kernel::ContractionResult& layout,
                                      const graph::Dims& dims);
/// The same of (batch, row, `column`).
std::vector<kernel::Index> element_of(kernel::ScalarProgram& program, const kernel::ContractionResult& layout,
                                      const graph::Dims& dims, kernel::Index column);

/// An index in terms of the axes, by these names; what is looked up is clamped into its range. `value`: how an item is
/// called.
std::string index_of(const kernel::ScalarProgram& program, kernel::Index index, std::span<const std::string_view> axes,
                     const std::function<std::string(kernel::ItemId)>& value);
inline std::string index_of(const kernel::ScalarProgram& program, kernel::Index index,
                            const std::array<std::string_view, 3>& axes,
                            const std::function<std::string(kernel::ItemId)>& value) {
  return index_of(program, index, std::span<const std::string_view>(axes), value);
}

/// An item in terms of others. `index`: an index's text (index_of); `loaded`: where what a load brings is; `value`: how
/// an item is called.
std::string item_text(const kernel::ScalarProgram& program, const kernel::Item& item,
                      const std::function<std::string(kernel::Index)>& index, const std::string& loaded,
                      const std::function<std::string(kernel::ItemId)>& value);

}  // namespace stitch::codegen
