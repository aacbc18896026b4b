#include "import/grouped_products.h"

namespace stitch::import {

using graph::Builder;
using graph::Comparison;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::Value;

Value group_ends(Builder& b, Value sizes) {
  const std::int64_t groups = b.dims(sizes)[0];
  const Value counts = b.convert(sizes, DType::s32);
  if (groups < 2) return counts;
  graph::ReduceWindowAttributes a;
  a.sizes = {groups};
  a.low = {groups - 1};
  a.high = {0};
  a.strides = a.base_dilation = a.window_dilation = {1};
  return b.add(Op::reduce_window, {counts}, std::move(a));
}

Value for_groups(Builder& b, Value x, std::int64_t dimension, Value ends) {
  const std::int64_t groups = b.dims(ends)[0];
  Value begins = b.filled(DType::s32, {groups == 0 ? 0 : 1}, 0);
  if (groups > 1) begins = b.concatenate({begins, b.slice(ends, {0}, {groups - 1})}, 0);
  Dims dims = {groups}, own;
  for (const std::int64_t extent : b.dims(x)) {
    own.push_back(std::ssize(dims));
    dims.push_back(extent);
  }
  const Value place = b.iota(DType::s32, dims, dimension + 1);
  const Value shown = b.binary(Op::bit_and, b.compare(Comparison::le, b.broadcast(begins, dims, {0}), place),
                               b.compare(Comparison::lt, place, b.broadcast(ends, dims, {0})));
  return b.select(shown, b.broadcast(x, dims, std::move(own)), b.filled(b.dtype(x), dims, 0));
}

}  // namespace stitch::import
