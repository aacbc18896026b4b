#pragma once

#include "base/device_spec.h"
#include "base/result.h"
#include "costmodel/analytical_constants.h"
#include "kernel/contraction/contraction_problem.h"

namespace stitch::tuning {

/// What a vendor's library is predicted to take in the place of a kernel of ours, µs.
struct LibraryPrice {
  /// Its calls, one after another: for each product as many as its layout takes (graph/calls/strided_matmul.h), each of
  /// which reads its operands again. Where rows are combined, the kernel behind it.
  double calls_us = 0;
  /// What no call computes of the epilogues, as a kernel of its own: nothing where operators around it have one anyway.
  double rest_us = 0;
};

/// Error: unsupported, of a part that is no product by itself.
Result<LibraryPrice> library_price(const kernel::ContractionProblem& problem, const DeviceSpec& device,
                                   const costmodel::AnalyticalConstants& constants = {});

}  // namespace stitch::tuning
