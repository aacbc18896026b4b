#pragma once

#include <functional>
#include <initializer_list>
#include <string>

#include "kernel/index/index_expr.h"

namespace stitch::codegen {

/// An index expression in C++, "(3 * j + v)"; `variable` prints what it depends on.
std::string index_text(const kernel::IndexPool& pool, kernel::Index index,
                       const std::function<std::string(kernel::Index)>& variable);

/// A sum of those terms that are not empty; "0" of none.
std::string sum_of(std::initializer_list<std::string> terms);

}  // namespace stitch::codegen
