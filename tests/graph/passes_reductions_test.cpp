// Rule tables of reductions and contractions.
#include <gtest/gtest.h>

#include "graph/literal.h"
#include "graph/passes/contractions.h"
#include "graph/passes/reductions.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using test::expect_rewrites;
using test::MakeGraph;
using Values = std::vector<Value>;

constexpr DType f32 = DType::f32, s32 = DType::s32;
constexpr ReduceKind sum = ReduceKind::sum, max = ReduceKind::max;

TEST(PassesReductions, OfBroadcasts) {
  const auto reduced = [](ReduceKind kind, DType dtype, Dims dimensions) -> MakeGraph {
    return [=](Builder& b) {
      return Values{b.reduce(kind, b.broadcast(b.parameter(dtype, {3, 4}), {5, 3, 2, 4}, {1, 3}), dimensions)};
    };
  };
  expect_rewrites(simplify_reductions,
                  {
                      {"sum over repeated dimensions", reduced(sum, f32, {0, 2}),
                       [](Builder& b) {
                         return Values{b.binary(Op::multiply, b.parameter(f32, {3, 4}), b.filled(f32, {3, 4}, 10))};
                       }},
                      {"max over repeated dimensions", reduced(max, f32, {0, 2}),
                       [](Builder& b) {
                         return Values{b.parameter(f32, {3, 4})};
                       }},
                      {"sum over one of each", reduced(sum, f32, {2, 3}),
                       [](Builder& b) {
                         const Value inner = b.reduce(sum, b.parameter(f32, {3, 4}), {1});
                         return Values{b.broadcast(b.binary(Op::multiply, inner, b.filled(f32, {3}, 2)), {5, 3}, {1})};
                       }},
                      {"sum over a mapped dimension alone", reduced(sum, s32, {3}),
                       [](Builder& b) {
                         return Values{b.broadcast(b.reduce(sum, b.parameter(s32, {3, 4}), {1}), {5, 3, 2}, {1})};
                       }},
                      {"xor of an even number", reduced(ReduceKind::bit_xor, s32, {2}),
                       [](Builder& b) {
                         b.parameter(s32, {3, 4});
                         return Values{b.filled(s32, {5, 3, 4}, 0)};
                       }},
                      {"a count that bf16 does not hold is multiplied in f32",
                       [](Builder& b) {
                         return Values{b.reduce(sum, b.broadcast(b.parameter(DType::bf16, {3}), {257, 3}, {1}), {0})};
                       },
                       [](Builder& b) {
                         const Value wide = b.convert(b.parameter(DType::bf16, {3}), f32);
                         return Values{b.convert(b.binary(Op::multiply, wide, b.filled(f32, {3}, 257)), DType::bf16)};
                       }},
                      {"what is summed, too, is rounded once", reduced(sum, DType::bf16, {2, 3}),
                       [](Builder& b) {
                         const Value inner = b.reduce(sum, b.convert(b.parameter(DType::bf16, {3, 4}), f32), {1});
                         const Value twice = b.binary(Op::multiply, inner, b.filled(f32, {3}, 2));
                         return Values{b.broadcast(b.convert(twice, DType::bf16), {5, 3}, {1})};
                       }},
                      {"a product of repetitions stays", reduced(ReduceKind::product, f32, {0})},
                  });
}

TEST(PassesReductions, OfLayoutsAndReductions) {
  expect_rewrites(
      simplify_reductions,
      {
          {"nested",
           [](Builder& b) {
             return Values{b.reduce(sum, b.reduce(sum, b.parameter(f32, {2, 3, 4, 5}), {1}), {0, 2})};
           },
           [](Builder& b) {
             return Values{b.reduce(sum, b.parameter(f32, {2, 3, 4, 5}), {0, 1, 3})};
           }},
          {"nested, other kinds",
           [](Builder& b) {
             return Values{b.reduce(sum, b.reduce(max, b.parameter(f32, {2, 3}), {1}), {0})};
           }},
          {"of a reshape that splits",
           [](Builder& b) {
             return Values{b.reduce(sum, b.reshape(b.parameter(f32, {24, 5}), {4, 6, 5}), {0, 1})};
           },
           [](Builder& b) {
             return Values{b.reduce(sum, b.parameter(f32, {24, 5}), {0})};
           }},
          {"of a reshape that merges",
           [](Builder& b) {
             return Values{b.reduce(sum, b.reshape(b.parameter(f32, {4, 6, 5}), {24, 5}), {1})};
           },
           [](Builder& b) {
             return Values{b.reshape(b.reduce(sum, b.parameter(f32, {4, 6, 5}), {2}), {24})};
           }},
          {"of a reshape that takes extents of 1 out",
           [](Builder& b) {
             return Values{b.reduce(sum, b.reshape(b.parameter(f32, {4, 1, 6}), {4, 6}), {1})};
           }},
          {"of a reshape that takes extents of 1 out and merges",
           [](Builder& b) {
             return Values{b.reduce(sum, b.reshape(b.parameter(f32, {1, 4, 1, 6}), {24}), {0})};
           },
           [](Builder& b) {
             return Values{b.reduce(sum, b.reshape(b.parameter(f32, {1, 4, 1, 6}), {4, 6}), {0, 1})};
           }},
          {"of a reshape, in the middle of a group",
           [](Builder& b) {
             return Values{b.reduce(sum, b.reshape(b.parameter(f32, {24, 5}), {4, 6, 5}), {1})};
           }},
          {"of a transpose",
           [](Builder& b) {
             return Values{b.reduce(max, b.transpose(b.parameter(f32, {2, 3, 4}), {2, 1, 0}), {0})};
           },
           [](Builder& b) {
             return Values{b.transpose(b.reduce(max, b.parameter(f32, {2, 3, 4}), {2}), {1, 0})};
           }},
          {"of nothing",
           [](Builder& b) {
             return Values{b.reduce(sum, b.parameter(f32, {2, 0}), {1})};
           },
           [](Builder& b) {
             b.parameter(f32, {2, 0});
             return Values{b.filled(f32, {2}, 0)};
           }},
          {"of a pad with the identity",
           [](Builder& b) {
             const Value padded = b.pad(b.parameter(f32, {3, 4}), b.scalar(f32, 0), {1, 2}, {0, 3}, {1, 0});
             return Values{b.reduce(sum, padded, {0}), b.reduce(sum, padded, {0, 1})};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {3, 4});
             return Values{b.pad(b.reduce(sum, x, {0}), b.scalar(f32, 0), {2}, {3}), b.reduce(sum, x, {0, 1})};
           }},
          {"of a pad with something else",
           [](Builder& b) {
             return Values{b.reduce(max, b.pad(b.parameter(f32, {3}), b.scalar(f32, 0), {1}, {0}), {0})};
           }},
          {"of a concatenation along a kept dimension",
           [](Builder& b) {
             const Value x = b.parameter(f32, {3, 4}), y = b.parameter(f32, {3, 2});
             return Values{b.reduce(sum, b.concatenate({x, y}, 1), {0})};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {3, 4}), y = b.parameter(f32, {3, 2});
             return Values{b.concatenate({b.reduce(sum, x, {0}), b.reduce(sum, y, {0})}, 0)};
           }},
          {"of a concatenation along the reduced dimension",
           [](Builder& b) {
             const Value x = b.parameter(f32, {3, 4}), y = b.parameter(f32, {3, 2});
             return Values{b.reduce(max, b.concatenate({x, y}, 1), {1})};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {3, 4}), y = b.parameter(f32, {3, 2});
             return Values{b.binary(Op::maximum, b.reduce(max, x, {1}), b.reduce(max, y, {1}))};
           }},
          {"of a concatenation that is a result too",
           [](Builder& b) {
             const Value x = b.concatenate({b.parameter(f32, {3, 4}), b.parameter(f32, {3, 2})}, 1);
             return Values{x, b.reduce(sum, x, {0})};
           }},
          {"of a concatenation of computed parts that is a result too",
           [](Builder& b) {
             const Value x = b.unary(Op::exp, b.parameter(f32, {3, 4})),
                         y = b.unary(Op::tanh, b.parameter(f32, {3, 2}));
             const Value both = b.concatenate({x, y}, 1);
             return Values{both, b.reduce(sum, both, {0})};
           },
           [](Builder& b) {
             const Value x = b.unary(Op::exp, b.parameter(f32, {3, 4})),
                         y = b.unary(Op::tanh, b.parameter(f32, {3, 2}));
             return Values{b.concatenate({x, y}, 1), b.concatenate({b.reduce(sum, x, {0}), b.reduce(sum, y, {0})}, 0)};
           }},
          {"of a concatenation of computed parts along the reduced dimension that is a result too",
           [](Builder& b) {
             const Value x = b.unary(Op::exp, b.parameter(f32, {3, 4})),
                         y = b.unary(Op::tanh, b.parameter(f32, {3, 2}));
             const Value both = b.concatenate({x, y}, 1);
             return Values{both, b.reduce(sum, both, {1})};
           }},
      });
}

const Dims rows = {6, 8};

Value along_rows(Builder& b, Value x) { return b.broadcast(x, rows, {0}); }
Value along_columns(Builder& b, Value x) { return b.broadcast(x, rows, {1}); }

/// Σ over dimension 1 of rows × columns.
MakeGraph row_sum(const std::function<Value(Builder&, Value x, Value per_row, Value per_column)>& make,
                  DType dtype = f32) {
  return [=](Builder& b) {
    const Value x = b.parameter(dtype, rows), r = b.parameter(dtype, {6}), c = b.parameter(dtype, {8});
    return Values{b.reduce(sum, make(b, x, r, c), {1})};
  };
}

MakeGraph of_rows(const std::function<Value(Builder&, Value x, Value per_row, Value per_column)>& make,
                  DType dtype = f32) {
  return [=](Builder& b) {
    const Value x = b.parameter(dtype, rows), r = b.parameter(dtype, {6}), c = b.parameter(dtype, {8});
    return Values{make(b, x, r, c)};
  };
}

TEST(PassesReductions, FactorsComeOut) {
  const auto times = [](Builder& b, Value x, Value y) { return b.binary(Op::multiply, x, y); };
  const MakeGraph scaled = row_sum([=](Builder& b, Value x, Value r, Value) { return times(b, x, along_rows(b, r)); });
  expect_rewrites(
      simplify_reductions,
      {
          {"constant along the sum", scaled,
           of_rows([=](Builder& b, Value x, Value r, Value) { return times(b, b.reduce(sum, x, {1}), r); })},
          {"varies along the sum",
           row_sum([=](Builder& b, Value x, Value, Value c) { return times(b, x, along_columns(b, c)); })},
          {"splat", row_sum([=](Builder& b, Value x, Value, Value) { return times(b, x, b.filled(f32, rows, 2)); }),
           of_rows([=](Builder& b, Value x, Value, Value) {
             return times(b, b.reduce(sum, x, {1}), b.filled(f32, {6}, 2));
           })},
          {"sign", row_sum([=](Builder& b, Value x, Value, Value) { return b.unary(Op::negate, x); }),
           of_rows([=](Builder& b, Value x, Value, Value) { return b.unary(Op::negate, b.reduce(sum, x, {1})); })},
          {"divisor", row_sum([=](Builder& b, Value x, Value r, Value) {
             return b.binary(Op::divide, x, along_rows(b, b.unary(Op::exp, r)));
           }),
           of_rows([=](Builder& b, Value x, Value r, Value) {
             return b.binary(Op::divide, b.reduce(sum, x, {1}), b.unary(Op::exp, r));
           })},
          {"deep in a product, and equal products get one form",
           [=](Builder& b) {
             const Value x = b.parameter(f32, rows), y = b.parameter(f32, rows), r = b.parameter(f32, {6});
             const Value left = times(b, times(b, x, along_rows(b, r)), y);
             const Value right = times(b, x, times(b, along_rows(b, b.unary(Op::exp, r)), y));
             return Values{b.reduce(sum, left, {1}), b.reduce(sum, right, {1})};
           },
           [=](Builder& b) {
             const Value x = b.parameter(f32, rows), y = b.parameter(f32, rows), r = b.parameter(f32, {6});
             const Value both = b.reduce(sum, times(b, x, y), {1});
             return Values{times(b, both, r), times(b, both, b.unary(Op::exp, r))};
           }},
          {"squares", row_sum([=](Builder& b, Value x, Value r, Value) {
             const Value y = times(b, x, along_rows(b, r));
             return times(b, y, y);
           }),
           of_rows([=](Builder& b, Value x, Value r, Value) {
             return times(b, times(b, b.reduce(sum, times(b, x, x), {1}), r), r);
           })},
          {"integers", row_sum([=](Builder& b, Value x, Value r, Value) { return times(b, x, along_rows(b, r)); }, s32),
           of_rows([=](Builder& b, Value x, Value r, Value) { return times(b, b.reduce(sum, x, {1}), r); }, s32)},
          {"f16 sums overflow too soon",
           row_sum([=](Builder& b, Value x, Value r, Value) { return times(b, x, along_rows(b, r)); }, DType::f16)},
          {"maxima have no factors",
           [=](Builder& b) {
             const Value x = b.parameter(f32, rows), r = b.parameter(f32, {6});
             return Values{b.reduce(max, times(b, x, along_rows(b, r)), {1})};
           }},
      });
  PassContext strict;
  strict.reassociate = false;
  expect_rewrites(simplify_reductions, {{"strict", scaled}}, strict);
}

TEST(PassesReductions, DeviationsFromTheirMeanSumToZero) {
  const auto deviation = [](Builder& b, Value x, double share, const Dims& over) {
    const Value mean = b.binary(Op::multiply, b.reduce(sum, x, over), b.filled(f32, {over[0] == 1 ? 6 : 8}, share));
    return b.binary(Op::subtract, x, b.broadcast(mean, rows, {over[0] == 1 ? 0 : 1}));
  };
  const auto zeros = [](Dims dims) -> MakeGraph {
    return [=](Builder& b) {
      b.parameter(f32, rows);
      return Values{b.filled(f32, dims, 0)};
    };
  };
  expect_rewrites(
      simplify_reductions,
      {
          {"rows",
           [=](Builder& b) { return Values{b.reduce(sum, deviation(b, b.parameter(f32, rows), 1.0 / 8, {1}), {1})}; },
           zeros({6})},
          {"columns, scaled",
           [=](Builder& b) {
             const Value d = deviation(b, b.parameter(f32, rows), 1.0 / 6, {0});
             return Values{b.reduce(sum, b.binary(Op::multiply, d, b.filled(f32, rows, 2)), {0})};
           },
           zeros({8})},
          {"another share is no mean",
           [=](Builder& b) { return Values{b.reduce(sum, deviation(b, b.parameter(f32, rows), 1.0 / 9, {1}), {1})}; }},
          {"the other dimension's mean",
           [=](Builder& b) { return Values{b.reduce(sum, deviation(b, b.parameter(f32, rows), 1.0 / 8, {1}), {0})}; }},
      });
}

TEST(PassesReductions, EqualExtentsAreNotOneDimension) {
  // mean over dimension 1, subtracted along dimension 1 of a square: no deviation of anything.
  expect_rewrites(simplify_reductions,
                  {{"transposed mean", [](Builder& b) {
                      const Value x = b.parameter(f32, {4, 4});
                      const Value mean = b.binary(Op::multiply, b.reduce(sum, x, {1}), b.filled(f32, {4}, 0.25));
                      return Values{b.reduce(sum, b.binary(Op::subtract, x, b.broadcast(mean, {4, 4}, {1})), {1})};
                    }}});
}

TEST(PassesReductions, OneHotSums) {
  const auto one_hot = [](DType index, bool reversed) -> MakeGraph {
    return [=](Builder& b) {
      const Value i = b.parameter(index, {6}), v = b.parameter(f32, {6});
      const Value line = b.broadcast(b.iota(index, {8}, 0), rows, {1}), chosen = b.broadcast(i, rows, {0});
      const Value hit = reversed ? b.compare(Comparison::eq, chosen, line) : b.compare(Comparison::eq, line, chosen);
      return Values{b.reduce(sum, b.select(hit, along_rows(b, v), b.filled(f32, rows, 0)), {1})};
    };
  };
  const auto tested = [](Builder& b, Value i, Value v, bool is_signed) {
    const DType dtype = b.dtype(i);
    Value inside = b.compare(Comparison::lt, i, b.filled(dtype, {6}, 8));
    if (is_signed) inside = b.binary(Op::bit_and, b.compare(Comparison::ge, i, b.filled(dtype, {6}, 0)), inside);
    return b.select(inside, v, b.filled(f32, {6}, 0));
  };
  expect_rewrites(simplify_reductions,
                  {
                      {"signed", one_hot(s32, false),
                       [=](Builder& b) {
                         const Value i = b.parameter(s32, {6}), v = b.parameter(f32, {6});
                         return Values{tested(b, i, v, true)};
                       }},
                      {"unsigned, sides exchanged", one_hot(DType::u32, true),
                       [=](Builder& b) {
                         const Value i = b.parameter(DType::u32, {6}), v = b.parameter(f32, {6});
                         return Values{tested(b, i, v, false)};
                       }},
                      {"what is selected varies along the sum",
                       [](Builder& b) {
                         const Value i = b.parameter(s32, {6}), v = b.parameter(f32, rows);
                         const Value hit =
                             b.compare(Comparison::eq, b.broadcast(b.iota(s32, {8}, 0), rows, {1}), along_rows(b, i));
                         return Values{b.reduce(sum, b.select(hit, v, b.filled(f32, rows, 0)), {1})};
                       }},
                  });
}

DotAttributes matmul(Dims lhs_batch, Dims rhs_batch, Dims lhs, Dims rhs) {
  return {std::move(lhs_batch), std::move(rhs_batch), std::move(lhs), std::move(rhs), f32};
}

// Large enough for a library, small enough to evaluate.
constexpr std::int64_t m = 3, k = 5, n = 4;

TEST(PassesReductions, DotsTakeOverTransposes) {
  expect_rewrites(simplify_contractions,
                  {
                      {"of a stored matrix",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {m, k}), w = b.parameter(f32, {n, k});
                         return Values{b.dot(x, b.transpose(w, {1, 0}), matmul({}, {}, {1}, {0}))};
                       },
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {m, k}), w = b.parameter(f32, {n, k});
                         return Values{b.dot(x, w, matmul({}, {}, {1}, {1}))};
                       }},
                      {"K of attention: a head split, no real transposition",
                       [](Builder& b) {
                         const Value q = b.parameter(f32, {2, 7, 6, 4}), key = b.parameter(f32, {2, 6, 7, 4});
                         return Values{b.dot(q, b.transpose(key, {0, 2, 3, 1}), matmul({0, 1}, {0, 1}, {3}, {2}))};
                       },
                       [](Builder& b) {
                         const Value q = b.parameter(f32, {2, 7, 6, 4}), key = b.parameter(f32, {2, 6, 7, 4});
                         return Values{b.dot(q, b.transpose(key, {0, 2, 1, 3}), matmul({0, 1}, {0, 1}, {3}, {3}))};
                       }},
                      {"batch dimensions must lead",
                       [](Builder& b) {
                         const Value q = b.transpose(b.parameter(f32, {2, 6, 7, 4}), {0, 2, 1, 3}),
                                     key = b.parameter(f32, {2, 7, 6, 4});
                         return Values{b.dot(q, key, matmul({0, 1}, {0, 1}, {3}, {3}))};
                       }},
                      {"of the result: sides exchanged",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {m, k}), w = b.parameter(f32, {k, n});
                         return Values{b.transpose(b.dot(x, w, matmul({}, {}, {1}, {0})), {1, 0})};
                       },
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {m, k}), w = b.parameter(f32, {k, n});
                         return Values{b.dot(w, x, matmul({}, {}, {0}, {1}))};
                       }},
                      {"of the result: what is left keeps rows whole",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {2, 7, 6, 4}), y = b.parameter(f32, {2, 7, 6, 5});
                         const Value product = b.dot(x, y, matmul({0, 1}, {0, 1}, {2}, {2}));  // [2,7,4,5]
                         return Values{b.transpose(product, {0, 3, 1, 2})};
                       },
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {2, 7, 6, 4}), y = b.parameter(f32, {2, 7, 6, 5});
                         const Value product = b.dot(y, x, matmul({0, 1}, {0, 1}, {2}, {2}));  // [2,7,5,4]
                         return Values{b.transpose(product, {0, 2, 1, 3})};
                       }},
                      {"of a result that others use",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {m, k}), w = b.parameter(f32, {k, n});
                         const Value product = b.dot(x, w, matmul({}, {}, {1}, {0}));
                         return Values{product, b.transpose(product, {1, 0})};
                       }},
                  });
}

TEST(PassesReductions, DotsThatAreNoMatrixProducts) {
  expect_rewrites(simplify_contractions,
                  {
                      {"outer product",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {2, 3}), y = b.parameter(f32, {2, 4});
                         return Values{b.dot(x, y, matmul({0}, {0}, {}, {}))};
                       },
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {2, 3}), y = b.parameter(f32, {2, 4});
                         return Values{b.binary(Op::multiply, b.broadcast(x, {2, 3, 4}, {0, 1}),
                                                b.broadcast(y, {2, 3, 4}, {0, 2}))};
                       }},
                      {"matrix and vector, in f32",
                       [](Builder& b) {
                         const Value x = b.parameter(DType::bf16, {6, 8}), v = b.parameter(DType::bf16, {8});
                         return Values{b.dot(x, v, DotAttributes{{}, {}, {1}, {0}, DType::bf16})};
                       },
                       [](Builder& b) {
                         const Value x = b.convert(b.parameter(DType::bf16, {6, 8}), f32);
                         const Value v = b.broadcast(b.convert(b.parameter(DType::bf16, {8}), f32), {6, 8}, {1});
                         return Values{b.convert(b.reduce(sum, b.binary(Op::multiply, x, v), {1}), DType::bf16)};
                       }},
                      {"a large matrix is left to the library",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {1025, 1024}), v = b.parameter(f32, {1024});
                         return Values{b.dot(x, v, matmul({}, {}, {1}, {0}))};
                       }},
                  });
}

}  // namespace
}  // namespace stitch::graph
