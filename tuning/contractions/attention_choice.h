#pragma once

#include "base/device_spec.h"
#include "base/result.h"
#include "costmodel/contraction/attention_time.h"
#include "costmodel/trained_model.h"
#include "search/contraction/attention_space.h"

namespace stitch::tuning {

/// What is thought of an attention before anything is compiled: its fastest schedules, and the same in three steps.
struct AttentionChoice {
  search::RankedAttentions ranked;
  costmodel::AttentionTime time;  ///< of the first
  double unfused_us = 0;          ///< predicted: the library's products and a softmax between them
  double uncertainty_us = 0;      ///< of the difference
};

/// The fragment as an attention, for which a kernel can be generated. Errors: unsupported (it is none).
Result<kernel::AttentionProblem> attention_of(const graph::Graph& fragment);

/// Ranks the schedules of an attention by the analytical model, or by what a combined one makes
/// of it. Errors: those of best_attentions.
Result<AttentionChoice> choose_attention(const kernel::AttentionProblem& problem, const DeviceSpec& device,
                                         const search::ContractionSpaceOptions& options = {},
                                         const costmodel::AnalyticalConstants& constants = {},
                                         const costmodel::TrainedCostModel* model = nullptr);

}  // namespace stitch::tuning
