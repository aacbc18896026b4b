#pragma once

#include <stdexcept>
#include <utility>

#include "costmodel/analytical.h"
#include "graph/builder.h"
#include "search/schedule/stitch_explorer.h"
#include "tests/profiler/sample_graphs.h"

/// Scheduled kernels to predict the time of.
namespace stitch::costmodel::test {

/// A graph and one of its programs (which refers to the graph).
struct Kernel {
  std::shared_ptr<const graph::Graph> graph;
  kernel::KernelProgram program;
  double predicted_us = 0;
};

/// All candidates for a device, best first.
inline std::vector<Kernel> candidates_of(Result<graph::Graph> graph, const DeviceSpec& device, int keep = 1000) {
  if (!graph) {
    throw std::runtime_error(graph.error().message);
  }
  const auto shared = std::make_shared<const graph::Graph>(std::move(*graph));
  const auto found = search::explore_stitches(*shared, AnalyticalScorer(device), {keep, false});
  if (!found) {
    throw std::runtime_error(found.error().message);
  }
  std::vector<Kernel> kernels;
  for (const search::StitchCandidate& candidate : *found)
    kernels.push_back({shared, candidate.program, candidate.predicted_us});
  return kernels;
}

inline Kernel best_of(Result<graph::Graph> graph, const DeviceSpec& device = *find_device("h100")) {
  return candidates_of(std::move(graph), device, 1).front();
}

struct NamedGraph {
  std::string name;
  std::function<Result<graph::Graph>()> graph;
};

inline void PrintTo(const NamedGraph& named, std::ostream* out) { *out << named.name; }

/// One of each kind of kernel.
/// A dropout's mask: a byte per element, made of random bits. `words`: of the two that there are, how many it uses.
inline Result<graph::Graph> dropout_mask(std::int64_t elements, int words = 2) {
  graph::Builder b;
  const graph::Dims dims = {elements};
  const graph::Value key = b.broadcast(b.parameter(graph::DType::u32, {}), dims, {});
  const graph::Value bits = b.add(graph::Op::threefry2x32,
                                  {key, key, b.filled(graph::DType::u32, dims, 0), b.iota(graph::DType::u32, dims, 0)});
  const graph::Value word = words == 1 ? bits : b.binary(graph::Op::bit_xor, bits, {bits.node, 1});
  return b.finish({b.compare(graph::Comparison::lt, word, b.filled(graph::DType::u32, dims, 1 << 30))});
}

inline std::vector<NamedGraph> kinds_of_kernel() {
  using profiler::test::channel_reduction, profiler::test::looked_up, profiler::test::norm_backward,
      profiler::test::packed, profiler::test::scaled_sum, profiler::test::scanned, profiler::test::scattered,
      profiler::test::softmax, profiler::test::transposed;
  return {
      {"element_wise", [] { return scaled_sum({1 << 20}); }},
      {"tiny", [] { return scaled_sum({7}); }},
      {"softmax", [] { return softmax(1024, 768); }},
      {"long_softmax", [] { return softmax(64, 65536); }},
      {"norm_backward", [] { return norm_backward(2048, 256); }},
      {"channels",
       [] {
         return channel_reduction(graph::ReduceKind::sum, {256, 8, 100});
       }},
      {"scan", [] { return scanned(300, 100); }},
      {"transpose",
       [] {
         return transposed({1000, 700}, {1, 0});
       }},
      {"gather", [] { return looked_up(5000, 96, 3000); }},
      {"scatter", [] { return scattered(300, 64, 40); }},
      {"large_scatter", [] { return scattered(4096, 64, 1024); }},
      {"packed", [] { return packed(5); }},
      {"random_bits", [] { return dropout_mask(1 << 22); }},
      {"f64",
       [] {
         graph::Builder b;
         return b.finish({b.unary(graph::Op::exp, b.parameter(graph::DType::f64, {1 << 20}))});
       }},
  };
}

}  // namespace stitch::costmodel::test
