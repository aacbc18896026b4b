#pragma once

#include "graph/builder.h"

/// The vocabulary that decompositions are written in: arithmetic with NumPy-style broadcasting, and reductions that
/// keep their dimensions.
namespace stitch::import::emit {

using graph::Builder;
using graph::Comparison;
using graph::Op;
using graph::ReduceKind;
using graph::Value;

inline Value add(Builder& b, Value x, Value y) { return b.broadcast_binary(Op::add, x, y); }
inline Value sub(Builder& b, Value x, Value y) { return b.broadcast_binary(Op::subtract, x, y); }
inline Value mul(Builder& b, Value x, Value y) { return b.broadcast_binary(Op::multiply, x, y); }
inline Value div(Builder& b, Value x, Value y) { return b.broadcast_binary(Op::divide, x, y); }
inline Value max(Builder& b, Value x, Value y) { return b.broadcast_binary(Op::maximum, x, y); }
inline Value min(Builder& b, Value x, Value y) { return b.broadcast_binary(Op::minimum, x, y); }

/// A tensor like x in shape and dtype, filled with one value.
inline Value like(Builder& b, Value x, double value) { return b.filled(b.dtype(x), b.dims(x), value); }

inline Value add(Builder& b, Value x, double y) { return y == 0.0 ? x : b.binary(Op::add, x, like(b, x, y)); }
inline Value sub(Builder& b, Value x, double y) { return y == 0.0 ? x : b.binary(Op::subtract, x, like(b, x, y)); }
inline Value mul(Builder& b, Value x, double y) { return y == 1.0 ? x : b.binary(Op::multiply, x, like(b, x, y)); }
inline Value div(Builder& b, Value x, double y) { return y == 1.0 ? x : b.binary(Op::divide, x, like(b, x, y)); }
inline Value max(Builder& b, Value x, double y) { return b.binary(Op::maximum, x, like(b, x, y)); }
inline Value min(Builder& b, Value x, double y) { return b.binary(Op::minimum, x, like(b, x, y)); }

inline Value square(Builder& b, Value x) { return b.binary(Op::multiply, x, x); }
inline Value exp(Builder& b, Value x) { return b.unary(Op::exp, x); }
inline Value log(Builder& b, Value x) { return b.unary(Op::log, x); }
inline Value tanh(Builder& b, Value x) { return b.unary(Op::tanh, x); }
inline Value sqrt(Builder& b, Value x) { return b.unary(Op::sqrt, x); }
inline Value rsqrt(Builder& b, Value x) { return b.unary(Op::rsqrt, x); }

/// Comparison and selection with broadcasting.
Value compare(Builder& b, Comparison direction, Value x, Value y);
Value compare(Builder& b, Comparison direction, Value x, double y);
Value select(Builder& b, Value condition, Value yes, Value no);

/// f16, bf16 and f8 as f32, in which decompositions compute; other types as they are.
Value widen(Builder& b, Value x);

/// The reduction over `axes` (sorted), with extents of 1 in their place.
Value reduce_keep(Builder& b, ReduceKind kind, Value x, const graph::Dims& axes);
Value mean_keep(Builder& b, Value x, const graph::Dims& axes);

/// A list of integers as a constant.
Value integers(Builder& b, graph::DType dtype, graph::Dims dims, const std::vector<std::int64_t>& values);
/// A list of numbers as a constant.
Value numbers(Builder& b, graph::DType dtype, graph::Dims dims, const std::vector<double>& values);

/// x repeated along new dimensions so that x's dimension i becomes result dimension mapping[i].
inline Value spread(Builder& b, Value x, graph::Dims dims, graph::Dims mapping) {
  return b.broadcast(x, std::move(dims), std::move(mapping));
}

/// 0, 1, …, rank-1 without those in `axes`.
graph::Dims other_axes(std::int64_t rank, const graph::Dims& axes);
graph::Dims first_axes(std::int64_t count);

/// Slice [start, limit) of one dimension.
Value slice_axis(Builder& b, Value x, std::int64_t axis, std::int64_t start, std::int64_t limit,
                 std::int64_t stride = 1);

/// Dimensions x and y exchanged.
Value swap_axes(Builder& b, Value v, std::int64_t x, std::int64_t y);

/// Negative indices into a dimension of that extent counted from its end.
Value wrap_indices(Builder& b, Value indices, std::int64_t extent);

}  // namespace stitch::import::emit
