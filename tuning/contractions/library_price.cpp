#include "tuning/contractions/library_price.h"

#include <algorithm>

#include "costmodel/contraction/contraction_time.h"
#include "costmodel/contraction/product_rates.h"
#include "graph/builder.h"
#include "graph/calls/find_calls.h"
#include "graph/calls/strided_matmul.h"
#include "graph/subgraph.h"
#include "kernel/contraction/computed_operand.h"
#include "kernel/contraction/summed_contraction.h"

namespace stitch::tuning {
namespace {

using graph::Dims;
using kernel::ContractionProblem;

/// One of several calls, as a product of its own: its longest loop is the batch.
Result<ContractionProblem> one_call_of(const graph::StridedMatmul& matmul) {
  const std::int64_t batch = std::ranges::max(matmul.loops);
  graph::Builder builder;
  const graph::Value left = builder.parameter(matmul.left.dtype, Dims{batch, matmul.rows, matmul.depth});
  const graph::Value right = builder.parameter(matmul.right.dtype, Dims{batch, matmul.depth, matmul.columns});
  STITCH_ASSIGN(graph::Graph call,
                builder.finish({builder.dot(left, right, {{0}, {0}, {2}, {1}, matmul.result.dtype})}));
  call.constraints.tf32 = matmul.tf32;
  return kernel::derive_contraction(std::move(call));
}

class Pricing {
 public:
  Pricing(const DeviceSpec& device, const costmodel::AnalyticalConstants& constants)
      : device_(device), constants_(constants) {}

  /// Of one product; `alone`: all that is computed.
  Result<LibraryPrice> of(const ContractionProblem& problem, const graph::Graph& alone) const {
    const std::vector<graph::LibraryCall> calls = graph::find_library_calls(alone);
    if (calls.size() == 1 && calls[0].result != alone.results()[0]) {
      if (const auto narrow = kernel::contraction_of(alone, calls[0])) {
        STITCH_ASSIGN(LibraryPrice price, of(*narrow, *narrow->graph));
        price.rest_us = costmodel::rows_apart_us(problem, *narrow->graph, device_, constants_);
        return price;
      }
    }
    const double us = costmodel::library_us(problem, device_, constants_);
    const auto matmul = graph::describe_matmul(alone);
    if (!matmul || matmul->calls() == 1) return LibraryPrice{us, 0};
    const auto call = one_call_of(*matmul);
    if (!call) return LibraryPrice{us, 0};
    const double each = costmodel::library_us(*call, device_, constants_);
    return LibraryPrice{std::max(us, static_cast<double>(matmul->calls()) * each), 0};
  }

 private:
  const DeviceSpec& device_;
  const costmodel::AnalyticalConstants& constants_;
};

}  // namespace

Result<LibraryPrice> library_price(const ContractionProblem& problem, const DeviceSpec& device,
                                   const costmodel::AnalyticalConstants& constants) {
  if (!problem.computed.empty()) {
    STITCH_ASSIGN(LibraryPrice price, library_price(kernel::without_computing(problem), device, constants));
    price.calls_us += costmodel::computing_apart_us(problem, true, device, constants);
    return price;
  }
  const Pricing pricing(device, constants);
  if (problem.scales) {
    // Of scaled operands the library multiplies what another kernel makes of them, of parts each by itself.
    if (problem.scales->of_sums) return pricing.of(problem, *problem.scaled);
    STITCH_ASSIGN(const ContractionProblem dequantised, kernel::derive_computed(*problem.scaled));
    return library_price(dequantised, device, constants);
  }
  if (problem.other_right) {
    LibraryPrice both;
    for (const graph::NodeId root : {problem.root, problem.other_root}) {
      STITCH_ASSIGN(const graph::Graph product, graph::part_of(*problem.graph, {root, 0}));
      STITCH_ASSIGN(const ContractionProblem alone, kernel::derive_contraction(product));
      STITCH_ASSIGN(const LibraryPrice price, pricing.of(alone, product));
      both.calls_us += price.calls_us;
    }
    // The kernel behind them reads both.
    STITCH_ASSIGN(const graph::Graph other, graph::part_of(*problem.graph, {problem.other_root, 0}));
    const double read = static_cast<double>(other.type(other.results()[0]).bytes());
    both.calls_us += costmodel::rows_apart_us(problem, other, device, constants) + read / device.copy_bandwidth() * 1e6;
    return both;
  }
  if (!problem.terms.empty()) {
    STITCH_ASSIGN(LibraryPrice all, library_price(kernel::without_other_terms(problem), device, constants));
    for (const graph::NodeId root : kernel::other_roots(problem)) {
      STITCH_ASSIGN(const graph::Graph product, graph::part_of(*problem.summed, {root, 0}));
      STITCH_ASSIGN(const ContractionProblem alone, kernel::derive_contraction(product));
      STITCH_ASSIGN(const LibraryPrice price, pricing.of(alone, product));
      // Whoever adds it reads it.
      all.calls_us += price.calls_us + product.type(product.results()[0]).bytes() / device.copy_bandwidth() * 1e6;
    }
    return all;
  }
  if (problem.has_rows()) {
    STITCH_ASSIGN(const graph::Graph product, kernel::without_rows(problem));
    STITCH_ASSIGN(const ContractionProblem alone, kernel::derive_contraction(product));
    STITCH_ASSIGN(const LibraryPrice price, pricing.of(alone, product));
    // The kernel behind computes what no call does.
    const double behind = costmodel::rows_apart_us(problem, product, device, constants);
    if (problem.column_sums.empty()) return LibraryPrice{price.calls_us + behind, 0};
    // Sums of columns are made where the rest of the epilogue is, or where operators around them have a kernel anyway.
    const double launch = costmodel::launch_time(device, constants);
    return LibraryPrice{price.calls_us + std::max(behind, price.rest_us) - launch, launch};
  }
  if (problem.members.empty()) return pricing.of(problem, *problem.graph);
  LibraryPrice sum;
  for (std::size_t m = 0; m < problem.members.size(); ++m) {
    STITCH_ASSIGN(const graph::Graph one, graph::part_of(*problem.graph, problem.graph->results()[m]));
    STITCH_ASSIGN(const LibraryPrice price, pricing.of(problem.members[m], one));
    sum.calls_us += price.calls_us;
    sum.rest_us += price.rest_us;
  }
  return sum;
}

}  // namespace stitch::tuning
