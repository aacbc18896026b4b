#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "graph/reference/evaluate.h"
#include "kernel/structure/kernel_graph.h"
#include "search/partition/fusion_plan.h"
#include "search/partition/vertex_graph.h"

/// What every fusion plan must be, whoever made it.
namespace stitch::search::test {

inline std::string name_of(graph::Value value) { return fmt::format("%{}.{}", value.node, value.result); }

/// Kernels are in an order in which they can run, hand over values of the right types, and make every result once.
inline void check_order(const graph::Graph& fragment, const FusionPlan& plan) {
  std::set<graph::Value> known;
  for (const graph::NodeId id : fragment.parameters()) known.insert({id, 0});
  std::set<graph::Value> made;
  for (const PlannedKernel& planned : plan.kernels) {
    const graph::Graph& kernel = planned.kernel->graph;
    ASSERT_EQ(planned.arguments.size(), kernel.parameters().size());
    ASSERT_EQ(planned.results.size(), kernel.results().size());
    for (std::size_t i = 0; i < planned.arguments.size(); ++i) {
      const graph::Value argument = planned.arguments[i];
      EXPECT_TRUE(known.contains(argument)) << name_of(argument) << " is read before it is made";
      EXPECT_EQ(kernel.node(kernel.parameters()[i]).type(), fragment.type(argument)) << name_of(argument);
    }
    for (std::size_t i = 0; i < planned.results.size(); ++i) {
      const graph::Value result = planned.results[i];
      EXPECT_TRUE(made.insert(result).second) << name_of(result) << " is made twice";
      EXPECT_EQ(kernel.type(kernel.results()[i]), fragment.type(result)) << name_of(result);
    }
    known.insert(planned.results.begin(), planned.results.end());
  }
  for (const graph::Value result : fragment.results()) {
    if (fragment.type(result).elements() > 0) {
      EXPECT_TRUE(made.contains(result)) << "result " << name_of(result) << " is not made";
    }
  }
}

/// Every operator is computed once; only attached ones may be copied.
inline void check_cover(const graph::Graph& fragment, const FusionPlan& plan) {
  const VertexGraph vertices(fragment);
  std::map<graph::NodeId, int> times;
  for (const PlannedKernel& planned : plan.kernels) {
    for (const graph::NodeId node : planned.nodes) ++times[node];
  }
  for (graph::NodeId id = 0; id < fragment.size(); ++id) {
    const int count = times.contains(id) ? times.at(id) : 0;
    if (vertices.vertex_of(id) >= 0) {
      EXPECT_EQ(count, 1) << "operator %" << id << " " << to_string(fragment.node(id).op);
    } else if (!vertices.attached()[id]) {
      EXPECT_EQ(count, 0) << "%" << id << " is no operator";
    }
  }
}

inline void check_time(const FusionPlan& plan) {
  double us = 0;
  for (const PlannedKernel& planned : plan.kernels) us += planned.kernel->predicted_us();
  EXPECT_NEAR(plan.cost_us(), us, 1e-9 * us);
}

inline void check_plan(const graph::Graph& fragment, const FusionPlan& plan) {
  check_order(fragment, plan);
  check_cover(fragment, plan);
  check_time(plan);
}

/// The plan's kernels, evaluated one after the other, give what the fragment gives.
inline void check_values(const graph::Graph& fragment, const FusionPlan& plan,
                         const std::vector<graph::Tensor>& arguments) {
  std::map<graph::Value, graph::Tensor> values;
  for (std::size_t i = 0; i < arguments.size(); ++i) values[{fragment.parameters()[i], 0}] = arguments[i];
  for (const PlannedKernel& planned : plan.kernels) {
    std::vector<graph::Tensor> inputs;
    for (const graph::Value argument : planned.arguments) inputs.push_back(values.at(argument));
    const auto outputs = graph::evaluate(planned.kernel->graph, inputs);
    ASSERT_TRUE(outputs) << outputs.error().message;
    for (std::size_t i = 0; i < planned.results.size(); ++i) values[planned.results[i]] = (*outputs)[i];
  }
  const auto expected = graph::evaluate(fragment, arguments);
  ASSERT_TRUE(expected) << expected.error().message;
  for (std::size_t r = 0; r < expected->size(); ++r) {
    const graph::Tensor& right = (*expected)[r];
    if (right.elements() == 0) continue;
    const graph::Tensor& got = values.at(fragment.results()[r]);
    ASSERT_EQ(got.elements(), right.elements());
    for (std::int64_t i = 0; i < right.elements(); ++i) {
      if (std::isnan(right.at(i)) && std::isnan(got.at(i))) continue;
      ASSERT_NEAR(got.at(i), right.at(i), 1e-9 * (1 + std::abs(right.at(i)))) << "result " << r << " element " << i;
    }
  }
}

/// Everything about a plan that a caller can see, as text: equal texts are equal plans.
inline std::string to_text(const FusionPlan& plan) {
  std::string text = fmt::format("{:.17g} us\n", plan.predicted_us);
  for (const PlannedKernel& planned : plan.kernels) {
    text += planned.kernel->key.hex() + " of";
    for (const graph::NodeId node : planned.nodes) text += fmt::format(" {}", node);
    text += " from";
    for (const graph::Value value : planned.arguments) text += " " + name_of(value);
    text += " to";
    for (const graph::Value value : planned.results) text += " " + name_of(value);
    const kernel::Schedule& schedule = planned.kernel->candidates.front().schedule;
    text += fmt::format(" {} threads {} cluster {} blocks", schedule.threads, schedule.cluster, schedule.blocks);
    for (const auto& phase : schedule.phases) {
      text += " |";
      for (const kernel::GroupMapping& group : phase) {
        text += fmt::format(" {}@{}", to_string(group.hold), group.vector_axis);
        for (const kernel::AxisMapping& axis : group.axes) {
          for (const std::int64_t extent : axis.extent) text += fmt::format(" {}", extent);
        }
      }
    }
    text += "\n";
  }
  return text;
}

}  // namespace stitch::search::test
