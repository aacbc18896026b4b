#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "base/device_spec.h"
#include "base/hash.h"
#include "base/result.h"
#include "costmodel/analytical_constants.h"
#include "costmodel/kernel_quantities.h"

namespace stitch::costmodel {

/// One measured candidate, as the analytical model sees it.
struct FitSample {
  KernelQuantities quantities;
  double measured_us = 0;
  Hash128 kernel;  ///< all candidates of a kernel together weigh as much as those of another
};

struct FitOptions {
  int rounds = 60;
  /// How strongly a constant is held to its default: the weight of one kernel that says the default, over all the
  /// constant's range. What measurements do not tell stays where it was.
  double hold = 0.05;
};

struct FittedConstant {
  std::string_view name;
  double before = 0, after = 0;
  bool at_bound = false;  ///< measurements want it further than is sensible: something else is wrong
};

/// What a fit changed. Errors are root mean squares of ln(predicted / measured), every kernel weighing the same;
/// e^error − 1 is about the relative error.
struct ConstantFit {
  AnalyticalConstants constants;
  std::vector<FittedConstant> changed;  ///< by more than a thousandth, in the order of the table
  double error_before = 0, error_after = 0;
  std::int64_t samples = 0, kernels = 0;
  int rounds = 0;
};

/// Least squares of ln(predicted / measured) over the constants of costmodel/analytical_constants.h, within their
/// bounds (Levenberg and Marquardt's method). Deterministic. Errors: invalid_argument (no samples; a time that is
/// none).
Result<ConstantFit> fit_constants(std::span<const FitSample> samples, const DeviceSpec& device,
                                  const FitOptions& options = {});

nlohmann::json to_document(const ConstantFit& fit);

}  // namespace stitch::costmodel
