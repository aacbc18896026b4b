#pragma once

#include "base/device_spec.h"
#include "costmodel/contraction/attention_time.h"
#include "costmodel/contraction/contraction_time.h"
#include "costmodel/kernel_features.h"
#include "kernel/attention/chain_schedule.h"

namespace stitch::costmodel {

/// A scheduled kernel of the matmul class as a row of numbers for a learned model, with the columns of
/// kernel_features.h: the problem (extents, types, layouts, what fused neighbours read), the schedule (tiles of block,
/// warp and instruction, stages of both levels, what blocks share), and what follows from both (occupancy, waves,
/// traffic, the parts of the analytical time as shares of it). `time` is contraction_time, attention_time or chain_time
/// of the same. Columns that only memory-intensive kernels have are missing, and those of the compiler where `compiled`
/// is null.
KernelFeatures product_features(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                                const ContractionTime& time, const DeviceSpec& device,
                                const CompiledFacts* compiled = nullptr);
/// Rows are queries, columns keys, the depth that of the scores.
KernelFeatures product_features(const kernel::AttentionProblem& problem, const kernel::AttentionSchedule& schedule,
                                const AttentionTime& time, const DeviceSpec& device,
                                const CompiledFacts* compiled = nullptr);
/// Rows and columns are those of the scores, the depth that of all of them, the width that of all second products.
KernelFeatures product_features(const kernel::ProductChain& chain, const kernel::ChainSchedule& schedule,
                                const AttentionTime& time, const DeviceSpec& device,
                                const CompiledFacts* compiled = nullptr);

}  // namespace stitch::costmodel
