#pragma once

#include <string_view>

#include "costmodel/analytical_constants.h"
#include "costmodel/kernel_quantities.h"
#include "search/schedule/scorer.h"

namespace stitch::costmodel {

/// The analytical model: per kernel, launch + Σ over phases of max(DRAM, L2, shared memory, issue, integer unit, f64
/// unit, special functions, latency of the waves) + barriers between phases. Bandwidth is limited by bytes in flight
/// (Little's law over the resident warps), throughput by whole waves of blocks. Sources and derivation:
/// docs/cost-model.md.
class AnalyticalScorer final : public search::Scorer {
 public:
  static constexpr std::string_view version = "analytical v8";  ///< names it in records; rises with its predictions

  explicit AnalyticalScorer(DeviceSpec device, AnalyticalConstants constants = {})
      : device_(std::move(device)), constants_(constants) {}

  [[nodiscard]] double predict_us(const graph::Graph& graph, const kernel::KernelProgram& program) const override;
  [[nodiscard]] search::Score explain(const graph::Graph& graph, const kernel::KernelProgram& program) const override;
  [[nodiscard]] const DeviceSpec& device() const override { return device_; }
  [[nodiscard]] const AnalyticalConstants& constants() const { return constants_; }

 private:
  DeviceSpec device_;
  AnalyticalConstants constants_;
};

/// The same of what was counted before, for those who need the counts as well.
double analytical_us(const KernelQuantities& kernel, const DeviceSpec& device, const AnalyticalConstants& constants);
search::Score explain_analytical(const KernelQuantities& kernel, const DeviceSpec& device,
                                 const AnalyticalConstants& constants);

}  // namespace stitch::costmodel
