#pragma once

#include <functional>
#include <string>

#include "kernel/index/index_expr.h"

namespace stitch::codegen {

/// An index expression in C++, "(3 * j + v)"; `variable` prints what it depends on.
std::string index_text(const kernel::IndexPool& pool, kernel::Index index,
                       const std::function<std::string(kernel::Index)>& variable);

}  // namespace stitch::codegen
