#pragma once

#include <vector>

#include "base/random.h"
#include "graph/builder.h"
#include "lab/products/product_case.h"

namespace stitch::lab {

// What all kinds are drawn of.
using graph::Dims;
using graph::DType;
using graph::Op;
using graph::Value;

/// A random product while it is drawn: numbers, extents and types as all kinds need them.
class ProductDraft {
 public:
  explicit ProductDraft(std::uint64_t seed) : random_(seed) {}

  bool one_in(std::uint64_t n) { return random_.below(n) == 0; }
  /// Both ends included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(high - low + 1)));
  }
  template <class T>
  T of(const std::vector<T>& list) {
    return list[random_.below(list.size())];
  }
  /// Up to about `most`: seldom 0 or 1, often a power of two, a neighbour of one, or a multiple of 8.
  std::int64_t extent(std::int64_t most);
  /// Of operands that tensor cores have sums in f32 for.
  graph::DType half() { return one_in(2) ? graph::DType::f16 : graph::DType::bf16; }

  graph::Builder b;

 private:
  Random random_;
};

// Each draws one kind. product_drawing.cpp
RandomProduct draw_product(ProductDraft& draft, std::int64_t deeper);  ///< with element-wise neighbours
RandomProduct draw_normed(ProductDraft& draft);                        ///< rows are combined behind it
RandomProduct draw_column_sums(ProductDraft& draft);                   ///< and of groups of its rows their sums
RandomProduct draw_gates(ProductDraft& draft);
RandomProduct draw_merged(ProductDraft& draft);  ///< several that share an operand

// operand_drawing.cpp
RandomProduct draw_computed(ProductDraft& draft);  ///< of operands that are computed while they are loaded
RandomProduct draw_scaled(ProductDraft& draft);    ///< of narrow operands, with scales of parts of the depth
RandomProduct draw_summed(ProductDraft& draft);    ///< several that are added
RandomProduct draw_grouped(ProductDraft& draft);   ///< of groups of rows, each with a matrix of its own

// convolution_drawing.cpp
RandomProduct draw_convolution(ProductDraft& draft);

// attention_drawing.cpp
RandomProduct draw_attention(ProductDraft& draft);
RandomProduct draw_gradients(ProductDraft& draft);  ///< of an attention
RandomProduct draw_chain(ProductDraft& draft);      ///< f(x·A)·B

/// The draft's graph under constraints. Aborts on a graph that the builder refuses: the drawing is at fault.
RandomProduct finished(ProductDraft& draft, const std::vector<graph::Value>& results, std::string kind,
                       std::string dtype, std::string neighbour, const graph::Constraints& constraints = {});

}  // namespace stitch::lab
