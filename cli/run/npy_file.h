#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "graph/tensor_type.h"

namespace stitch::cli {

/// The elements of a NumPy file (.npy, versions 1 to 3; NumPy's lib.format), as they lie in memory in C order.
/// `wanted`: what the tensor must be; bf16 and f8, which NumPy has no types for, are unsigned integers or void of their
/// size. Errors: parse (no such file, damaged, Fortran order, another byte order), invalid_argument (another dtype or
/// shape).
Result<std::vector<std::byte>> read_npy(std::string_view file, const graph::TensorType& wanted);

/// A tensor as a NumPy file.
std::string write_npy(const graph::TensorType& type, const std::byte* elements);

}  // namespace stitch::cli
