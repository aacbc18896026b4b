#pragma once

#include "base/device_spec.h"
#include "kernel/index/axes.h"
#include "search/partition/vertex_graph.h"

namespace stitch::search {

/// Constants of the delta evaluator, µs; they follow from the device table, with factors fitted to the full model.
struct DeltaModel {
  double us_per_byte = 0;      ///< device-memory traffic removed
  double us_per_launch = 0;    ///< launches removed
  double us_per_phase = 0;     ///< a grid-wide dependence inside the pattern
  double us_per_operator = 0;  ///< resources: registers and code of every further operator
  double on_chip_bytes = 0;    ///< a row longer than this is read again for every sweep

  static DeltaModel of(const DeviceSpec& device);
};

/// Fast score of a fusion pattern (FusionStitching §5.1): f = ΔT(traffic) + ΔT(launches) − penalty; µs saved over
/// running every operator of the pattern in a kernel of its own.
class DeltaEvaluator {
 public:
  DeltaEvaluator(const VertexGraph& vertices, const kernel::AxisAnalysis& axes, DeltaModel model);
  [[nodiscard]] double gain_us(const VertexSet& pattern) const;

  /// The quantities that the constants multiply; what regression is fitted on.
  struct Features {
    double bytes_saved = 0;
    double launches_saved = 0;
    double phases = 0;
    double bytes_again = 0;
    double operators = 0;
  };
  [[nodiscard]] Features features(const VertexSet& pattern) const;

 private:
  const VertexGraph& vertices_;
  const kernel::AxisAnalysis& axes_;
  DeltaModel model_;
};

}  // namespace stitch::search
