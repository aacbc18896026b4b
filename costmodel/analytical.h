#pragma once

#include <string_view>

#include "costmodel/analytical_constants.h"
#include "costmodel/kernel_quantities.h"
#include "search/schedule/scorer.h"

namespace stitch::costmodel {

/// The analytical model: what a kernel takes, by a formula over what it does and what its GPU can do. Per kernel it is
/// launch + Σ over phases of max(DRAM, L2, shared memory, issue, integer unit, f64 unit, special functions, latency of
/// the waves) + barriers between phases. Bandwidth is limited by bytes in flight (Little's law over the resident
/// warps), throughput by whole waves of blocks. Of a softmax over 1024 rows of 768 on an H100 it says
///
///     1.2 µs of launch + 2.1 µs for 6.3 MB at 3 TB/s + a tenth of the limits that do not bind + ramp-up and drain
///
/// and explain() the same number with every term and the one that binds. It needs no measurements and is the scorer
/// wherever no trained model fits (tuning/ picks); trained models correct it (costmodel/combined.h) or start from its
/// order (costmodel/learned.h). The explorers of search/ ask it through search::Scorer; counts come from
/// costmodel/kernel_quantities.h, figures of the GPU from base/device_spec.h, the rest from AnalyticalConstants.
/// Sources and derivation: docs/cost-model.md.
class AnalyticalScorer final : public search::Scorer {
 public:
  static constexpr std::string_view version = "analytical v12";  ///< names it in records; rises with its predictions

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

/// predict_us of quantities that were counted before, for those who need the counts as well, in µs.
double analytical_us(const KernelQuantities& kernel, const DeviceSpec& device, const AnalyticalConstants& constants);
search::Score explain_analytical(const KernelQuantities& kernel, const DeviceSpec& device,
                                 const AnalyticalConstants& constants);

}  // namespace stitch::costmodel
