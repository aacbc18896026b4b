#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace stitch::graph {

/// A library call's dot, or convolution without a window, in the words of a BLAS: matrices with a stride for rows and
/// one for columns, in loops that are left over. For every step of the loops, i < rows and j < columns:
///
///     result[i, j] = activation(scale · Σ_{k < depth} left[i, k] · right[k, j] + addend[i, j] + bias[j])
///
/// Of each matrix's two strides one is 1 or its extent is; those of result and addend agree in that, and where there is
/// a bias, it is the one along columns.
struct StridedMatmul {
  /// An operand's memory. Strides and offsets count elements; those of loops may be 0.
  struct Matrix {
    int parameter = -1;  ///< of the call's graph; -1: its result
    DType dtype = DType::f32;
    std::int64_t offset = 0;
    std::int64_t row_stride = 0, column_stride = 0;
    std::vector<std::int64_t> loop_strides;
  };
  std::int64_t rows = 1, columns = 1, depth = 1;
  std::vector<std::int64_t> loops;  ///< extents, outermost first, none of them 1
  Matrix left, right, result;
  std::optional<Matrix> addend;
  std::optional<Matrix> bias;  ///< row stride 0, column stride 1
  double scale = 1;
  bool relu = false;
  DType accumulation = DType::f32;  ///< what products are summed in, and the epilogue computes in
  bool tf32 = false;                ///< operands of f32 may be rounded to TF32

  /// How many products the loops run.
  [[nodiscard]] std::int64_t products() const;
  /// Calls of a library that takes the longest loop as a batch.
  [[nodiscard]] std::int64_t calls() const;
  /// No more are described as one.
  static constexpr std::int64_t most_calls = 4096;
  /// Whether the result has no elements.
  [[nodiscard]] bool is_empty() const { return rows == 0 || columns == 0 || products() == 0; }
};

/// What a call's graph (api::ProgramCall) asks of a BLAS. Error: unsupported, with what no strides or epilogue say:
/// windows, contractions that step unevenly, integers,
/// unlike types, matrices that step by more than one in both directions.
Result<StridedMatmul> describe_matmul(const Graph& call);

}  // namespace stitch::graph
