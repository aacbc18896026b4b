#include "kernel/structure/contraction.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace stitch::kernel {

using graph::Builder;
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::Value;

Value products_summed(Builder& builder, const std::array<Value, 2>& sides, const graph::DotAttributes& a) {
  const std::array<const Dims*, 2> batch = {&a.lhs_batch, &a.rhs_batch};
  const std::array<const Dims*, 2> contracting = {&a.lhs_contracting, &a.rhs_contracting};
  std::array<Dims, 2> free;
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t rank = builder.type(sides[i]).dims.size();
    for (std::int64_t d = 0; d < rank; ++d) {
      const auto in = [&](const Dims& list) { return std::find(list.begin(), list.end(), d) != list.end(); };
      if (!in(*batch[i]) && !in(*contracting[i])) free[i].push_back(d);
    }
  }
  const std::size_t batches = a.lhs_batch.size(), left = free[0].size(), right = free[1].size();
  Dims dims;
  for (std::size_t i = 0; i < 2; ++i) {
    const Dims& extents = builder.type(sides[i]).dims;
    if (i == 0) {
      for (const std::int64_t d : *batch[0]) dims.push_back(extents[d]);
    }
    for (const std::int64_t d : free[i]) dims.push_back(extents[d]);
  }
  for (const std::int64_t d : a.lhs_contracting) dims.push_back(builder.type(sides[0]).dims[d]);
  // Sums of 16-bit products are kept in f32, those of integers in what they are to be.
  const bool wide_ones = graph::byte_size(a.result) == 8 || graph::byte_size(builder.type(sides[0]).dtype) == 8;
  const DType products = !graph::is_floating(a.result) ? a.result : wide_ones ? DType::f64 : DType::f32;
  std::array<Value, 2> wide;
  for (std::size_t i = 0; i < 2; ++i) {
    Dims order = *batch[i];
    order.insert(order.end(), free[i].begin(), free[i].end());
    order.insert(order.end(), contracting[i]->begin(), contracting[i]->end());
    Value turned = sides[i];
    if (!std::is_sorted(order.begin(), order.end())) turned = builder.transpose(turned, order);
    if (builder.failed()) return {};
    turned = builder.convert(turned, products);
    Dims mapping;
    for (std::size_t d = 0; d < batches; ++d) mapping.push_back(d);
    for (std::size_t d = 0; d < free[i].size(); ++d) mapping.push_back(batches + (i == 0 ? 0 : left) + d);
    for (std::size_t d = 0; d < contracting[i]->size(); ++d) mapping.push_back(batches + left + right + d);
    wide[i] = builder.broadcast(turned, dims, std::move(mapping));
  }
  Dims reduced(a.lhs_contracting.size());
  std::iota(reduced.begin(), reduced.end(), batches + left + right);
  return builder.reduce(graph::ReduceKind::sum, builder.binary(Op::multiply, wide[0], wide[1]), std::move(reduced));
}

}  // namespace stitch::kernel
