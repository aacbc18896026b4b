#include "graph/passes/scans/associative_scans.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "graph/codec/codec.h"
#include "graph/simplify.h"
#include "tests/graph/associative_scans.h"
#include "tests/graph/naive_evaluate.h"
#include "tests/graph/pass_case.h"

namespace stitch::graph::test {
namespace {

constexpr DType f32 = DType::f32, pred = DType::pred;

std::int64_t count(const Graph& graph, Op op) { return std::ranges::count(graph.nodes(), op, &Node::op); }

struct Row {
  std::string name;
  Combine combine;
  std::vector<DType> dtypes;
  std::vector<int> wanted;  ///< components that are results
  Op becomes = Op::associative_scan;
};
void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

MakeGraph recursion(const Row& row, const Dims& dims, std::int64_t d, bool reverse = false) {
  return [=](Builder& b) {
    Values elements, results;
    for (const DType dtype : row.dtypes) elements.push_back(b.parameter(dtype, dims));
    if (reverse) {
      for (Value& x : elements) x = b.reverse(x, {d});
    }
    const Values scanned = written_out(b, row.combine, elements, d);
    for (const int i : row.wanted) results.push_back(reverse ? b.reverse(scanned[i], {d}) : scanned[i]);
    return results;
  };
}

class WrittenOutScans : public ::testing::TestWithParam<Row> {};

TEST_P(WrittenOutScans, AreRecognised) {
  const Row& row = GetParam();
  for (const std::int64_t length : {4, 5, 8, 13, 31, 64}) {
    for (const bool reverse : {false, true}) {
      const std::string what = fmt::format("{} elements{}", length, reverse ? ", from the end" : "");
      const Graph before = tidy(made(recursion(row, {3, length, 2}, 1, reverse)));
      const Graph after = run_pass(recognise_associative_scans, before, {}, what);
      EXPECT_EQ(count(after, row.becomes), 1) << what << "\n" << to_text(after);
      EXPECT_EQ(count(after, Op::slice) + count(after, Op::pad), 0) << what << "\n" << to_text(after);
      expect_same_values(before, after, length, 2e-6, what);
    }
  }
}

// Reversals around the scan go when the other passes have run.
TEST_P(WrittenOutScans, AreOneNodeAfterSimplification) {
  Graph graph = made(recursion(GetParam(), {3, 12}, 1, true));
  ASSERT_TRUE(simplify(graph, {}).ok());
  EXPECT_EQ(count(graph, GetParam().becomes), 1) << to_text(graph);
  EXPECT_EQ(count(graph, Op::reverse), 0) << to_text(graph);
}

const Row rows[] = {{"sums", added, {f32}, {0}, Op::scan},
                    {"recurrence", recurrence, {f32, f32}, {1}},
                    {"recurrence_both", recurrence, {f32, f32}, {0, 1}},
                    {"log_add_exp", log_add_exp, {f32}, {0}},
                    {"online_softmax", online_softmax, {f32, f32}, {0, 1}},
                    {"segment_sums", segment_sum, {pred, f32}, {1}},
                    {"complex_products", complex_product, {f32, f32}, {0, 1}}};
INSTANTIATE_TEST_SUITE_P(Combiners, WrittenOutScans, ::testing::ValuesIn(rows),
                         [](const auto& each) { return each.param.name; });

void expect_untouched(const MakeGraph& make, const std::string& what) {
  Graph graph = tidy(made(make));
  const Result<int> changes = recognise_associative_scans(graph, {});
  ASSERT_TRUE(changes.ok()) << changes.error().message;
  EXPECT_EQ(*changes, 0) << what << "\n" << to_text(graph);
}

TEST(PassesAssociativeScans, WhatIsNotAssociativeStays) {
  expect_untouched(recursion({"mean", mean, {f32}, {0}}, {2, 16}, 1), "means");
}

TEST(PassesAssociativeScans, WithoutReassociationNothingChanges) {
  Graph graph = tidy(made(recursion(rows[1], {2, 16}, 1)));
  const Result<int> changes = recognise_associative_scans(graph, {.reassociate = false, .parameter_ranges = {}});
  ASSERT_TRUE(changes.ok());
  EXPECT_EQ(*changes, 0);
}

// A gradient reads what the recursion has left on its way; with the scan beside it everything would be computed twice.
TEST(PassesAssociativeScans, IntermediateValuesThatOthersUseKeepTheRecursion) {
  expect_untouched(
      [](Builder& b) {
        const Values x = {b.parameter(f32, {2, 16}), b.parameter(f32, {2, 16})};
        Values results;
        const Values scanned = written_out(b, recurrence, x, 1,
                                           [&](const Values& level) { results.push_back(b.unary(Op::exp, level[1])); });
        results.push_back(scanned[1]);
        return results;
      },
      "an intermediate value");
}

// Every place where an element could be another than the recursion's.
TEST(PassesAssociativeScans, OtherElementsAreNoScan) {
  enum class Fault { shifted, swapped, doubled, crossed };
  for (const Fault fault : {Fault::shifted, Fault::swapped, Fault::doubled, Fault::crossed}) {
    const auto make = [&](Builder& b) {
      const Values x = {b.parameter(f32, {2, 16}), b.parameter(f32, {2, 16})};
      int level = 0;
      const Combine faulty = [&](Builder& inner, const Values& l, const Values& r) {
        // The second use is the recursion's own next level.
        if (++level != 2) return recurrence(inner, l, r);
        switch (fault) {
          case Fault::shifted: return recurrence(inner, {l[0], r[1]}, r);
          case Fault::swapped: return recurrence(inner, r, l);
          case Fault::doubled: return recurrence(inner, l, {r[0], inner.binary(Op::add, r[1], r[1])});
          case Fault::crossed: return recurrence(inner, {l[1], l[0]}, r);
        }
        return Values();
      };
      return Values{written_out(b, faulty, x, 1)[1]};
    };
    Graph graph = tidy(made(make));
    const Graph before = graph;
    ASSERT_TRUE(recognise_associative_scans(graph, {}).ok());
    expect_same_values(before, graph, 3, 2e-6, fmt::format("fault {}", static_cast<int>(fault)));
    EXPECT_GT(count(graph, Op::slice), 0) << "fault " << static_cast<int>(fault) << "\n" << to_text(graph);
  }
}

// The evaluator against the naive interpreter: chunks begin at 1,025 elements.
TEST(AssociativeScan, EvaluatesAsTheNaiveInterpreterDoes) {
  for (const Row& row : rows) {
    for (const std::int64_t length : {1, 7, 150}) {
      for (const bool reverse : {false, true}) {
        Builder b;
        Values x;
        for (const DType dtype : row.dtypes) x.push_back(b.parameter(dtype, {2, length, 2}));
        const Value scan = b.add(Op::associative_scan, x, AssociativeScanAttributes{1, reverse},
                                 {combiner_of(row.combine, row.dtypes)});
        Values results;
        for (std::int32_t i = 0; i < std::ssize(x); ++i) results.push_back({scan.node, i});
        const Graph graph = *b.finish(results);
        ASSERT_TRUE(verify(graph).ok());
        const std::vector<Tensor> arguments = random_arguments(graph, length);
        EvaluateOptions bounded;
        bounded.bounds = true;
        auto actual = evaluate(graph, arguments, bounded);
        ASSERT_TRUE(actual.ok()) << actual.error().message;
        const std::vector<Tensor> expected = naive_evaluate(graph, arguments);
        for (std::size_t i = 0; i < results.size(); ++i) {
          // Long products overflow, in one order sooner than in another.
          std::int64_t checked = 0;
          for (std::int64_t e = 0; e < expected[i].elements(); ++e) {
            const bool unchecked = std::isinf((*actual)[i].bound(e)) && is_floating(expected[i].type.dtype);
            checked += unchecked ? 0 : 1;
            if (unchecked) (*actual)[i].floats[e] = expected[i].floats[e];
          }
          EXPECT_GT(2 * checked, expected[i].elements()) << row.name;
          expect_equal_tensors(expected[i], (*actual)[i], 1e-9, fmt::format("{} of {}", row.name, length));
        }
      }
    }
  }
}

// What a kernel may compute in f32, one element after the other, lies within the bounds.
TEST(AssociativeScan, BoundsHoldForF32) {
  for (const Row& row : rows) {
    Builder b;
    Values x;
    for (const DType dtype : row.dtypes) x.push_back(b.parameter(dtype, {3, 600}));
    const Value scan =
        b.add(Op::associative_scan, x, AssociativeScanAttributes{1, false}, {combiner_of(row.combine, row.dtypes)});
    const std::int32_t wanted = row.wanted[0];
    const Graph graph = *b.finish({{scan.node, wanted}});
    const std::vector<Tensor> arguments = random_arguments(graph, 5);
    EvaluateOptions bounded;
    bounded.bounds = true;
    const auto reference = evaluate(graph, arguments, bounded);
    ASSERT_TRUE(reference.ok()) << reference.error().message;
    NaiveOptions as_kernel;
    as_kernel.as_kernel = true;
    const Tensor kernel = naive_evaluate(graph, arguments, as_kernel)[0];
    for (std::int64_t i = 0; i < kernel.elements(); ++i) {
      EXPECT_TRUE(accepts((*reference)[0].at(i), (*reference)[0].bound(i), kernel.at(i)))
          << row.name << " " << i << ": " << kernel.at(i) << " for " << (*reference)[0].at(i);
    }
  }
}

// A segment whose first sums cancel in the orders that are looked at, and not in one that begins at its second element.
TEST(AssociativeScan, BoundsHoldForSumsThatCancelInSomeOrders) {
  Builder b;
  const Value scan = b.add(Op::associative_scan, {b.parameter(pred, {8}), b.parameter(f32, {8})},
                           AssociativeScanAttributes{0, false}, {combiner_of(segment_sum, {pred, f32})});
  const Graph graph = *b.finish({{scan.node, 1}});
  Tensor starts = Tensor::zeros({pred, {8}}), x = Tensor::zeros({f32, {8}});
  starts.integers = {0, 0, 0, 0, 1, 0, 0, 0};
  x.floats = {1.1, 2.3, 1.7, 0.9, -5.3, 5.299, 0.0011, 0.00013};
  for (double& each : x.floats) each = static_cast<float>(each);
  EvaluateOptions bounded;
  bounded.bounds = true;
  const auto reference = evaluate(graph, std::vector{starts, x}, bounded);
  ASSERT_TRUE(reference.ok()) << reference.error().message;
  const auto f = [&](int i) { return static_cast<float>(x.floats[i]); };
  volatile float behind = f(5) + f(6);
  behind = behind + f(7);
  const volatile float sum = f(4) + behind;
  EXPECT_NE(sum, (*reference)[0].at(7));
  EXPECT_TRUE(accepts((*reference)[0].at(7), (*reference)[0].bound(7), sum))
      << sum << " for " << (*reference)[0].at(7) << " ± " << (*reference)[0].bound(7);
  EXPECT_LT((*reference)[0].bound(7), 2e-6);
}

Graph recurrence_of(const Combine& combine, const Dims& dims, std::int64_t d) {
  Builder b;
  const Values x = {b.parameter(f32, dims), b.parameter(f32, dims)};
  const Value scan =
      b.add(Op::associative_scan, x, AssociativeScanAttributes{d, false}, {combiner_of(combine, {f32, f32})});
  return *b.finish({{scan.node, 1}});
}

TEST(AssociativeScan, SurvivesTheCodecAndIsKnownByItsCombiner) {
  const Graph graph = recurrence_of(recurrence, {3, 8}, 1);
  for (const Encoding encoding : {Encoding::json, Encoding::cbor}) {
    const Result<Graph> back = decode(encode(graph, encoding), encoding);
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(region_key(*back).hex(), region_key(graph).hex());
  }
  EXPECT_NE(region_key(recurrence_of(complex_product, {3, 8}, 1)).hex(), region_key(graph).hex());
  EXPECT_NE(region_key(recurrence_of(recurrence, {3, 8}, 0)).hex(), region_key(graph).hex());
}

// What plans are made of the regions that are visited must not see an operator's inside.
TEST(AssociativeScan, ItsCombinerIsNoRegionThatRuns) {
  int visited = 0;
  for_each_region(recurrence_of(recurrence, {3, 8}, 1), [&](const RegionSite&) { ++visited; });
  EXPECT_EQ(visited, 1);
}

TEST(AssociativeScan, HasNoExtentsOfOne) {
  const Graph before = recurrence_of(recurrence, {1, 8, 1}, 1);
  Graph after = before;
  ASSERT_TRUE(simplify(after, {}).ok());
  const auto scan = std::ranges::find(after.nodes(), Op::associative_scan, &Node::op);
  ASSERT_NE(scan, after.nodes().end()) << to_text(after);
  EXPECT_EQ(scan->type().dims, Dims{8});
  expect_same_values(before, after, 1, 2e-6, "extents of one");
}

TEST(AssociativeScan, WrongUsesAreNamed) {
  const auto error_of = [](const std::vector<Value>& operands, Builder& b, std::int64_t dimension,
                           std::shared_ptr<const Graph> combiner) {
    std::vector<std::shared_ptr<const Graph>> regions;
    if (combiner) regions.push_back(std::move(combiner));
    const Value scan = b.add(Op::associative_scan, operands, AssociativeScanAttributes{dimension, false}, regions);
    const Result<Graph> graph = b.finish({scan});
    if (!graph) return graph.error().message;
    const Status status = verify(*graph);
    return status ? std::string() : status.error().message;
  };
  const auto pair = combiner_of(recurrence, {f32, f32});
  const auto expect = [&](const std::string& part, std::int64_t dimension, const Dims& second,
                          const std::shared_ptr<const Graph>& combiner) {
    Builder b;
    const Value x = b.parameter(f32, {4, 6}), y = b.parameter(f32, second);
    const std::string message = error_of({x, y}, b, dimension, combiner);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect("2 is not a dimension", 2, {4, 6}, pair);
  expect("operand 1 has shape f32[4,5]", 1, {4, 5}, pair);
  expect("0 regions instead of a combiner", 1, {4, 6}, nullptr);
  expect("combiner takes 2 parameters, 4 are given", 1, {4, 6}, combiner_of(added, {f32}));
  Builder inner;
  const Value left = inner.parameter(f32, {}), other = inner.parameter(f32, {});
  inner.parameter(f32, {});
  inner.parameter(f32, {});
  const Value sum = inner.reduce(ReduceKind::sum, inner.broadcast(left, {2}, {}), {0});
  expect("element-wise operators on scalars only", 1, {4, 6},
         std::make_shared<const Graph>(*inner.finish({sum, other})));
}

}  // namespace
}  // namespace stitch::graph::test
