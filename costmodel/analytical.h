#pragma once

#include <string_view>

#include "search/scorer.h"

namespace stitch::costmodel {

/// The analytical model: per kernel, launch + Σ over phases of max(DRAM, L2, shared memory, issue, special functions,
/// latency of the waves) + barriers between phases. Bandwidth is limited by bytes in flight (Little's law over the
/// resident warps), throughput by whole waves of blocks. Sources and derivation: docs/cost-model.md.
class AnalyticalScorer final : public search::Scorer {
 public:
  static constexpr std::string_view version = "analytical v1";  ///< names the model in records

  explicit AnalyticalScorer(DeviceSpec device) : device_(std::move(device)) {}

  [[nodiscard]] double predict_us(const graph::Graph& graph, const search::KernelProgram& program) const override;
  [[nodiscard]] search::Score explain(const graph::Graph& graph, const search::KernelProgram& program) const override;
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }

 private:
  DeviceSpec device_;
};

}  // namespace stitch::costmodel
