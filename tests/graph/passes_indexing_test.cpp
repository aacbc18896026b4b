// Rule tables of slices, indexing and integer ranges.
#include <gtest/gtest.h>

#include "graph/literal.h"
#include "graph/passes/indexing.h"
#include "graph/passes/integer_ranges.h"
#include "graph/passes/range_analysis.h"
#include "graph/passes/slices.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using test::expect_rewrites;
using test::MakeGraph;
using test::PassCase;
using Values = std::vector<Value>;

constexpr DType f32 = DType::f32, s32 = DType::s32, u32 = DType::u32, u64 = DType::u64, pred = DType::pred;

TEST(PassesIndexing, SlicesMoveUp) {
  expect_rewrites(
      simplify_slices,
      {
          {"of everything",
           [](Builder& b) {
             return Values{b.slice(b.parameter(f32, {4, 6}), {0, 0}, {4, 6})};
           },
           [](Builder& b) {
             return Values{b.parameter(f32, {4, 6})};
           }},
          {"of a slice",
           [](Builder& b) { return Values{b.slice(b.slice(b.parameter(f32, {20}), {2}, {18}, {3}), {1}, {5}, {2})}; },
           [](Builder& b) { return Values{b.slice(b.parameter(f32, {20}), {5}, {12}, {6})}; }},
          {"of a broadcast",
           [](Builder& b) {
             return Values{b.slice(b.broadcast(b.parameter(f32, {6}), {4, 6}, {1}), {1, 2}, {3, 5})};
           },
           [](Builder& b) {
             return Values{b.broadcast(b.slice(b.parameter(f32, {6}), {2}, {5}), {2, 3}, {1})};
           }},
          {"inside one part of a concatenation",
           [](Builder& b) {
             const Value x = b.parameter(f32, {4}), y = b.parameter(f32, {6});
             return Values{b.slice(b.concatenate({x, y}, 0), {5}, {9}, {2})};
           },
           [](Builder& b) {
             b.parameter(f32, {4});
             return Values{b.slice(b.parameter(f32, {6}), {1}, {4}, {2})};
           }},
          {"limits beyond the last element",
           [](Builder& b) {
             const Value x = b.parameter(f32, {4, 6});
             return Values{b.slice(x, {1, 1}, {4, 6}, {2, 3})};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {4, 6});
             return Values{b.slice(x, {1, 1}, {4, 5}, {2, 3})};
           }},
          {"whole parts of a concatenation",
           [](Builder& b) {
             const Value x = b.parameter(f32, {4}), y = b.parameter(f32, {6}), z = b.parameter(f32, {2});
             const Value all = b.concatenate({x, y, z}, 0);
             return Values{b.slice(all, {4}, {12}), b.slice(all, {0}, {10})};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {4}), y = b.parameter(f32, {6}), z = b.parameter(f32, {2});
             return Values{b.concatenate({y, z}, 0), b.concatenate({x, y}, 0)};
           }},
          {"through parts of a concatenation with other users",
           [](Builder& b) {
             const Value x = b.parameter(f32, {4, 3}), y = b.parameter(f32, {6, 3});
             const Value all = b.concatenate({x, y}, 0);
             return Values{all, b.slice(all, {0, 1}, {10, 2})};
           }},
          {"inside what is padded",
           [](Builder& b) {
             const Value x = b.pad(b.parameter(f32, {6}), b.scalar(f32, 9), {2}, {3});
             return Values{b.slice(x, {3}, {7})};
           },
           [](Builder& b) { return Values{b.slice(b.parameter(f32, {6}), {1}, {5})}; }},
          {"inside the padding",
           [](Builder& b) {
             const Value x = b.pad(b.parameter(f32, {6}), b.scalar(f32, 9), {2}, {3});
             return Values{b.slice(x, {8}, {11})};
           },
           [](Builder& b) {
             b.parameter(f32, {6});
             return Values{b.filled(f32, {3}, 9)};
           }},
          {"of a reshape, an untouched dimension",
           [](Builder& b) {
             return Values{b.slice(b.reshape(b.parameter(f32, {4, 6}), {4, 2, 3}), {1, 0, 0}, {3, 2, 3})};
           },
           [](Builder& b) {
             return Values{b.reshape(b.slice(b.parameter(f32, {4, 6}), {1, 0}, {3, 6}), {2, 2, 3})};
           }},
          {"of a reshape, the outer part of a split",
           [](Builder& b) {
             return Values{b.slice(b.reshape(b.parameter(f32, {4, 6}), {4, 2, 3}), {0, 1, 0}, {4, 2, 3})};
           },
           [](Builder& b) {
             return Values{b.reshape(b.slice(b.parameter(f32, {4, 6}), {0, 3}, {4, 6}), {4, 1, 3})};
           }},
          {"of a reshape that takes extents of 1 out",
           [](Builder& b) {
             return Values{b.slice(b.reshape(b.parameter(f32, {1, 24}), {24}), {3}, {9})};
           }},
          {"of a reshape that takes extents of 1 out and splits",
           [](Builder& b) {
             return Values{b.slice(b.reshape(b.parameter(f32, {1, 24}), {4, 6}), {1, 0}, {3, 6})};
           },
           [](Builder& b) {
             const Value flat = b.reshape(b.parameter(f32, {1, 24}), {24});
             return Values{b.reshape(b.slice(flat, {6}, {18}), {2, 6})};
           }},
          {"of a reshape, the inner part of a split",
           [](Builder& b) {
             return Values{b.slice(b.reshape(b.parameter(f32, {4, 6}), {4, 2, 3}), {0, 0, 1}, {4, 2, 3})};
           }},
          {"of a transpose",
           [](Builder& b) {
             return Values{b.slice(b.transpose(b.parameter(f32, {4, 6}), {1, 0}), {1, 0}, {3, 4})};
           },
           [](Builder& b) {
             return Values{b.transpose(b.slice(b.parameter(f32, {4, 6}), {0, 1}, {4, 3}), {1, 0})};
           }},
          {"of an iota", [](Builder& b) { return Values{b.slice(b.iota(s32, {9}, 0), {1}, {8}, {2})}; },
           [](Builder& b) {
             const Value scaled = b.binary(Op::multiply, b.iota(s32, {4}, 0), b.filled(s32, {4}, 2));
             return Values{b.binary(Op::add, scaled, b.filled(s32, {4}, 1))};
           }},
          {"of an element-wise operator",
           [](Builder& b) {
             const Value x = b.parameter(f32, {8}), y = b.parameter(f32, {8});
             return Values{b.slice(b.binary(Op::add, x, y), {2}, {5})};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {8}), y = b.parameter(f32, {8});
             return Values{b.binary(Op::add, b.slice(x, {2}, {5}), b.slice(y, {2}, {5}))};
           }},
          {"of an element-wise operator with other users",
           [](Builder& b) {
             const Value x = b.unary(Op::exp, b.parameter(f32, {8}));
             return Values{b.slice(x, {0}, {4}), b.slice(x, {4}, {8})};
           }},
      });
}

TEST(PassesIndexing, ConcatenationsMerge) {
  expect_rewrites(simplify_slices,
                  {
                      {"flattened, without empty parts",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {2}), y = b.parameter(f32, {3}), none = b.parameter(f32, {0});
                         return Values{b.concatenate({x, none, b.concatenate({y, x}, 0)}, 0)};
                       },
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {2}), y = b.parameter(f32, {3});
                         b.parameter(f32, {0});
                         return Values{b.concatenate({x, y, x}, 0)};
                       }},
                      {"slices that form the tensor again",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {4, 9});
                         return Values{b.concatenate(
                             {b.slice(x, {0, 0}, {4, 2}), b.slice(x, {0, 2}, {4, 5}), b.slice(x, {0, 5}, {4, 9})}, 1)};
                       },
                       [](Builder& b) {
                         return Values{b.parameter(f32, {4, 9})};
                       }},
                      {"slices out of order stay",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {8});
                         return Values{b.concatenate({b.slice(x, {4}, {8}), b.slice(x, {0}, {4})}, 0)};
                       }},
                      {"repetitions of one value",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {3});
                         return Values{b.concatenate({b.broadcast(x, {2, 3}, {1}), b.broadcast(x, {5, 3}, {1})}, 0)};
                       },
                       [](Builder& b) {
                         return Values{b.broadcast(b.parameter(f32, {3}), {7, 3}, {1})};
                       }},
                      {"a splat at an end is padding",
                       [](Builder& b) {
                         return Values{b.concatenate({b.parameter(f32, {3}), b.filled(f32, {2}, 7)}, 0)};
                       },
                       [](Builder& b) { return Values{b.pad(b.parameter(f32, {3}), b.scalar(f32, 7), {0}, {2})}; }},
                  });
}

TEST(PassesIndexing, Pads) {
  const auto padded = [](Builder& b, Value x, std::int64_t low, std::int64_t high) {
    return b.pad(x, b.scalar(f32, 0), {0, low}, {0, high});
  };
  expect_rewrites(
      simplify_slices,
      {
          {"by nothing",
           [=](Builder& b) {
             return Values{padded(b, b.parameter(f32, {2, 3}), 0, 0)};
           },
           [](Builder& b) {
             return Values{b.parameter(f32, {2, 3})};
           }},
          {"of a pad",
           [=](Builder& b) {
             return Values{padded(b, padded(b, b.parameter(f32, {2, 3}), 1, 0), 2, 3)};
           },
           [=](Builder& b) {
             return Values{padded(b, b.parameter(f32, {2, 3}), 3, 3)};
           }},
          {"that crops",
           [=](Builder& b) {
             return Values{padded(b, b.parameter(f32, {2, 6}), -1, -2)};
           },
           [](Builder& b) {
             return Values{b.slice(b.parameter(f32, {2, 6}), {0, 1}, {2, 4})};
           }},
          {"that crops and pads",
           [=](Builder& b) {
             return Values{padded(b, b.parameter(f32, {2, 6}), -1, 2)};
           },
           [=](Builder& b) {
             return Values{padded(b, b.slice(b.parameter(f32, {2, 6}), {0, 1}, {2, 6}), 0, 2)};
           }},
          {"of its own fill",
           [=](Builder& b) {
             return Values{padded(b, b.filled(f32, {2, 3}, 0), 1, 1)};
           },
           [](Builder& b) {
             return Values{b.filled(f32, {2, 5}, 0)};
           }},
          {"the gradient of a split is a concatenation",
           [=](Builder& b) {
             const Value x = b.parameter(f32, {2, 3}), y = b.parameter(f32, {2, 4}), z = b.parameter(f32, {2, 1});
             const Value sum = b.binary(Op::add, padded(b, x, 5, 0), padded(b, y, 1, 3));
             return Values{b.binary(Op::add, sum, padded(b, z, 0, 7))};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {2, 3}), y = b.parameter(f32, {2, 4}), z = b.parameter(f32, {2, 1});
             return Values{b.concatenate({z, y, x}, 1)};
           }},
          {"pieces that leave ends free",
           [=](Builder& b) {
             const Value x = b.parameter(f32, {2, 3}), y = b.parameter(f32, {2, 4});
             return Values{b.binary(Op::add, padded(b, x, 5, 1), padded(b, y, 1, 4))};
           },
           [=](Builder& b) {
             const Value x = b.parameter(f32, {2, 3}), y = b.parameter(f32, {2, 4});
             return Values{padded(b, b.concatenate({y, x}, 1), 1, 1)};
           }},
          {"pieces that overlap",
           [=](Builder& b) {
             const Value x = b.parameter(f32, {2, 3}), y = b.parameter(f32, {2, 4});
             return Values{b.binary(Op::add, padded(b, x, 2, 0), padded(b, y, 0, 1))};
           }},
          {"other fills",
           [](Builder& b) {
             const Value x = b.parameter(f32, {2}), y = b.parameter(f32, {2}), one = b.scalar(f32, 1);
             return Values{b.binary(Op::add, b.pad(x, one, {0}, {2}), b.pad(y, one, {2}, {0}))};
           }},
      });
}

TEST(PassesIndexing, Reversals) {
  expect_rewrites(simplify_slices,
                  {
                      {"twice",
                       [](Builder& b) {
                         return Values{b.reverse(b.reverse(b.parameter(f32, {2, 3}), {0, 1}), {1})};
                       },
                       [](Builder& b) {
                         return Values{b.reverse(b.parameter(f32, {2, 3}), {0})};
                       }},
                      {"of repetitions",
                       [](Builder& b) {
                         return Values{b.reverse(b.broadcast(b.parameter(f32, {3}), {2, 3}, {1}), {0})};
                       },
                       [](Builder& b) {
                         return Values{b.broadcast(b.parameter(f32, {3}), {2, 3}, {1})};
                       }},
                  });
}

TEST(PassesIndexing, DynamicSlices) {
  const auto start = [](Builder& b, std::int64_t value) { return b.scalar(s32, static_cast<double>(value)); };
  expect_rewrites(
      simplify_indexing,
      {
          {"constant starts are clamped",
           [=](Builder& b) {
             const Value x = b.parameter(f32, {6, 8});
             return Values{b.add(Op::dynamic_slice, {x, start(b, -3), start(b, 7)}, DynamicSliceAttributes{{2, 3}})};
           },
           [](Builder& b) {
             return Values{b.slice(b.parameter(f32, {6, 8}), {0, 5}, {2, 8})};
           }},
          {"starts along whole dimensions are 0",
           [](Builder& b) {
             const Value x = b.parameter(f32, {6, 8}), i = b.parameter(s32, {});
             return Values{b.add(Op::dynamic_slice, {x, i, i}, DynamicSliceAttributes{{2, 8}})};
           },
           [=](Builder& b) {
             const Value x = b.parameter(f32, {6, 8}), i = b.parameter(s32, {});
             return Values{b.add(Op::dynamic_slice, {x, i, start(b, 0)}, DynamicSliceAttributes{{2, 8}})};
           }},
          {"an update of everything",
           [](Builder& b) {
             const Value x = b.parameter(f32, {6}), y = b.parameter(f32, {6}), i = b.parameter(s32, {});
             return Values{b.add(Op::dynamic_update_slice, {x, y, i}, UpdateAttributes{})};
           },
           [](Builder& b) {
             b.parameter(f32, {6});
             const Value y = b.parameter(f32, {6});
             b.parameter(s32, {});
             return Values{y};
           }},
          {"an update in the middle",
           [=](Builder& b) {
             const Value x = b.parameter(f32, {6}), y = b.parameter(f32, {2});
             return Values{b.add(Op::dynamic_update_slice, {x, y, start(b, 3)}, UpdateAttributes{})};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {6}), y = b.parameter(f32, {2});
             return Values{b.concatenate({b.slice(x, {0}, {3}), y, b.slice(x, {5}, {6})}, 0)};
           }},
          {"an update of zeros",
           [=](Builder& b) {
             const Value y = b.parameter(f32, {2, 3});
             return Values{b.add(Op::dynamic_update_slice, {b.filled(f32, {6, 8}, 0), y, start(b, 1), start(b, 2)},
                                 UpdateAttributes{})};
           },
           [](Builder& b) {
             return Values{b.pad(b.parameter(f32, {2, 3}), b.scalar(f32, 0), {1, 2}, {3, 3})};
           }},
      });
}

GatherAttributes take_rows(std::int64_t columns) { return {{1}, {0}, {0}, {}, {}, 1, {1, columns}}; }
GatherAttributes take_along() { return {{}, {1}, {1}, {0}, {0}, 1, {1, 1}}; }
ScatterAttributes put_along(ReduceKind kind) { return {{}, {1}, {1}, {0}, {0}, 1, kind, false}; }

TEST(PassesIndexing, GathersTakeFromOperands) {
  expect_rewrites(
      simplify_indexing,
      {
          {"log-softmax at the label",
           [](Builder& b) {
             const Value x = b.parameter(f32, {4, 32}), m = b.parameter(f32, {4}), i = b.parameter(s32, {4});
             const Value shifted = b.binary(Op::subtract, x, b.broadcast(m, {4, 32}, {0}));
             return Values{b.add(Op::gather, {shifted, i}, take_along()), b.unary(Op::exp, shifted)};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {4, 32}), m = b.parameter(f32, {4}), i = b.parameter(s32, {4});
             const Value shifted = b.binary(Op::subtract, x, b.broadcast(m, {4, 32}, {0}));
             return Values{b.binary(Op::subtract, b.add(Op::gather, {x, i}, take_along()), m),
                           b.unary(Op::exp, shifted)};
           }},
          {"a converted table is converted where it is taken",
           [](Builder& b) {
             const Value table = b.parameter(f32, {64, 8}), i = b.parameter(s32, {5});
             return Values{b.add(Op::gather, {b.convert(table, DType::bf16), i}, take_rows(8))};
           },
           [](Builder& b) {
             const Value table = b.parameter(f32, {64, 8}), i = b.parameter(s32, {5});
             return Values{b.convert(b.add(Op::gather, {table, i}, take_rows(8)), DType::bf16)};
           }},
          {"most of a table is not worth it",
           [](Builder& b) {
             const Value table = b.parameter(f32, {16, 8}), i = b.parameter(s32, {5});
             return Values{b.add(Op::gather, {b.unary(Op::exp, table), i}, take_rows(8))};
           }},
          {"of rows that are equal",
           [](Builder& b) {
             const Value row = b.parameter(f32, {8}), i = b.parameter(s32, {5});
             return Values{b.add(Op::gather, {b.broadcast(row, {16, 8}, {1}), i}, take_rows(8))};
           },
           [](Builder& b) {
             const Value row = b.parameter(f32, {8});
             b.parameter(s32, {5});
             return Values{b.broadcast(row, {5, 8}, {1})};
           }},
          {"of columns that are equal stays",
           [](Builder& b) {
             const Value column = b.parameter(f32, {16}), i = b.parameter(s32, {5});
             return Values{b.add(Op::gather, {b.broadcast(column, {16, 8}, {0}), i}, take_rows(8))};
           }},
      });
}

TEST(PassesIndexing, ScattersOfOneElementEachAreElementWise) {
  const auto put = [](ReduceKind kind, bool into_zeros, DType index) -> MakeGraph {
    return [=](Builder& b) {
      const Value x = into_zeros ? b.filled(f32, {4, 6}, 0) : b.parameter(f32, {4, 6});
      const Value i = b.parameter(index, {4}), u = b.parameter(f32, {4});
      return Values{b.add(Op::scatter, {x, i, u}, put_along(kind))};
    };
  };
  const auto selected = [](std::optional<Op> combiner, bool into_zeros, DType index) -> MakeGraph {
    return [=](Builder& b) {
      const Value x = into_zeros ? b.filled(f32, {4, 6}, 0) : b.parameter(f32, {4, 6});
      const Value i = b.parameter(index, {4}), u = b.broadcast(b.parameter(f32, {4}), {4, 6}, {0});
      const Value line = b.broadcast(b.iota(index, {6}, 0), {4, 6}, {1});
      const Value hit = b.compare(Comparison::eq, line, b.broadcast(i, {4, 6}, {0}));
      return Values{b.select(hit, combiner ? b.binary(*combiner, x, u) : u, x)};
    };
  };
  expect_rewrites(
      simplify_indexing,
      {
          {"add into zeros", put(ReduceKind::sum, true, s32), selected(std::nullopt, true, s32)},
          {"add", put(ReduceKind::sum, false, s32), selected(Op::add, false, s32)},
          {"maximum", put(ReduceKind::max, false, DType::s64), selected(Op::maximum, false, DType::s64)},
          {"replace", put(ReduceKind::replace, false, u32), selected(std::nullopt, false, u32)},
          {"several updates a row stay",
           [](Builder& b) {
             const Value x = b.parameter(f32, {4, 6}), i = b.parameter(s32, {4, 2}), u = b.parameter(f32, {4, 2});
             ScatterAttributes a{{}, {1}, {1}, {0}, {0}, 2, ReduceKind::sum, false};
             return Values{b.add(Op::scatter, {x, i, u}, a)};
           }},
      });
}

TEST(PassesIndexing, AssignmentsToARunOfRowsAreConcatenations) {
  using Rows = std::vector<std::int64_t>;
  const auto assigned = [](const Rows& rows, ReduceKind kind, bool fills) -> MakeGraph {
    return [=](Builder& b) {
      const std::int64_t count = rows.size();
      const Value x = fills ? b.filled(f32, {6, 4}, 3) : b.parameter(f32, {6, 4}), u = b.parameter(f32, {count, 4});
      const Value i = b.constant(dense_integers({DType::s64, {count}}, rows));
      return Values{b.add(Op::scatter, {x, i, u}, ScatterAttributes{{1}, {0}, {0}, {}, {}, 1, kind, false})};
    };
  };
  expect_rewrites(simplify_indexing,
                  {
                      {"x[2:5] = u", assigned({2, 3, 4}, ReduceKind::replace, false),
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {6, 4}), u = b.parameter(f32, {3, 4});
                         return Values{b.concatenate({b.slice(x, {0, 0}, {2, 4}), u, b.slice(x, {5, 0}, {6, 4})}, 0)};
                       }},
                      {"x[5:] = u", assigned({5}, ReduceKind::replace, false),
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {6, 4}), u = b.parameter(f32, {1, 4});
                         return Values{b.concatenate({b.slice(x, {0, 0}, {5, 4}), u}, 0)};
                       }},
                      {"of a constant", assigned({1, 2}, ReduceKind::replace, true),
                       [](Builder& b) {
                         const Value u = b.parameter(f32, {2, 4});
                         return Values{b.add(Op::pad, {u, b.scalar(f32, 3)}, PadAttributes{{1, 0}, {3, 0}, {0, 0}})};
                       }},
                      {"x[:, 1:3] = u, the updates' rows last",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {4, 6}), u = b.parameter(f32, {4, 2});
                         const Value i = b.constant(dense_integers({s32, {2}}, Rows{1, 2}));
                         return Values{b.add(Op::scatter, {x, i, u},
                                             ScatterAttributes{{0}, {1}, {1}, {}, {}, 1, ReduceKind::replace, false})};
                       },
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {4, 6}), u = b.parameter(f32, {4, 2});
                         return Values{b.concatenate({b.slice(x, {0, 0}, {4, 1}), u, b.slice(x, {0, 3}, {4, 6})}, 1)};
                       }},
                      {"x[:, 1:3] = uᵀ",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {4, 6}), u = b.parameter(f32, {2, 4});
                         const Value i = b.constant(dense_integers({s32, {2}}, Rows{1, 2}));
                         return Values{b.add(Op::scatter, {x, i, u},
                                             ScatterAttributes{{1}, {1}, {1}, {}, {}, 1, ReduceKind::replace, false})};
                       },
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {4, 6}), u = b.transpose(b.parameter(f32, {2, 4}), {1, 0});
                         return Values{b.concatenate({b.slice(x, {0, 0}, {4, 1}), u, b.slice(x, {0, 3}, {4, 6})}, 1)};
                       }},
                      {"a gap stays", assigned({1, 3}, ReduceKind::replace, false)},
                      {"out of range stays", assigned({4, 5, 6}, ReduceKind::replace, false)},
                      {"before the first row stays", assigned({-1, 0}, ReduceKind::replace, false)},
                      {"sums stay", assigned({2, 3}, ReduceKind::sum, false)},
                      {"of no row at all", assigned({}, ReduceKind::replace, false),
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {6, 4});
                         b.parameter(f32, {0, 4});
                         return Values{x};
                       }},
                  });
}

TEST(PassesIndexing, SumsIntoFewRowsAreMaskedColumnSums) {
  const auto added = [](std::int64_t rows, ReduceKind kind, std::int64_t window, bool into_zeros) -> MakeGraph {
    return [=](Builder& b) {
      const Value x = into_zeros ? b.filled(f32, {rows, 6}, 0) : b.parameter(f32, {rows, 6});
      const Value i = b.parameter(s32, {4, 16}), u = b.parameter(f32, {4, 16, window});
      return Values{b.add(Op::scatter, {x, i, u}, ScatterAttributes{{2}, {0}, {0}, {}, {}, 2, kind, false})};
    };
  };
  const auto summed = [](bool into_zeros) -> MakeGraph {
    return [=](Builder& b) {
      const Value x = into_zeros ? b.filled(f32, {2, 6}, 0) : b.parameter(f32, {2, 6});
      const Value i = b.parameter(s32, {4, 16}), u = b.parameter(f32, {4, 16, 6});
      std::vector<Value> rows;
      for (const std::int64_t row : {0, 1}) {
        const Value here = b.compare(Comparison::eq, i, b.filled(s32, {4, 16}, static_cast<double>(row)));
        const Value chosen = b.select(b.broadcast(here, {4, 16, 6}, {0, 1}), u, b.filled(f32, {4, 16, 6}, 0));
        rows.push_back(b.reshape(b.reduce(ReduceKind::sum, chosen, {0, 1}), {1, 6}));
      }
      const Value all = b.concatenate(rows, 0);
      return Values{into_zeros ? all : b.binary(Op::add, x, all)};
    };
  };
  expect_rewrites(simplify_indexing, {
                                         {"into zeros", added(2, ReduceKind::sum, 6, true), summed(true)},
                                         {"into a table", added(2, ReduceKind::sum, 6, false), summed(false)},
                                         {"maxima stay", added(2, ReduceKind::max, 6, false)},
                                         {"many rows stay", added(5, ReduceKind::sum, 6, false)},
                                         {"parts of rows stay", added(2, ReduceKind::sum, 5, false)},
                                     });
}

TEST(PassesIndexing, RangesDecide) {
  const auto fill = [](Builder& b, DType dtype, double value) { return b.filled(dtype, {9}, value); };
  const auto verdict = [=](bool value) -> MakeGraph {
    return [=](Builder& b) { return Values{fill(b, pred, value ? 1 : 0)}; };
  };
  const auto iota = [](Builder& b) { return b.iota(s32, {9}, 0); };
  expect_rewrites(
      apply_integer_ranges,
      {
          {"iota < n", [=](Builder& b) { return Values{b.compare(Comparison::lt, iota(b), fill(b, s32, 9))}; },
           verdict(true)},
          {"iota < 0", [=](Builder& b) { return Values{b.compare(Comparison::lt, iota(b), fill(b, s32, 0))}; },
           verdict(false)},
          {"iota < 5 depends", [=](Builder& b) { return Values{b.compare(Comparison::lt, iota(b), fill(b, s32, 5))}; }},
          {"iota == 20", [=](Builder& b) { return Values{b.compare(Comparison::eq, iota(b), fill(b, s32, 20))}; },
           verdict(false)},
          {"unsigned >= 0",
           [=](Builder& b) { return Values{b.compare(Comparison::ge, b.parameter(u32, {9}), fill(b, u32, 0))}; },
           [=](Builder& b) {
             b.parameter(u32, {9});
             return Values{fill(b, pred, 1)};
           }},
          {"all indices in range, as JAX tests it",
           [=](Builder& b) {
             const Value i = b.binary(Op::add, iota(b), fill(b, s32, 3));
             const Value inside = b.binary(Op::bit_and, b.compare(Comparison::ge, i, fill(b, s32, 0)),
                                           b.compare(Comparison::lt, i, fill(b, s32, 12)));
             return Values{b.reduce(ReduceKind::bit_and, inside, {0})};
           },
           [](Builder& b) { return Values{b.scalar(pred, 1)}; }},
          {"high words of a small counter",
           [](Builder& b) {
             const Value i = b.binary(Op::multiply, b.iota(u64, {9}, 0), b.filled(u64, {9}, 98304));
             return Values{b.binary(Op::shift_right_logical, i, b.filled(u64, {9}, 32))};
           },
           [](Builder& b) { return Values{b.filled(u64, {9}, 0)}; }},
          {"high words of a counter that may wrap",
           [](Builder& b) {
             const Value i = b.binary(Op::multiply, b.iota(u64, {9}, 0), b.filled(u64, {9}, 4294967296.0));
             return Values{b.binary(Op::shift_right_logical, i, b.filled(u64, {9}, 32))};
           }},
          {"32-bit products may wrap",
           [=](Builder& b) {
             const Value i = b.binary(Op::multiply, iota(b), fill(b, s32, 1073741824));
             return Values{b.compare(Comparison::ge, i, fill(b, s32, 0))};
           }},
      });
}

TEST(PassesIndexing, OperatorsThatCannotAct) {
  const auto fill = [](Builder& b, DType dtype, double value) { return b.filled(dtype, {9}, value); };
  const auto iota = [](Builder& b) { return b.iota(s32, {9}, 0); };
  const MakeGraph just_iota = [=](Builder& b) { return Values{iota(b)}; };
  const auto uniform = [=](Builder& b) {  // in [0, 1): 23 random mantissa bits under the exponent of 1
    const Value bits = b.binary(Op::shift_right_logical, b.parameter(u32, {9}), fill(b, u32, 9));
    return b.binary(Op::add, b.bitcast(b.binary(Op::bit_or, bits, fill(b, u32, 0x3f800000)), f32), fill(b, f32, -1));
  };
  expect_rewrites(
      apply_integer_ranges,
      {
          {"max(iota, 0)", [=](Builder& b) { return Values{b.binary(Op::maximum, iota(b), fill(b, s32, 0))}; },
           just_iota},
          {"min(iota, 3) acts", [=](Builder& b) { return Values{b.binary(Op::minimum, iota(b), fill(b, s32, 3))}; }},
          {"clamp",
           [=](Builder& b) {
             return Values{b.add(Op::clamp, {fill(b, s32, 0), iota(b), fill(b, s32, 8)})};
           },
           just_iota},
          {"abs", [=](Builder& b) { return Values{b.unary(Op::abs, iota(b))}; }, just_iota},
          {"remainder", [=](Builder& b) { return Values{b.binary(Op::remainder, iota(b), fill(b, s32, 9))}; },
           just_iota},
          {"mask", [=](Builder& b) { return Values{b.binary(Op::bit_and, iota(b), fill(b, s32, 15))}; }, just_iota},
          {"mask that cuts", [=](Builder& b) { return Values{b.binary(Op::bit_and, iota(b), fill(b, s32, 7))}; }},
          {"max(0, uniform)", [=](Builder& b) { return Values{b.binary(Op::maximum, uniform(b), fill(b, f32, 0))}; },
           [=](Builder& b) { return Values{uniform(b)}; }},
          {"max(0, exp x) stays: NaN",
           [=](Builder& b) {
             return Values{b.binary(Op::maximum, b.unary(Op::exp, b.parameter(f32, {9})), fill(b, f32, 0))};
           }},
      });
}

TEST(PassesIndexing, ConstantsInTheirNormalFormStay) {
  expect_rewrites(apply_integer_ranges,
                  {
                      {"a splat with extents of 1",
                       [](Builder& b) {
                         return Values{b.reshape(b.filled(s32, {4}, 7), {4, 1})};
                       }},
                      {"one element",
                       [](Builder& b) {
                         return Values{b.reshape(b.scalar(u64, 7), {1, 1})};
                       }},
                      {"a decided test with extents of 1",
                       [](Builder& b) {
                         return Values{b.compare(Comparison::ge, b.parameter(u32, {4, 1}), b.filled(u32, {4, 1}, 0))};
                       },
                       [](Builder& b) {
                         b.parameter(u32, {4, 1});
                         return Values{b.filled(pred, {4, 1}, 1)};
                       }},
                  });
}

TEST(PassesIndexing, NarrowingMovesUp) {
  expect_rewrites(
      apply_integer_ranges,
      {
          {"the counters of partitionable random bits",
           [](Builder& b) {
             const Value row = b.binary(Op::multiply, b.parameter(u64, {9}), b.filled(u64, {9}, 768));
             return Values{b.convert(b.binary(Op::add, row, b.parameter(u64, {9})), u32)};
           },
           [](Builder& b) {
             const Value row = b.binary(Op::multiply, b.convert(b.parameter(u64, {9}), u32), b.filled(u32, {9}, 768));
             return Values{b.binary(Op::add, row, b.convert(b.parameter(u64, {9}), u32))};
           }},
          {"not through shifts to the right",
           [](Builder& b) {
             const Value x = b.binary(Op::shift_right_logical, b.parameter(u64, {9}), b.filled(u64, {9}, 3));
             return Values{b.convert(x, u32)};
           }},
          {"not through division",
           [](Builder& b) {
             return Values{b.convert(b.binary(Op::divide, b.parameter(u64, {9}), b.filled(u64, {9}, 3)), u32)};
           }},
      });
}

TEST(PassesIndexing, ParameterRangesAreUsed) {
  // A loop counter runs from 0 to 99: neither end of the index normalisation can act.
  const Graph before = test::made([](Builder& b) {
    const Value i = b.parameter(s32, {});
    return Values{b.compare(Comparison::lt, i, b.scalar(s32, 0)), b.compare(Comparison::lt, i, b.scalar(s32, 100))};
  });
  const Graph expected = test::made([](Builder& b) {
    b.parameter(s32, {});
    return Values{b.scalar(pred, 0), b.scalar(pred, 1)};
  });
  PassContext context;
  context.parameter_ranges = {{0, 99, false}};
  const Graph actual = test::run_pass(apply_integer_ranges, before, context, "counter");
  EXPECT_EQ(region_key(test::tidy(actual)), region_key(test::tidy(expected))) << to_text(actual);
}

/// Ranges hold every value: for random graphs of integers and floats, each node's values lie in its interval.
TEST(PassesIndexing, RangesAreSound) {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    test::RandomGraphOptions options;
    options.seed = seed;
    options.operators = 24;
    options.arg_reduce = 1;
    options.dtypes = seed % 2 == 0 ? std::vector{DType::s32, DType::u8, DType::f32, pred}
                                   : std::vector{DType::s8, DType::u32, DType::s64, DType::bf16};
    Graph graph = test::random_graph(options);
    std::vector<Value> all;
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (graph.node(id).op != Op::parameter) all.push_back({id, 0});
    }
    graph.set_results(all);
    EvaluateOptions rounded;
    rounded.round = true;
    const auto values = evaluate(graph, test::random_arguments(graph, seed), rounded);
    ASSERT_TRUE(values.ok()) << values.error().message;
    std::size_t next = 0;
    RangeAnalysis ranges({});
    const Result<int> visited = rewrite(graph, [&](Rewriter& rewriter, const Node& node) -> Replacement {
      if (node.op == Op::parameter) return {};
      const ValueRange range = ranges.of(rewriter, node);
      const Tensor& tensor = (*values)[next++];
      for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const double value = tensor.at(i);
        const bool inside = std::isnan(value) ? range.may_be_nan : value >= range.low && value <= range.high;
        EXPECT_TRUE(inside) << "seed " << seed << " " << to_string(node.op) << " " << to_string(node.type()) << ": "
                            << value << " not in [" << range.low << ", " << range.high << "]";
        if (!inside) break;
      }
      return {};
    });
    ASSERT_TRUE(visited.ok());
  }
}

}  // namespace
}  // namespace stitch::graph
