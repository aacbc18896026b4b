#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/device_spec.h"
#include "base/result.h"
#include "kernel/contraction/contraction_schedule.h"

namespace stitch::kernel {

/// One row of the legality table.
struct ContractionRule {
  std::string_view name;
  std::string_view why;
  /// Empty when the rule holds, else what is wrong.
  std::string (*violation)(const ContractionProblem& problem, const ContractionSchedule& schedule,
                           const DeviceSpec& device);
};
std::span<const ContractionRule> contraction_rules();

/// Checks every rule; the error (kind constraint) names the first that is broken.
Status check_legality(const ContractionProblem& problem, const ContractionSchedule& schedule, const DeviceSpec& device);

/// Tensor cores where the device has some that multiply the problem's types exactly, else CUDA cores: what a warp does
/// by itself.
ContractionInstruction instruction_for(const ContractionProblem& problem, const DeviceSpec& device);
/// That of four warps together, where the device has one for these types.
std::optional<ContractionInstruction> warpgroup_instruction_for(const ContractionProblem& problem,
                                                                const DeviceSpec& device);
/// That whose sums are in tensor memory (tcgen05), where the device has one for these types.
std::optional<ContractionInstruction> tensor_memory_instruction_for(const ContractionProblem& problem,
                                                                    const DeviceSpec& device);
/// Gives a schedule the widest copies and stores that its tiles and the problem's layouts allow.
void fit_accesses(const ContractionProblem& problem, ContractionSchedule& schedule);

/// A legal schedule that is reasonable anywhere: tensor cores where the dtypes have exact ones, the widest copies, as
/// many stages as fit. Where a search begins, and what is used where there is none. Error: constraint, none is legal.
Result<ContractionSchedule> default_schedule(const ContractionProblem& problem, const DeviceSpec& device);

}  // namespace stitch::kernel
