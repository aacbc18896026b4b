#pragma once

#include "base/device_spec.h"
#include "base/result.h"
#include "costmodel/contraction/contraction_time.h"
#include "costmodel/trained_model.h"
#include "search/contraction/contraction_space.h"
#include "tuning/contractions/library_price.h"

namespace stitch::tuning {

/// What is thought of a contraction before anything is compiled: its fastest schedules, and the library's call.
struct ContractionChoice {
  search::RankedContractions ranked;
  costmodel::ContractionTime time;  ///< of the first
  LibraryPrice library;
  double uncertainty_us = 0;  ///< of the difference between the two predictions
};

/// The fragment as a product with its epilogue (and what that combines of rows), or as several of one operand, of
/// operands in memory, of such whose depth is scaled part by part, or such as are computed while they are loaded, for
/// which a kernel can be generated. Errors: unsupported (it is none).
Result<kernel::ContractionProblem> product_of(const graph::Graph& fragment);
/// The same where scaled operands are computed while they are loaded.
Result<kernel::ContractionProblem> dequantised_product(const graph::Graph& fragment);

/// The schedules that a fragment under these constraints may have, of which `count` are wanted.
search::ContractionSpaceOptions space_under(const graph::Constraints& constraints, std::size_t count);

/// Ranks the schedules of a contraction by the analytical model, or by what a combined one makes
/// of it. Error: constraint (none is legal).
Result<ContractionChoice> choose_contraction(const kernel::ContractionProblem& problem, const DeviceSpec& device,
                                             const search::ContractionSpaceOptions& options = {},
                                             const costmodel::AnalyticalConstants& constants = {},
                                             const costmodel::TrainedCostModel* model = nullptr);

}  // namespace stitch::tuning
