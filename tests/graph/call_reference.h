#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "base/random.h"
#include "graph/calls/find_calls.h"
#include "graph/literal.h"
#include "graph/reference/evaluate.h"
#include "graph/subgraph.h"

namespace stitch::graph::test {

/// The graphs of all library calls of a graph, as a program has them.
inline std::vector<Graph> calls_of(const Graph& graph) {
  std::vector<Graph> calls;
  for (const LibraryCall& call : find_library_calls(graph)) {
    auto part = subgraph(graph, call.operands, {call.result});
    EXPECT_TRUE(part.ok()) << part.error().message;
    if (part) calls.push_back(*std::move(part));
  }
  return calls;
}

/// Runs what a library's call was described as on small integers, of which sums are exact in any order, and compares
/// every element of the result with the reference. `run`: the result's elements, of so many, by the arguments.
inline void expect_reference(const Graph& call,
                             const std::function<std::vector<double>(const std::vector<Tensor>&, std::int64_t)>& run) {
  std::vector<Tensor> arguments;
  Random random(3);
  for (const NodeId parameter : call.parameters()) {
    const TensorType& type = call.node(parameter).type();
    std::vector<std::byte> bytes(type.bytes());
    for (std::int64_t i = 0; i < type.elements(); ++i)
      store_element(type.dtype, static_cast<double>(random.below(9)) - 4, bytes.data() + i * byte_size(type.dtype));
    arguments.push_back(tensor_from_bytes(type, Box::whole(type.dims), bytes));
  }
  const auto reference = evaluate(call, arguments);
  ASSERT_TRUE(reference.ok()) << reference.error().message;
  const std::int64_t elements = call.type(call.results()[0]).elements();
  const std::vector<double> found = run(arguments, elements);
  for (std::int64_t i = 0; i < elements; ++i) ASSERT_EQ(found[i], (*reference)[0].at(i)) << "element " << i;
}

}  // namespace stitch::graph::test
