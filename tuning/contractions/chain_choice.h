#pragma once

#include "base/device_spec.h"
#include "base/result.h"
#include "costmodel/contraction/chain_time.h"
#include "costmodel/trained_model.h"
#include "search/contraction/chain_space.h"

namespace stitch::tuning {

/// What is thought of a chain of products before anything is compiled: its fastest schedules, and the same step by
/// step.
struct ChainChoice {
  search::RankedChains ranked;
  costmodel::AttentionTime time;  ///< of the first
  double unfused_us = 0;          ///< predicted: the library's products and what is between them
  double uncertainty_us = 0;      ///< of the difference
};

/// The fragment as a chain of products, for which a kernel can be generated. Errors: unsupported (it is none).
Result<kernel::ProductChain> chain_of(const graph::Graph& fragment);

/// Ranks the schedules of a chain by the analytical model, or by what a combined one makes
/// of it. Errors: those of best_chains.
Result<ChainChoice> choose_chain(const kernel::ProductChain& chain, const DeviceSpec& device,
                                 const search::ContractionSpaceOptions& options = {},
                                 const costmodel::AnalyticalConstants& constants = {},
                                 const costmodel::TrainedCostModel* model = nullptr);

}  // namespace stitch::tuning
