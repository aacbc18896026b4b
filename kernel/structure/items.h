#pragma once

#include <vector>

#include "kernel/structure/scalar_program.h"
#include "kernel/structure/structure.h"

namespace stitch::kernel {

/// Items that an item reads: operands, guard, and what its index expressions need.
std::vector<ItemId> dependencies(const ScalarProgram& program, ItemId item);
/// By item, whether computing `root` takes it; itself included. What `known` is made of is not asked for.
std::vector<bool> needed_by(const ScalarProgram& program, ItemId root, ItemId known = -1);

/// Index arithmetic and range tests on it: written where they are used instead of being computed once and named.
bool is_inline(const ScalarProgram& program, ItemId item);

/// Items that computing an anchor needs directly: its values, guard and addresses.
std::vector<ItemId> roots_of(const ScalarProgram& program, const Anchor& anchor);

/// Bytes of registers that an element of an item takes when kept: 16-bit loads stay packed, computed values are in the
/// compute type.
int held_bytes(const Item& item);

}  // namespace stitch::kernel
