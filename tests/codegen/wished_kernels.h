#pragma once

#include <cmath>
#include <memory>
#include <stdexcept>
#include <vector>

#include "base/random.h"
#include "tests/codegen/kernel_run.h"

/// Kernels whose schedules have a property, wherever the cost model ranks them, and inputs to run them on.
namespace stitch::codegen::test {

inline std::vector<Bytes> random_inputs(const graph::Graph& graph) {
  Random random(7);
  std::vector<Bytes> inputs;
  for (const graph::NodeId id : graph.parameters()) {
    const graph::TensorType& type = graph.node(id).type();
    std::vector<double> values(type.elements());
    for (double& value : values) {
      value = graph::is_integer(type.dtype) ? std::floor(random.uniform() * 40) : 4 * random.uniform() - 2;
    }
    inputs.push_back(bytes_of(type.dtype, values));
  }
  return inputs;
}

/// Likes what is wished best.
class WishScorer final : public search::Scorer {
 public:
  explicit WishScorer(Wish wish) : wish_(std::move(wish)) {}
  [[nodiscard]] double predict_us(const graph::Graph&, const kernel::KernelProgram& program) const override {
    return wish_(program) ? 1 : 2;
  }
  [[nodiscard]] search::Score explain(const graph::Graph&, const kernel::KernelProgram&) const override { return {}; }
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }

 private:
  Wish wish_;
  DeviceSpec device_ = *find_device("h100");
};

/// Kernels of a graph whose schedules are as wished, of the wide space; at most so many, spread evenly.
inline std::vector<KernelCase> cases_of(Result<graph::Graph> graph, const Wish& wish, std::size_t most) {
  if (!graph) {
    throw std::runtime_error(graph.error().message);
  }
  const auto shared = std::make_shared<const graph::Graph>(std::move(*graph));
  const auto space =
      search::explore_space(*shared, WishScorer(wish), {.keep = 100000, .wide = true, .loads_ahead = true});
  if (!space) {
    throw std::runtime_error(space.error().message);
  }
  std::vector<KernelCase> all;
  for (const search::StitchCandidate& candidate : space->candidates) {
    if (!wish(candidate.program)) continue;
    auto kernel = generate(*shared, candidate.program, {});
    if (!kernel) {
      throw std::runtime_error(kernel.error().message);
    }
    all.push_back({shared, candidate.program, std::move(*kernel)});
  }
  if (all.size() <= most) return all;
  std::vector<KernelCase> spread;
  for (std::size_t i = 0; i < most; ++i) spread.push_back(all[i * all.size() / most]);
  return spread;
}

}  // namespace stitch::codegen::test
