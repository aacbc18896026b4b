// What leaves a loop's body to be computed over all turns, and what must stay.
#include <gtest/gtest.h>

#include "graph/literal.h"
#include "graph/passes/loops/loop_fission.h"
#include "graph/simplify.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph {
namespace {

using test::made;
using test::MakeGraph;
using Values = std::vector<Value>;
using Turn = std::function<Values(Builder&, Value, const Values&)>;

constexpr DType f32 = DType::f32, s32 = DType::s32;
constexpr ReduceKind sum = ReduceKind::sum;
constexpr std::int64_t turns = 5;

struct Counter {
  std::int64_t start = 0, step = 1, trips = turns;
  DType dtype = s32;
  bool is_known = true;
};

std::shared_ptr<const Graph> region(const MakeGraph& make) { return std::make_shared<const Graph>(made(make)); }

/// The integer in the dtype of `like`.
Value integer(Builder& b, Value like, std::int64_t value) {
  return b.constant(dense_integers({b.dtype(like), {}}, std::span(&value, 1)));
}

/// A loop that carries a counter and `initial`; `turn` makes the next of these from the counter and them. Result i + 1
/// is what becomes of initial[i].
Value loop(Builder& b, const Values& initial, const Turn& turn, const Counter& counter = {}) {
  const auto parameters = [&](Builder& r) {
    Values all = {r.parameter(counter.dtype, {})};
    for (const Value& value : initial) all.push_back(r.parameter(b.dtype(value), b.dims(value)));
    return all;
  };
  const auto body = region([&](Builder& r) {
    const Values all = parameters(r);
    Values next = turn(r, all[0], Values(all.begin() + 1, all.end()));
    next.insert(next.begin(), r.binary(Op::add, all[0], integer(r, all[0], counter.step)));
    return next;
  });
  const auto condition = region([&](Builder& r) {
    const Value i = parameters(r)[0];
    return Values{r.compare(counter.step > 0 ? Comparison::lt : Comparison::gt, i,
                            integer(r, i, counter.start + counter.step * counter.trips))};
  });
  Values operands = initial;
  const std::int64_t start = counter.start;
  operands.insert(operands.begin(), b.constant(dense_integers({counter.dtype, {}}, std::span(&start, 1))));
  return b.add(Op::loop, operands, LoopAttributes{counter.is_known ? counter.trips : -1}, {body, condition});
}

Value result(Value loop, std::int32_t initial) { return {loop.node, initial + 1}; }

/// The turn's place, from a counter that starts at 0.
Value place(Builder& r, Value i, bool backward) {
  return backward ? r.binary(Op::subtract, integer(r, i, turns - 1), i) : i;
}

Value row(Builder& r, Value x, Value place, std::size_t dimension = 0) {
  Dims sizes = r.dims(x);
  Values operands = {x};
  for (std::size_t d = 0; d < sizes.size(); ++d) operands.push_back(d == dimension ? place : integer(r, place, 0));
  sizes[dimension] = 1;
  const Value taken = r.add(Op::dynamic_slice, operands, DynamicSliceAttributes{sizes});
  sizes.erase(sizes.begin() + dimension);
  return r.reshape(taken, sizes);
}

Value put(Builder& r, Value x, Value row, Value place, std::size_t dimension = 0) {
  Dims sizes = r.dims(x);
  sizes[dimension] = 1;
  Values operands = {x, r.reshape(row, sizes)};
  for (std::size_t d = 0; d < sizes.size(); ++d) operands.push_back(d == dimension ? place : integer(r, place, 0));
  return r.add(Op::dynamic_update_slice, operands, UpdateAttributes{});
}

Value dot(Builder& b, Value x, Value y, Dims left, Dims right) {
  return b.dot(x, y, {{}, {}, std::move(left), std::move(right), b.dtype(x)});
}

Value add(Builder& b, Value x, Value y) { return b.binary(Op::add, x, y); }
Value times(Builder& b, Value x, Value y) { return b.binary(Op::multiply, x, y); }
/// Something that a state becomes.
Value stepped(Builder& b, Value state, Value x) { return b.unary(Op::tanh, add(b, state, x)); }

SimplifyReport simplify_checked(Graph& graph, const std::string& what) {
  SimplifyOptions options;
  options.verify = true;
  const Result<SimplifyReport> report = simplify(graph, options);
  EXPECT_TRUE(report.ok()) << what << ": " << (report.ok() ? "" : report.error().message);
  EXPECT_TRUE(report.ok() && report->settled) << what;
  return report.ok() ? *report : SimplifyReport{};
}

std::int64_t splits(const SimplifyReport& report) {
  for (const PassReport& pass : report.passes) {
    if (pass.name == "loop-fission") return pass.changes;
  }
  ADD_FAILURE() << "there is no such pass";
  return 0;
}

struct Row {
  std::string name;
  std::function<Values(Builder&, bool backward)> before, after;
};

/// Both directions of every row: the pass alone keeps the values; among all others it makes the graph that is expected,
/// in which it finds nothing to do.
void expect_split(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    for (const bool backward : {false, true}) {
      const std::string what = row.name + (backward ? ", backward" : ", forward");
      const Graph before = made([&](Builder& b) { return row.before(b, backward); });
      Graph alone = before;
      const Result<int> changes = split_loops(alone, {});
      ASSERT_TRUE(changes.ok()) << what << ": " << (changes.ok() ? "" : changes.error().message);
      EXPECT_EQ(*changes, 1) << what;
      EXPECT_TRUE(verify(alone).ok()) << what << "\n" << to_text(alone);
      EXPECT_EQ(*split_loops(alone, {}), 0) << what << ": once is enough\n" << to_text(alone);
      Graph actual = before, expected = made([&](Builder&b) { return row.after(b, backward); });
      for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        test::expect_same_values(before, alone, seed, 1e-6, what + ", alone");
        test::expect_same_values(before, expected, seed, 1e-6, what + ", expected");
      }
      simplify_checked(actual, what);
      EXPECT_EQ(splits(simplify_checked(expected, what)), 0) << what;
      EXPECT_EQ(region_key(actual).hex(), region_key(expected).hex())
          << what << "\nexpected " << to_text(expected) << "\nactual " << to_text(actual);
      test::expect_same_values(before, actual, 3, 1e-6, what + ", simplified");
    }
  }
}

/// The pass leaves the graph alone.
void expect_stays(const std::string& what, const MakeGraph& make, const PassContext& context = {}) {
  Graph graph = made(make);
  const Hash128 before = region_key(graph);
  const Result<int> changes = split_loops(graph, context);
  ASSERT_TRUE(changes.ok()) << what;
  EXPECT_EQ(*changes, 0) << what;
  EXPECT_EQ(region_key(graph), before) << what << "\n" << to_text(graph);
}

// Rows of [4, 3] and [4, 6], a state of [4, 6].
struct Inputs {
  explicit Inputs(Builder& b)
      : x(b.parameter(f32, {turns, 4, 3})),
        y(b.parameter(f32, {turns, 4, 6})),
        state(b.parameter(f32, {4, 6})),
        total(b.parameter(f32, {3, 6})) {}
  Value x, y, state, total;
};

TEST(PassesLoopFission, SumsOfDots) {
  const auto of_slices = [](bool reverse_one) {
    return [=](Builder& b, bool backward) {
      const Inputs in(b);
      const Value made = loop(b, {in.total, in.x, in.y}, [&](Builder& r, Value i, const Values& v) {
        const Value x = row(r, v[1], place(r, i, backward)), y = row(r, v[2], place(r, i, backward != reverse_one));
        return Values{add(r, v[0], dot(r, x, y, {0}, {0})), v[1], v[2]};
      });
      return Values{result(made, 0)};
    };
  };
  const auto one_dot = [](bool reverse_one) {
    return [=](Builder& b, bool backward) {
      const Inputs in(b);
      // The right operand takes the order of the left one.
      const Value y = reverse_one ? b.reverse(in.y, {0}) : in.y;
      (void)backward;
      return Values{add(b, in.total, dot(b, in.x, y, {0, 1}, {0, 1}))};
    };
  };
  expect_split({{"slices of two invariants", of_slices(false), one_dot(false)},
                {"in opposite orders", of_slices(true), one_dot(true)},
                {"what is written anyway, and transposed",
                 [](Builder& b, bool backward) {
                   const Inputs in(b);
                   const Value states = b.parameter(f32, {turns, 4, 6}), total = b.parameter(f32, {6, 3});
                   const auto turn = [&](Builder& r, Value i, const Values& v) {
                     const Value p = place(r, i, backward), next = stepped(r, v[1], row(r, v[3], p));
                     const Value product = dot(r, r.transpose(next, {1, 0}), row(r, v[4], p), {1}, {0});
                     return Values{r.binary(Op::subtract, v[0], product), next, put(r, v[2], next, p), v[3], v[4]};
                   };
                   const Value made = loop(b, {total, in.state, states, in.y, in.x}, turn);
                   return Values{result(made, 0), result(made, 2)};
                 },
                 [](Builder& b, bool backward) {
                   const Inputs in(b);
                   const Value states = b.parameter(f32, {turns, 4, 6}), total = b.parameter(f32, {6, 3});
                   const Value made = loop(b, {in.state, states, in.y}, [&](Builder& r, Value i, const Values& v) {
                     const Value p = place(r, i, backward), next = stepped(r, v[0], row(r, v[2], p));
                     return Values{next, put(r, v[1], next, p), v[2]};
                   });
                   const Value product = dot(b, result(made, 1), in.x, {0, 1}, {0, 1});
                   return Values{b.binary(Op::subtract, total, product), result(made, 1)};
                 }},
                {"a new tensor of states, in the order of the slices",
                 [](Builder& b, bool backward) {
                   const Inputs in(b);
                   const Value made =
                       loop(b, {in.total, in.state, in.x, in.y}, [&](Builder& r, Value i, const Values& v) {
                         const Value p = place(r, i, backward);
                         return Values{add(r, v[0], dot(r, row(r, v[2], p), v[1], {0}, {0})),
                                       stepped(r, v[1], row(r, v[3], p)), v[2], v[3]};
                       });
                   return Values{result(made, 0), result(made, 1)};
                 },
                 [](Builder& b, bool backward) {
                   const Inputs in(b);
                   const Value states = b.filled(f32, {turns, 4, 6}, 0);
                   const Value made = loop(b, {in.state, in.y, states}, [&](Builder& r, Value i, const Values& v) {
                     const Value p = place(r, i, backward);
                     return Values{stepped(r, v[0], row(r, v[1], p)), v[1], put(r, v[2], v[0], p)};
                   });
                   return Values{add(b, in.total, dot(b, in.x, result(made, 2), {0, 1}, {0, 1})), result(made, 0)};
                 }}});
}

TEST(PassesLoopFission, SumsOfOtherThings) {
  expect_split(
      {{"a reduction",
        [](Builder& b, bool backward) {
          const Inputs in(b);
          const Value total = b.parameter(f32, {4});
          const Value made = loop(b, {total, in.state, in.y}, [&](Builder& r, Value i, const Values& v) {
            const Value next = stepped(r, v[1], row(r, v[2], place(r, i, backward)));
            return Values{add(r, r.reduce(sum, next, {1}), v[0]), next, v[2]};
          });
          return Values{result(made, 0), result(made, 1)};
        },
        [](Builder& b, bool backward) {
          const Inputs in(b);
          const Value total = b.parameter(f32, {4}), states = b.filled(f32, {turns, 4, 6}, 0);
          const Value made = loop(b, {in.state, in.y, states}, [&](Builder& r, Value i, const Values& v) {
            const Value p = place(r, i, backward), next = stepped(r, v[0], row(r, v[1], p));
            return Values{next, v[1], put(r, v[2], next, p)};
          });
          return Values{add(b, total, b.reduce(sum, result(made, 2), {0, 2})), result(made, 0)};
        }},
       {"parts of a concatenation that a dot takes as well, one of them not reduced",
        [](Builder& b, bool backward) {
          const Value x = b.parameter(f32, {turns, 4, 3}), y = b.parameter(f32, {turns, 4, 6});
          const Value state = b.parameter(f32, {4, 6}), total = b.parameter(f32, {3, 12}), bias = b.parameter(f32, {6});
          const Value mixed = b.parameter(f32, {5, 6});
          const auto turn = [&](Builder& r, Value i, const Values& v) {
            const Value p = place(r, i, backward), next = stepped(r, v[3], row(r, v[5], p));
            const Value both = r.concatenate({next, r.unary(Op::exp, v[3])}, 1);
            const Value reduced = r.reshape(r.reduce(sum, r.unary(Op::exp, v[3]), {0}), {1, 6});
            const Value g = r.concatenate({reduced, r.unary(Op::cos, v[3])}, 0);
            return Values{add(r, v[0], r.reduce(sum, next, {0})),
                          add(r, v[1], dot(r, row(r, v[4], p), both, {0}, {0})),
                          add(r, v[2], g),
                          next,
                          v[4],
                          v[5]};
          };
          const Value made = loop(b, {bias, total, mixed, state, x, y}, turn);
          return Values{result(made, 0), result(made, 1), result(made, 2)};
        },
        [](Builder& b, bool backward) {
          const Value x = b.parameter(f32, {turns, 4, 3}), y = b.parameter(f32, {turns, 4, 6});
          const Value state = b.parameter(f32, {4, 6}), total = b.parameter(f32, {3, 12}), bias = b.parameter(f32, {6});
          const Value mixed = b.parameter(f32, {5, 6});
          const Value zeros = b.filled(f32, {turns, 4, 12}, 0), others = b.filled(f32, {turns, 4, 6}, 0);
          const Value made = loop(b, {state, y, zeros, others}, [&](Builder& r, Value i, const Values& v) {
            const Value p = place(r, i, backward), next = stepped(r, v[0], row(r, v[1], p));
            const Value both = r.concatenate({next, r.unary(Op::exp, v[0])}, 1);
            return Values{next, v[1], put(r, v[2], both, p), put(r, v[3], r.unary(Op::cos, v[0]), p)};
          });
          const Value states = b.slice(result(made, 2), {0, 0, 0}, {turns, 4, 6});
          const Value exps = b.slice(result(made, 2), {0, 0, 6}, {turns, 4, 12});
          const Value reduced = b.reduce(sum, exps, {0, 1});
          const Value g = b.concatenate({b.reshape(reduced, {1, 6}), b.reduce(sum, result(made, 3), {0})}, 0);
          return Values{add(b, bias, b.reduce(sum, states, {0, 1})),
                        add(b, total, dot(b, x, result(made, 2), {0, 1}, {0, 1})), add(b, mixed, g)};
        }},
       {"a sum and a difference, with extents of 1",
        [](Builder& b, bool backward) {
          const Inputs in(b);
          const Value total = b.parameter(f32, {1, 3, 6}), z = b.parameter(f32, {turns, 2, 6});
          const Value w = b.parameter(f32, {turns, 2, 3});
          const Value made = loop(b, {total, in.x, in.y, z, w}, [&](Builder& r, Value i, const Values& v) {
            const Value p = place(r, i, backward);
            const Value one = dot(r, row(r, v[1], p), row(r, v[2], p), {0}, {0});
            const Value other = dot(r, row(r, v[4], p), row(r, v[3], p), {0}, {0});
            const Value both = r.binary(Op::subtract, one, other);
            return Values{add(r, v[0], r.reshape(both, {1, 3, 6})), v[1], v[2], v[3], v[4]};
          });
          return Values{result(made, 0)};
        },
        [](Builder& b, bool) {
          const Inputs in(b);
          const Value total = b.parameter(f32, {1, 3, 6}), z = b.parameter(f32, {turns, 2, 6});
          const Value w = b.parameter(f32, {turns, 2, 3});
          const Value one = dot(b, in.x, in.y, {0, 1}, {0, 1}), other = dot(b, w, z, {0, 1}, {0, 1});
          return Values{add(b, total, b.reshape(b.binary(Op::subtract, one, other), {1, 3, 6}))};
        }}});
}

TEST(PassesLoopFission, DotsAfterTheLoop) {
  // The weight on the right or on the left; the tensor filled along its first or second dimension.
  const auto before = [](bool weight_left, std::size_t dimension) {
    return [=](Builder& b, bool backward) {
      const Inputs in(b);
      const Value w = b.parameter(f32, {6, 8});
      Dims dims = weight_left ? Dims{8, 4} : Dims{4, 8};
      dims.insert(dims.begin() + dimension, turns);
      const auto turn = [&](Builder& r, Value i, const Values& v) {
        const Value p = place(r, i, backward), next = stepped(r, v[0], row(r, v[2], p));
        const Value y = weight_left ? dot(r, v[3], next, {0}, {1}) : dot(r, next, v[3], {1}, {0});
        return Values{next, put(r, v[1], y, p, dimension), v[2], v[3]};
      };
      return Values{result(loop(b, {in.state, b.parameter(f32, dims), in.y, w}, turn), 1)};
    };
  };
  const auto after = [](bool weight_left, std::size_t dimension) {
    return [=](Builder& b, bool backward) {
      const Inputs in(b);
      const Value w = b.parameter(f32, {6, 8}), states = b.filled(f32, {turns, 4, 6}, 0);
      Dims dims = weight_left ? Dims{8, 4} : Dims{4, 8};
      dims.insert(dims.begin() + dimension, turns);
      b.parameter(f32, dims);
      const Value made = loop(b, {in.state, in.y, states}, [&](Builder& r, Value i, const Values& v) {
        const Value p = place(r, i, backward), next = stepped(r, v[0], row(r, v[1], p));
        return Values{next, v[1], put(r, v[2], next, p)};
      });
      if (weight_left) {
        const Value all = dot(b, w, result(made, 2), {0}, {2});  // [8, turns, 4]
        return Values{dimension == 0 ? b.transpose(all, {1, 0, 2}) : all};
      }
      const Value all = dot(b, result(made, 2), w, {2}, {0});  // [turns, 4, 8]
      return Values{dimension == 0 ? all : b.transpose(all, {1, 0, 2})};
    };
  };
  expect_split({{"weight on the right", before(false, 0), after(false, 0)},
                {"along the second dimension", before(false, 1), after(false, 1)},
                {"weight on the left", before(true, 0), after(true, 0)},
                {"weight on the left, along the second dimension", before(true, 1), after(true, 1)},
                {"a copy of slices, in the other order",
                 [](Builder& b, bool backward) {
                   const Inputs in(b);
                   const Value to = b.parameter(f32, {turns, 4, 6});
                   const Value made = loop(b, {in.state, to, in.y}, [&](Builder& r, Value i, const Values& v) {
                     const Value y = row(r, v[2], place(r, i, backward));
                     return Values{stepped(r, v[0], y), put(r, v[1], y, place(r, i, !backward)), v[2]};
                   });
                   return Values{result(made, 0), result(made, 1)};
                 },
                 [](Builder& b, bool backward) {
                   const Inputs in(b);
                   b.parameter(f32, {turns, 4, 6});
                   const Value made = loop(b, {in.state, in.y}, [&](Builder& r, Value i, const Values& v) {
                     return Values{stepped(r, v[0], row(r, v[1], place(r, i, backward))), v[1]};
                   });
                   return Values{result(made, 0), b.reverse(in.y, {0})};
                 }}});
}

TEST(PassesLoopFission, DotsBeforeTheLoop) {
  const auto before = [](bool weight_left) {
    return [=](Builder& b, bool backward) {
      const Value x = b.parameter(f32, {turns, 4, 3}), w = b.parameter(f32, {3, 6});
      const Value state = b.parameter(f32, weight_left ? Dims{6, 4} : Dims{4, 6});
      const Value made = loop(b, {state, x, w}, [&](Builder& r, Value i, const Values& v) {
        const Value taken = row(r, v[1], place(r, i, backward));
        const Value y = weight_left ? dot(r, v[2], taken, {0}, {1}) : dot(r, taken, v[2], {1}, {0});
        return Values{stepped(r, v[0], y), v[1], v[2]};
      });
      return Values{result(made, 0)};
    };
  };
  const auto after = [](bool weight_left) {
    return [=](Builder& b, bool backward) {
      const Value x = b.parameter(f32, {turns, 4, 3}), w = b.parameter(f32, {3, 6});
      const Value state = b.parameter(f32, weight_left ? Dims{6, 4} : Dims{4, 6});
      const Value y = weight_left ? dot(b, w, x, {0}, {2}) : dot(b, x, w, {2}, {0});
      const Value made = loop(b, {state, y}, [&](Builder& r, Value i, const Values& v) {
        return Values{stepped(r, v[0], row(r, v[1], place(r, i, backward), weight_left ? 1 : 0)), v[1]};
      });
      return Values{result(made, 0)};
    };
  };
  expect_split(
      {{"weight on the right", before(false), after(false)},
       {"weight on the left", before(true), after(true)},
       {"and its result written and summed with others",
        [](Builder& b, bool backward) {
          const Value x = b.parameter(f32, {turns, 4, 3}), w = b.parameter(f32, {3, 6});
          const Value y = b.parameter(f32, {turns, 4, 6}), total = b.parameter(f32, {6, 6});
          const auto turn = [&](Builder& r, Value i, const Values& v) {
            const Value p = place(r, i, backward), h = dot(r, row(r, v[0], p), v[1], {1}, {0});
            return Values{v[0], v[1], put(r, v[2], h, p), add(r, v[3], dot(r, h, row(r, v[4], p), {0}, {0})), v[4]};
          };
          const Value made = loop(b, {x, w, b.filled(f32, {turns, 4, 6}, 0), total, y}, turn);
          return Values{result(made, 2), result(made, 3)};
        },
        [](Builder& b, bool) {
          const Value x = b.parameter(f32, {turns, 4, 3}), w = b.parameter(f32, {3, 6});
          const Value y = b.parameter(f32, {turns, 4, 6}), total = b.parameter(f32, {6, 6});
          const Value h = dot(b, x, w, {2}, {0});
          return Values{h, add(b, total, dot(b, h, y, {0, 1}, {0, 1}))};
        }}});
}

/// total += x_t · y_t with everything that may be in the way.
struct Variation {
  Counter counter = {};
  std::int64_t extent = turns;  ///< of x and y
  DType dtype = f32;
  std::int64_t rows = 4;
  std::function<Value(Builder&, Value)> index = [](Builder&, Value i) { return i; };
  bool total_is_read = false, product_is_read = false;
};

MakeGraph summed_dots(const Variation& v) {
  return [=](Builder& b) {
    const Value x = b.parameter(v.dtype, {v.extent, v.rows, 3}), y = b.parameter(v.dtype, {v.extent, v.rows, 6});
    const Value total = b.parameter(v.dtype, {3, 6}), other = b.parameter(v.dtype, {3, 6});
    const auto turn = [&](Builder& r, Value i, const Values& carried) {
      const Value p = v.index(r, i);
      const Value product = dot(r, row(r, carried[2], p), row(r, carried[3], p), {0}, {0});
      const Value read = v.total_is_read ? carried[0] : v.product_is_read ? product : carried[1];
      return Values{add(r, carried[0], product), r.unary(Op::negate, read), carried[2], carried[3]};
    };
    const Value made = loop(b, {total, other, x, y}, turn, v.counter);
    return Values{result(made, 0), result(made, 1)};
  };
}

void expect_leaves(const std::string& what, const Variation& variation, const PassContext& context = {}) {
  const Graph before = made(summed_dots(variation));
  Graph after = before;
  EXPECT_EQ(*split_loops(after, context), 1) << what;
  EXPECT_TRUE(verify(after).ok()) << what;
  for (const Node& node : after.nodes()) {
    if (node.op != Op::loop) continue;
    for (const Node& inside : node.regions[0]->nodes()) EXPECT_NE(inside.op, Op::dot) << what;
  }
  test::expect_same_values(before, after, 7, 1e-6, what);
}

Variation with_index(std::function<Value(Builder&, Value)> index, Counter counter = {}) {
  Variation variation;
  variation.index = std::move(index);
  variation.counter = counter;
  return variation;
}

TEST(PassesLoopFission, IndicesThatVisitEveryPlaceOnce) {
  const auto plus = [](std::int64_t c) { return [=](Builder& r, Value i) { return add(r, i, integer(r, i, c)); }; };
  const auto minus_from = [](std::int64_t c) {
    return [=](Builder& r, Value i) { return r.binary(Op::subtract, integer(r, i, c), i); };
  };
  const auto wide = [](Builder& r, Value i) { return r.convert(i, DType::s64); };
  expect_leaves("the counter", {});
  expect_leaves("a counter from 3", with_index(plus(-3), {.start = 3}));
  expect_leaves("a counter from 3, backward", with_index(minus_from(7), {.start = 3}));
  expect_leaves("a counter that falls", with_index({[](Builder&, Value i) { return i; }}, {.start = 4, .step = -1}));
  expect_leaves("a counter that falls from 9", with_index(minus_from(9), {.start = 9, .step = -1}));
  expect_leaves("another word", with_index(wide));
  expect_leaves("u8", with_index(plus(0), {.dtype = DType::u8}));

  expect_stays("the last is clamped", summed_dots(with_index(plus(1))));
  expect_stays("the first is clamped", summed_dots(with_index(plus(-1))));
  expect_stays("backward and clamped", summed_dots(with_index(minus_from(5))));
  expect_stays("every other", summed_dots(with_index([](Builder& r, Value i) { return add(r, i, i); })));
  expect_stays("steps of 2", summed_dots(with_index([](Builder&, Value i) { return i; }, {.step = 2})));
  expect_stays("one place", summed_dots(with_index([](Builder& r, Value i) { return integer(r, i, 2); })));
  Variation longer;
  longer.extent = turns + 1;
  expect_stays("a place that is not visited", summed_dots(longer));
  Variation shorter;
  shorter.extent = turns - 1;
  expect_stays("a place that is visited twice", summed_dots(shorter));
}

TEST(PassesLoopFission, WhatKeepsASumInTheLoop) {
  Variation sums;
  sums.counter.is_known = false;
  expect_stays("the number of turns is not known", summed_dots(sums));
  sums = {};
  sums.total_is_read = true;
  expect_stays("the sum is read in between", summed_dots(sums));
  sums = {};
  sums.product_is_read = true;
  expect_stays("the dot is read by others", summed_dots(sums));
  for (const DType dtype : {DType::f16, DType::bf16, DType::f8e5m2}) {
    sums = {};
    sums.dtype = dtype;
    expect_stays("rounds every turn", summed_dots(sums));
  }
  sums = {};
  PassContext exact;
  exact.reassociate = false;
  expect_stays("sums in their order", summed_dots(sums), exact);
  sums.dtype = s32;
  expect_leaves("integers have none", sums, exact);
  sums.dtype = DType::f64;
  expect_leaves("f64", sums);

  expect_stays("elements only", [](Builder& b) {
    const Inputs in(b);
    const Value made = loop(b, {in.state, in.y}, [](Builder& r, Value i, const Values& v) {
      return Values{add(r, v[0], r.unary(Op::exp, row(r, v[1], i))), v[1]};
    });
    return Values{result(made, 0)};
  });
  expect_stays("elements side by side", [](Builder& b) {
    const Inputs in(b);
    const Value made = loop(b, {b.parameter(f32, {8, 6}), in.y}, [](Builder& r, Value i, const Values& v) {
      const Value y = row(r, v[1], i);
      return Values{add(r, v[0], r.concatenate({r.unary(Op::exp, y), r.unary(Op::cos, y)}, 0)), v[1]};
    });
    return Values{result(made, 0)};
  });
  expect_stays("a maximum", [](Builder& b) {
    const Value total = b.parameter(f32, {6}), y = b.parameter(f32, {turns, 4, 6});
    const Value made = loop(b, {total, y}, [](Builder& r, Value i, const Values& v) {
      return Values{add(r, v[0], r.reduce(ReduceKind::max, row(r, v[1], i), {0})), v[1]};
    });
    return Values{result(made, 0)};
  });
  expect_stays("an operand that a table chooses", [](Builder& b) {
    const Inputs in(b);
    const Value table = b.parameter(s32, {turns});
    const Value made = loop(b, {in.total, in.x, in.y, table}, [](Builder& r, Value i, const Values& v) {
      const Value x = row(r, v[1], row(r, v[3], i));
      return Values{add(r, v[0], dot(r, x, row(r, v[2], i), {0}, {0})), v[1], v[2], v[3]};
    });
    return Values{result(made, 0)};
  });
}

TEST(PassesLoopFission, ConditionsMayReadASum) {
  const auto make = [](bool reads) {
    return [=](Builder& b) {
      const Inputs in(b);
      const auto parameters = [](Builder& r) {
        return Values{r.parameter(s32, {}), r.parameter(f32, {3, 6}), r.parameter(f32, {turns, 4, 3}),
                      r.parameter(f32, {turns, 4, 6})};
      };
      const auto body = region([&](Builder& r) {
        const Values v = parameters(r);
        const Value product = dot(r, row(r, v[2], v[0]), row(r, v[3], v[0]), {0}, {0});
        return Values{add(r, v[0], r.scalar(s32, 1)), add(r, v[1], product), v[2], v[3]};
      });
      const auto condition = region([&](Builder& r) {
        const Values v = parameters(r);
        const Value more = r.compare(Comparison::lt, v[0], r.scalar(s32, turns));
        if (!reads) return Values{more};
        return Values{r.binary(Op::bit_and, more, r.unary(Op::is_finite, r.reduce(sum, v[1], {0, 1})))};
      });
      const Value made =
          b.add(Op::loop, {b.scalar(s32, 0), in.total, in.x, in.y}, LoopAttributes{turns}, {body, condition});
      return Values{result(made, 0)};
    };
  };
  expect_stays("read", make(true));
  Graph graph = made(make(false));
  EXPECT_EQ(*split_loops(graph, {}), 1);
}

/// A state of [rows, 64] that is multiplied by its gate: total += state^T · state, and y_t = state · w.
MakeGraph products_of_states(std::int64_t trips, std::int64_t rows, bool is_sum) {
  return [=](Builder& b) {
    const Value state = b.parameter(f32, {rows, 64}), w = b.parameter(f32, {64, 32});
    const Value to = b.parameter(f32, is_sum ? Dims{64, 64} : Dims{trips, rows, 32});
    const auto turn = [&](Builder& r, Value i, const Values& v) {
      const Value next = r.unary(Op::tanh, v[0]);
      const Value y =
          is_sum ? add(r, v[1], dot(r, next, next, {0}, {0})) : put(r, v[1], dot(r, next, v[2], {1}, {0}), i);
      return Values{next, y, v[2]};
    };
    return Values{result(loop(b, {state, to, w}, turn, {.trips = trips}), 1)};
  };
}

TEST(PassesLoopFission, LoopsOfOneTurnAreLeftToOthers) {
  expect_stays("a sum", products_of_states(1, 4, true));
  Graph two = made(products_of_states(2, 4, true));
  EXPECT_EQ(*split_loops(two, {}), 1);
}

TEST(PassesLoopFission, LargeValuesAreNotKept) {
  const auto changes = [](const MakeGraph& make) {
    Graph graph = made(make);
    const Result<int> count = split_loops(graph, {});
    EXPECT_TRUE(count.ok() && verify(graph).ok());
    return count.value_or(-1);
  };
  for (const bool is_sum : {true, false}) {
    EXPECT_EQ(changes(products_of_states(4, 4096, is_sum)), 1) << "1 MiB per turn";
    EXPECT_EQ(changes(products_of_states(4, 4097, is_sum)), 0) << "more";
    EXPECT_EQ(changes(products_of_states(1024, 4096, is_sum)), 1) << "1 GiB together";
    EXPECT_EQ(changes(products_of_states(1025, 4096, is_sum)), 0) << "more";
  }
  const auto before = [](std::int64_t trips, std::int64_t rows) {
    return [=](Builder& b) {
      const Value state = b.parameter(f32, {rows, 64}), x = b.parameter(f32, {trips, rows, 2});
      const Value w = b.parameter(f32, {2, 64});
      const auto turn = [&](Builder& r, Value i, const Values& v) {
        return Values{stepped(r, v[0], dot(r, row(r, v[1], i), v[2], {1}, {0})), v[1], v[2]};
      };
      return Values{result(loop(b, {state, x, w}, turn, {.trips = trips}), 0)};
    };
  };
  EXPECT_EQ(changes(before(4, 4096)), 1);
  EXPECT_EQ(changes(before(4, 4097)), 0);
  EXPECT_EQ(changes(before(1025, 4096)), 0);
}

TEST(PassesLoopFission, WhatKeepsADotInTheLoop) {
  enum class Reader { none, tensor, written, product };
  const auto make = [](Reader reader, DType dtype) {
    return [=](Builder& b) {
      const Value state = b.parameter(dtype, {4, 6}), w = b.parameter(dtype, {6, 8}), out = b.parameter(dtype, {4, 8});
      const Value to = b.parameter(dtype, {turns, 4, 8});
      const Value made = loop(b, {state, to, w, out}, [&](Builder& r, Value i, const Values& v) {
        const Value next = r.unary(Op::tanh, v[0]), y = dot(r, next, v[2], {1}, {0}), written = put(r, v[1], y, i);
        Value read = v[3];
        if (reader == Reader::tensor) read = row(r, v[1], i);
        if (reader == Reader::written) read = row(r, written, i);
        if (reader == Reader::product) read = y;
        return Values{next, written, v[2], r.unary(Op::negate, read)};
      });
      return Values{result(made, 1), result(made, 3)};
    };
  };
  for (const DType dtype : {f32, DType::bf16}) {  // nothing is summed in another order
    Graph graph = made(make(Reader::none, dtype));
    EXPECT_EQ(*split_loops(graph, {}), 1) << to_string(dtype);
  }
  expect_stays("the tensor is read", make(Reader::tensor, f32));
  expect_stays("the update is read", make(Reader::written, f32));
  expect_stays("the dot is read", make(Reader::product, f32));
  expect_stays("both operands change", [](Builder& b) {
    const Value state = b.parameter(f32, {4, 4}), to = b.parameter(f32, {turns, 4, 4});
    const Value made = loop(b, {state, to}, [](Builder& r, Value i, const Values& v) {
      const Value next = r.unary(Op::tanh, v[0]);
      return Values{next, put(r, v[1], dot(r, next, v[0], {1}, {0}), i)};
    });
    return Values{result(made, 1)};
  });
  expect_stays("invariants that the body is still to make itself", [](Builder& b) {
    const Value state = b.parameter(f32, {4, 6}), x = b.parameter(f32, {turns, 4, 3});
    const Value made = loop(b, {state, x, b.filled(f32, {3, 6}, 2)}, [](Builder& r, Value i, const Values& v) {
      return Values{stepped(r, v[0], dot(r, row(r, v[1], i), v[2], {1}, {0})), v[1], v[2]};
    });
    return Values{result(made, 0)};
  });
}

/// The index as JAX prints it: x[i] with negative ones counted from the end.
Value jax_index(Builder& r, Value i, bool backward) {
  const Value p =
      backward ? r.binary(Op::subtract, r.binary(Op::subtract, integer(r, i, turns), i), integer(r, i, 1)) : i;
  return r.select(r.compare(Comparison::lt, p, integer(r, i, 0)), add(r, p, integer(r, i, turns)), p);
}

/// A gated cell over a sequence and its gradient, as jax.grad of jax.lax.scan prints them: the forward loop saves what
/// the backward loop reads from the end.
Values gated_scan(Builder& b) {
  const std::int64_t batch = 4, in = 3, units = 8, both = 2 * units;
  const Value x = b.parameter(f32, {turns, batch, in}), w = b.parameter(f32, {in, both});
  const Value u = b.parameter(f32, {units, both}), c = b.parameter(f32, {both}), h0 = b.parameter(f32, {batch, units});
  const auto part = [=](Builder& r, Value v, int i) { return r.slice(v, {0, i * units}, {batch, (i + 1) * units}); };
  const auto saved = [&] { return b.filled(f32, {turns, batch, units}, 0); };
  const auto forward = [=](Builder& r, Value i, const Values& v) {
    const Value p = jax_index(r, i, false), h = v[0];
    const Value a = add(r, dot(r, row(r, v[4], p), v[5], {1}, {0}), r.broadcast(v[7], {batch, both}, {1}));
    const Value s = add(r, a, dot(r, h, v[6], {1}, {0}));
    const Value z = r.unary(Op::logistic, part(r, s, 0)), n = r.unary(Op::tanh, part(r, s, 1));
    const Value next = add(r, times(r, z, h), times(r, r.binary(Op::subtract, r.filled(f32, {batch, units}, 1), z), n));
    return Values{next, put(r, v[1], h, p), put(r, v[2], z, p), put(r, v[3], n, p), v[4], v[5], v[6], v[7]};
  };
  const Value first = loop(b, {h0, saved(), saved(), saved(), x, w, u, c}, forward, {.is_known = false});
  const auto backward = [=](Builder& r, Value i, const Values& v) {
    const Value p = jax_index(r, i, true), one = r.filled(f32, {batch, units}, 1);
    const Value h = row(r, v[5], p), z = row(r, v[6], p), n = row(r, v[7], p), dh = v[0];
    const Value rest = r.binary(Op::subtract, one, z);
    const Value dz = times(r, times(r, dh, r.binary(Op::subtract, h, n)), times(r, z, rest));
    const Value dn = times(r, times(r, dh, rest), r.binary(Op::subtract, one, times(r, n, n)));
    const Value ds = r.concatenate({dz, dn}, 1);
    const Value dx = dot(r, ds, v[9], {1}, {1});
    const Value dc = r.concatenate({r.reduce(sum, dz, {0}), r.reduce(sum, dn, {0})}, 0);
    return Values{add(r, times(r, dh, z), dot(r, ds, v[10], {1}, {1})),
                  add(r, v[1], dot(r, row(r, v[8], p), ds, {0}, {0})),
                  add(r, v[2], dot(r, h, ds, {0}, {0})),
                  add(r, v[3], dc),
                  put(r, v[4], dx, p),
                  v[5],
                  v[6],
                  v[7],
                  v[8],
                  v[9],
                  v[10]};
  };
  const Value second =
      loop(b,
           {b.filled(f32, {batch, units}, 1), b.filled(f32, {in, both}, 0), b.filled(f32, {units, both}, 0),
            b.filled(f32, {both}, 0), b.filled(f32, {turns, batch, in}, 0), result(first, 1), result(first, 2),
            result(first, 3), x, w, u},
           backward, {.is_known = false});
  return {result(first, 0),  result(second, 0), result(second, 1),
          result(second, 2), result(second, 3), result(second, 4)};
}

TEST(PassesLoopFission, LoopsOfATrainedCellHoldOneDotEach) {
  const Graph before = made(gated_scan);
  Graph graph = before;
  EXPECT_EQ(splits(simplify_checked(graph, "cell")), 2);
  int loops = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::loop) continue;
    ++loops;
    int dots = 0;
    for (const Node& inside : node.regions[0]->nodes()) {
      dots += inside.op == Op::dot;
      EXPECT_NE(inside.op, Op::reduce);
    }
    EXPECT_EQ(dots, 1) << to_text(*node.regions[0]);
    const Graph& body = *node.regions[0];
    for (std::size_t i = 1; i < body.results().size(); ++i) {
      const Node& next = body.node(body.results()[i].node);
      const bool adds = next.op == Op::add || next.op == Op::subtract;
      for (const Value& operand : next.operands) EXPECT_FALSE(adds && operand.node == body.parameters()[i]) << i;
    }
  }
  EXPECT_EQ(loops, 2);
  test::expect_same_values(before, graph, 11, 1e-5, "cell");
  const Hash128 once = region_key(graph);
  const SimplifyReport again = simplify_checked(graph, "again");
  EXPECT_EQ(again.rounds, 1);
  EXPECT_EQ(region_key(graph), once);
}

}  // namespace
}  // namespace stitch::graph
