#pragma once

#include <array>
#include <utility>

#include "base/device_spec.h"
#include "costmodel/analytical_constants.h"
#include "costmodel/kernel_quantities.h"

namespace stitch::costmodel {

/// Rival limits of one phase, µs; the largest decides. phase_time makes it, the analytical model adds it up and names
/// its parts.
struct PhaseTime {
  double dram = 0, l2 = 0, shared = 0, issue = 0, integer = 0, f64 = 0, special = 0, latency = 0;
  double tensor = 0;  ///< of tensor cores
  /// What no limit hides, µs: blocks that began together reduce together, and their stores wait for that.
  double serial = 0;

  [[nodiscard]] std::array<std::pair<const char*, double>, 9> parts() const;
  [[nodiscard]] std::pair<const char*, double> binding() const;
  /// The limits overlap imperfectly: a part of what is not binding shows.
  [[nodiscard]] double total(double overlap) const;
};

/// What a phase takes on a device by the limits of docs/cost-model.md, each of which has its source at the constant
/// that it uses.
PhaseTime phase_time(const PhaseQuantities& phase, const KernelQuantities& kernel, const DeviceSpec& device,
                     const AnalyticalConstants& constants);

}  // namespace stitch::costmodel
