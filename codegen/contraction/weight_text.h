#pragma once

#include <set>
#include <string>

#include "base/result.h"
#include "kernel/attention/product_chain.h"

namespace stitch::codegen {

/// What the weights of a chain are made of its scores by, as a functor of the generated kernel:
///
///     struct Weigh {
///       const f32* __restrict__ in4;
///       struct Row { f32 x7; };
///       struct Column { f32 x9; };
///       __device__ __forceinline__ Row row(int batch, int row) const { … }
///       __device__ __forceinline__ Column column(int batch, int first, int behind) const { … }
///       __device__ __forceinline__ void operator()(const f32 (&scores)[2], const Row& of_row, const Column& of_column,
///                                                  int batch, int row, int column, f32 (&weights)[2]) const { … }
///     };
///
/// What depends on the row alone is computed once for each of a lane's rows, and what depends on the column alone once
/// for each of its columns, which are `behind` the first one, a constant.
struct WeightFunction {
  std::string code;
  std::string members;                    ///< what one is made of, by the kernel's names: "in4, in6"
  std::set<int> parameters;               ///< that it reads, by number
  int operators = 0;                      ///< of one pair of row and column
  int row_values = 0, column_values = 0;  ///< that are kept of a row, and of a column
};
/// Errors: unsupported (an operator that is more than element-wise; a score that is needed at several places).
Result<WeightFunction> print_weights(const kernel::ProductChain& chain);

}  // namespace stitch::codegen
