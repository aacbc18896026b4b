// Rule tables of the passes that move and merge layout operators.
#include <gtest/gtest.h>

#include "graph/literal.h"
#include "graph/passes/dim_groups.h"
#include "graph/passes/layout_chains.h"
#include "graph/passes/sink_broadcasts.h"
#include "graph/passes/sink_layouts.h"
#include "graph/passes/unit_dimensions.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using test::expect_rewrites;
using Values = std::vector<Value>;

constexpr DType f32 = DType::f32, s32 = DType::s32;

TEST(PassesLayout, DimGroupsAreTheFinest) {
  using Groups = std::vector<DimGroup>;
  EXPECT_EQ(dim_groups({4, 8}, {4, 8}), (Groups{{0, 1, 0, 1}, {1, 2, 1, 2}}));
  EXPECT_EQ(dim_groups({4, 8}, {32}), (Groups{{0, 2, 0, 1}}));
  EXPECT_EQ(dim_groups({2, 6, 5}, {12, 5}), (Groups{{0, 2, 0, 1}, {2, 3, 1, 2}}));
  EXPECT_EQ(dim_groups({6, 4}, {4, 6}), (Groups{{0, 2, 0, 2}}));
  EXPECT_EQ(dim_groups({3, 1, 2}, {3, 2, 1}), (Groups{{0, 2, 0, 1}, {2, 3, 1, 3}}));
  EXPECT_EQ(dim_groups({}, {1, 1}), (Groups{{0, 0, 0, 2}}));
  EXPECT_EQ(dim_groups({0, 2}, {2, 0}), std::nullopt);
  EXPECT_EQ(dim_groups({2}, {3}), std::nullopt);
}

TEST(PassesLayout, UnitDimensionsLeaveTheOperators) {
  expect_rewrites(
      drop_unit_dimensions,
      {
          {"element-wise",
           [](Builder& b) {
             const Value x = b.parameter(f32, {4, 1, 3}), y = b.parameter(f32, {4, 1, 3});
             return Values{b.binary(Op::add, x, y)};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {4, 1, 3}), y = b.parameter(f32, {4, 1, 3});
             return Values{b.reshape(b.binary(Op::add, b.reshape(x, {4, 3}), b.reshape(y, {4, 3})), {4, 1, 3})};
           }},
          {"threefry, two results",
           [](Builder& b) {
             const Value k = b.parameter(DType::u32, {1});
             const Value bits = b.add(Op::threefry2x32, {k, k, k, k});
             return Values{bits, {bits.node, 1}};
           },
           [](Builder& b) {
             const Value k = b.reshape(b.parameter(DType::u32, {1}), {});
             const Value bits = b.add(Op::threefry2x32, {k, k, k, k});
             return Values{b.reshape(bits, {1}), b.reshape({bits.node, 1}, {1})};
           }},
          {"broadcast of and into extents of 1",
           [](Builder& b) {
             return Values{b.broadcast(b.parameter(f32, {3, 1}), {2, 3, 1, 1}, {1, 2})};
           },
           [](Builder& b) {
             const Value x = b.reshape(b.parameter(f32, {3, 1}), {3});
             return Values{b.reshape(b.broadcast(x, {2, 3}, {1}), {2, 3, 1, 1})};
           }},
          {"a transpose that moves an extent of 1 is a reshape",
           [](Builder& b) {
             return Values{b.transpose(b.parameter(f32, {4, 1, 3}), {1, 0, 2})};
           },
           [](Builder& b) {
             return Values{b.reshape(b.parameter(f32, {4, 1, 3}), {1, 4, 3})};
           }},
          {"reduce over an extent of 1",
           [](Builder& b) {
             return Values{b.reduce(ReduceKind::max, b.parameter(f32, {4, 1, 3}), {1, 2})};
           },
           [](Builder& b) {
             return Values{b.reduce(ReduceKind::max, b.reshape(b.parameter(f32, {4, 1, 3}), {4, 3}), {1})};
           }},
          {"slice, pad, concatenate, reverse",
           [](Builder& b) {
             const Value x = b.parameter(f32, {1, 6});
             const Value cut = b.slice(x, {0, 2}, {1, 5});
             const Value wide = b.pad(cut, b.scalar(f32, 7), {0, 1}, {0, 0});
             return Values{b.reverse(b.concatenate({wide, x}, 1), {0, 1})};
           },
           [](Builder& b) {
             const Value x = b.reshape(b.parameter(f32, {1, 6}), {6});
             const Value wide = b.pad(b.slice(x, {2}, {5}), b.scalar(f32, 7), {1}, {0});
             return Values{b.reshape(b.reverse(b.concatenate({wide, x}, 0), {0}), {1, 10})};
           }},
          {"padding an extent of 1 keeps it",
           [](Builder& b) {
             return Values{b.pad(b.parameter(f32, {1, 6}), b.scalar(f32, 0), {1, 0}, {1, 0})};
           }},
          {"iota along an extent of 1 is zeros",
           [](Builder& b) {
             return Values{b.iota(s32, {1, 3}, 0)};
           },
           [](Builder& b) {
             return Values{b.reshape(b.filled(s32, {3}, 0), {1, 3})};
           }},
          {"dynamic slices lose the start",
           [](Builder& b) {
             const Value x = b.parameter(f32, {1, 6}), i = b.parameter(s32, {}), j = b.parameter(s32, {});
             return Values{b.add(Op::dynamic_slice, {x, i, j}, DynamicSliceAttributes{{1, 2}}),
                           b.add(Op::dynamic_update_slice, {x, b.slice(x, {0, 0}, {1, 2}), i, j}, UpdateAttributes{})};
           },
           [](Builder& b) {
             const Value x = b.reshape(b.parameter(f32, {1, 6}), {6});
             b.parameter(s32, {});
             const Value j = b.parameter(s32, {});
             return Values{
                 b.reshape(b.add(Op::dynamic_slice, {x, j}, DynamicSliceAttributes{{2}}), {1, 2}),
                 b.reshape(b.add(Op::dynamic_update_slice, {x, b.slice(x, {0}, {2}), j}, UpdateAttributes{}), {1, 6})};
           }},
          {"index vectors of one entry become implicit",
           [](Builder& b) {
             const Value x = b.parameter(f32, {5, 3}), i = b.parameter(s32, {4, 1, 1});
             GatherAttributes a{{2}, {0}, {0}, {}, {}, 2, {1, 3}};
             return Values{b.add(Op::gather, {x, i}, a)};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {5, 3}), i = b.parameter(s32, {4, 1, 1});
             GatherAttributes a{{1}, {0}, {0}, {}, {}, 1, {1, 3}};
             return Values{b.reshape(b.add(Op::gather, {x, b.reshape(i, {4})}, a), {4, 1, 3})};
           }},
          {"take_along_axis: batched scatter",
           [](Builder& b) {
             const Value x = b.parameter(f32, {4, 6}), i = b.parameter(s32, {4, 1, 1}), u = b.parameter(f32, {4, 1});
             ScatterAttributes a{{}, {1}, {1}, {0}, {0}, 2, ReduceKind::sum, false};
             return Values{b.add(Op::scatter, {x, i, u}, a)};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {4, 6}), i = b.parameter(s32, {4, 1, 1}), u = b.parameter(f32, {4, 1});
             ScatterAttributes a{{}, {1}, {1}, {0}, {0}, 1, ReduceKind::sum, false};
             return Values{b.add(Op::scatter, {x, b.reshape(i, {4}), b.reshape(u, {4})}, a)};
           }},
          {"dot",
           [](Builder& b) {
             const Value x = b.parameter(f32, {1, 4, 5}), y = b.parameter(f32, {1, 5, 1});
             return Values{b.dot(x, y, DotAttributes{{0}, {0}, {2}, {1}, f32})};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {1, 4, 5}), y = b.parameter(f32, {1, 5, 1});
             return Values{b.reshape(
                 b.dot(b.reshape(x, {4, 5}), b.reshape(y, {5}), DotAttributes{{}, {}, {1}, {0}, f32}), {1, 4, 1})};
           }},
      });
}

TEST(PassesLayout, ChainsMerge) {
  expect_rewrites(
      merge_layout_chains,
      {
          {"reshape of reshape",
           [](Builder& b) {
             return Values{b.reshape(b.reshape(b.parameter(f32, {4, 6}), {24}), {2, 12})};
           },
           [](Builder& b) {
             return Values{b.reshape(b.parameter(f32, {4, 6}), {2, 12})};
           }},
          {"reshape there and back",
           [](Builder& b) {
             return Values{b.reshape(b.reshape(b.parameter(f32, {4, 6}), {24}), {4, 6})};
           },
           [](Builder& b) {
             return Values{b.parameter(f32, {4, 6})};
           }},
          {"transpose of transpose",
           [](Builder& b) {
             return Values{b.transpose(b.transpose(b.parameter(f32, {2, 3, 4}), {2, 0, 1}), {0, 2, 1})};
           },
           [](Builder& b) {
             return Values{b.transpose(b.parameter(f32, {2, 3, 4}), {2, 1, 0})};
           }},
          {"double transpose",
           [](Builder& b) {
             return Values{b.transpose(b.transpose(b.parameter(f32, {2, 3}), {1, 0}), {1, 0})};
           },
           [](Builder& b) {
             return Values{b.parameter(f32, {2, 3})};
           }},
          {"broadcast of broadcast",
           [](Builder& b) {
             return Values{b.broadcast(b.broadcast(b.parameter(f32, {3}), {2, 3}, {1}), {5, 2, 3}, {1, 2})};
           },
           [](Builder& b) {
             return Values{b.broadcast(b.parameter(f32, {3}), {5, 2, 3}, {2})};
           }},
          {"what JAX prints for keepdims",
           [](Builder& b) {
             const Value keep = b.broadcast(b.reshape(b.parameter(f32, {4}), {4, 1}), {4, 1}, {0, 1});
             return Values{b.broadcast(b.reshape(keep, {4}), {4, 8}, {0})};
           },
           [](Builder& b) {
             return Values{b.broadcast(b.parameter(f32, {4}), {4, 8}, {0})};
           }},
          {"a broadcast that adds extents of 1 is a reshape",
           [](Builder& b) {
             return Values{b.broadcast(b.parameter(f32, {4}), {1, 4, 1}, {1})};
           },
           [](Builder& b) {
             return Values{b.reshape(b.parameter(f32, {4}), {1, 4, 1})};
           }},
          {"reshape of a broadcast, groups apart",
           [](Builder& b) {
             return Values{b.reshape(b.broadcast(b.parameter(f32, {6}), {4, 6}, {1}), {2, 2, 3, 2})};
           },
           [](Builder& b) {
             return Values{b.broadcast(b.reshape(b.parameter(f32, {6}), {3, 2}), {2, 2, 3, 2}, {2, 3})};
           }},
          {"reshape of a broadcast, groups mixed",
           [](Builder& b) {
             return Values{b.reshape(b.broadcast(b.parameter(f32, {6}), {4, 6}, {1}), {24})};
           }},
          {"transpose of a broadcast",
           [](Builder& b) {
             return Values{b.transpose(b.broadcast(b.parameter(f32, {3, 4}), {2, 3, 4}, {1, 2}), {2, 0, 1})};
           },
           [](Builder& b) {
             return Values{b.broadcast(b.transpose(b.parameter(f32, {3, 4}), {1, 0}), {4, 2, 3}, {0, 2})};
           }},
          {"iota of two dimensions",
           [](Builder& b) {
             return Values{b.iota(s32, {4, 5}, 1)};
           },
           [](Builder& b) {
             return Values{b.broadcast(b.iota(s32, {5}, 0), {4, 5}, {1})};
           }},
          {"reshape of a constant",
           [](Builder& b) {
             const std::vector<double> values = {1, 2, 3, 4};
             return Values{b.reshape(b.constant(dense({f32, {4}}, values)), {2, 2})};
           },
           [](Builder& b) {
             const std::vector<double> values = {1, 2, 3, 4};
             return Values{b.constant(dense({f32, {2, 2}}, values))};
           }},
      });
}

TEST(PassesLayout, WorkIsDoneOnTheSmallSideOfBroadcasts) {
  expect_rewrites(
      sink_broadcasts,
      {
          {"one mapping",
           [](Builder& b) {
             const Value x = b.parameter(f32, {8}), y = b.parameter(f32, {8});
             return Values{b.binary(Op::add, b.broadcast(x, {4, 8}, {1}), b.broadcast(y, {4, 8}, {1}))};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {8}), y = b.parameter(f32, {8});
             return Values{b.broadcast(b.binary(Op::add, x, y), {4, 8}, {1})};
           }},
          {"with a splat",
           [](Builder& b) {
             const Value x = b.broadcast(b.parameter(f32, {8}), {4, 8}, {1});
             return Values{b.binary(Op::multiply, x, b.filled(f32, {4, 8}, 3))};
           },
           [](Builder& b) {
             return Values{
                 b.broadcast(b.binary(Op::multiply, b.parameter(f32, {8}), b.filled(f32, {8}, 3)), {4, 8}, {1})};
           }},
          {"a union that leaves a dimension out",
           [](Builder& b) {
             const Value x = b.parameter(f32, {2}), y = b.parameter(f32, {2, 3});
             return Values{b.binary(Op::add, b.broadcast(x, {2, 3, 5}, {0}), b.broadcast(y, {2, 3, 5}, {0, 1}))};
           },
           [](Builder& b) {
             const Value x = b.parameter(f32, {2}), y = b.parameter(f32, {2, 3});
             return Values{b.broadcast(b.binary(Op::add, b.broadcast(x, {2, 3}, {0}), y), {2, 3, 5}, {0, 1})};
           }},
          {"a union of everything stays",
           [](Builder& b) {
             const Value x = b.parameter(f32, {2}), y = b.parameter(f32, {3});
             return Values{b.binary(Op::add, b.broadcast(x, {2, 3}, {0}), b.broadcast(y, {2, 3}, {1}))};
           }},
          {"chains of operators",
           [](Builder& b) {
             const Value x = b.broadcast(b.parameter(f32, {8}), {4, 8}, {1});
             return Values{b.unary(Op::exp, b.unary(Op::negate, x))};
           },
           [](Builder& b) {
             return Values{b.broadcast(b.unary(Op::exp, b.unary(Op::negate, b.parameter(f32, {8}))), {4, 8}, {1})};
           }},
          {"two results",
           [](Builder& b) {
             const Value k = b.broadcast(b.parameter(DType::u32, {}), {4}, {});
             const Value bits = b.add(Op::threefry2x32, {k, k, k, k});
             return Values{bits, {bits.node, 1}};
           },
           [](Builder& b) {
             const Value k = b.parameter(DType::u32, {});
             const Value bits = b.add(Op::threefry2x32, {k, k, k, k});
             return Values{b.broadcast(bits, {4}, {}), b.broadcast({bits.node, 1}, {4}, {})};
           }},
      });
}

TEST(PassesLayout, LayoutsSinkWhereThatSavesOne) {
  expect_rewrites(sink_layouts,
                  {
                      {"two reshapes",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {4, 6}), y = b.parameter(f32, {4, 6});
                         return Values{b.binary(Op::add, b.reshape(x, {24}), b.reshape(y, {24}))};
                       },
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {4, 6}), y = b.parameter(f32, {4, 6});
                         return Values{b.reshape(b.binary(Op::add, x, y), {24})};
                       }},
                      {"transpose with a bias and a splat",
                       [](Builder& b) {
                         const Value x = b.transpose(b.parameter(f32, {4, 6}), {1, 0}), bias = b.parameter(f32, {4});
                         const Value sum = b.binary(Op::add, x, b.broadcast(bias, {6, 4}, {1}));
                         return Values{b.binary(Op::multiply, sum, b.filled(f32, {6, 4}, 2))};
                       },
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {4, 6}), bias = b.parameter(f32, {4});
                         const Value sum = b.binary(Op::add, x, b.broadcast(bias, {4, 6}, {0}));
                         return Values{b.transpose(b.binary(Op::multiply, sum, b.filled(f32, {4, 6}, 2)), {1, 0})};
                       }},
                      {"the bias follows a split of its dimension",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {2, 3, 2, 5}), bias = b.parameter(f32, {10});
                         return Values{b.binary(Op::multiply, b.reshape(x, {6, 10}), b.broadcast(bias, {6, 10}, {1}))};
                       },
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {2, 3, 2, 5}), bias = b.parameter(f32, {10});
                         const Value wide = b.broadcast(b.reshape(bias, {2, 5}), {2, 3, 2, 5}, {2, 3});
                         return Values{b.reshape(b.binary(Op::multiply, x, wide), {6, 10})};
                       }},
                      {"not when the other operand would need one",
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {4, 6}), y = b.parameter(f32, {24});
                         return Values{b.binary(Op::add, b.reshape(x, {24}), y)};
                       }},
                      {"not when others use what it would move",
                       [](Builder& b) {
                         const Value x = b.reshape(b.parameter(f32, {4, 6}), {24});
                         return Values{b.unary(Op::exp, x), x};
                       }},
                      {"a value used twice by one operator is one use",
                       [](Builder& b) {
                         const Value x = b.reshape(b.parameter(f32, {4, 6}), {24});
                         return Values{b.binary(Op::multiply, x, x)};
                       },
                       [](Builder& b) {
                         const Value x = b.parameter(f32, {4, 6});
                         return Values{b.reshape(b.binary(Op::multiply, x, x), {24})};
                       }},
                      {"extents of 1 are taken out above",
                       [](Builder& b) {
                         return Values{b.unary(Op::exp, b.reshape(b.parameter(f32, {4, 1, 6}), {4, 6}))};
                       }},
                  });
}

}  // namespace
}  // namespace stitch::graph
