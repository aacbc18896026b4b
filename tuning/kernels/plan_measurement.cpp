#include "tuning/kernels/plan_measurement.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "profiler/verify/kernel_buffers.h"

namespace stitch::tuning {
namespace {

using profiler::Access;
using profiler::BufferHandle;
using profiler::LaunchValue;

std::int64_t bytes_of(const api::Plan& plan) {
  std::int64_t bytes = plan.workspace_bytes;
  for (const auto* types : {&plan.parameters, &plan.results}) {
    for (const graph::TensorType& type : *types) bytes += type.bytes();
  }
  return bytes;
}

/// The copies before or behind the launches.
void add_copies(const api::Plan& plan, bool before, std::span<const BufferHandle> parameters,
                std::span<const BufferHandle> results, std::vector<profiler::PlanStep>& steps) {
  for (const api::ResultCopy& copy : plan.copies) {
    if (copy.before != before) continue;
    const std::size_t from = copy.from.value;
    const BufferHandle source =
        copy.from.kind == api::LaunchArgument::Kind::parameter ? parameters[from] : results[from];
    steps.emplace_back(profiler::PlannedCopy{source, results[copy.to], copy.bytes});
  }
}

}  // namespace

Result<PlanOnDevice> PlanOnDevice::prepare(profiler::TimedSession& session, const RunnablePlan& plan,
                                           const profiler::KernelMeasureOptions& options) {
  PlanOnDevice ready(session);
  std::vector<profiler::KernelHandle> kernels;
  for (const profiler::KernelImage& image : plan.images) {
    STITCH_ASSIGN(const auto kernel, session.load(image));
    kernels.push_back(kernel);
  }
  const std::int64_t affordable = options.most_bytes / std::max<std::int64_t>(1, bytes_of(*plan.plan));
  const auto sets = std::clamp<std::int64_t>(affordable, 1, options.rotations);
  for (std::int64_t i = 0; i < sets; ++i) {
    const auto inputs = profiler::make_inputs(*plan.fragment, options.distribution, mix(options.seed, i));
    STITCH_ASSIGN(const Set set, ready.allocate(*plan.plan, inputs));
    ready.rotations_.push_back(ready.steps(*plan.plan, kernels, set));
  }
  return ready;
}

PlanOnDevice::~PlanOnDevice() {
  for (const BufferHandle buffer : buffers_) (void)session_->free(buffer);
}

Result<PlanOnDevice::Set> PlanOnDevice::allocate(const api::Plan& plan,
                                                 const std::vector<profiler::InputSource>& inputs) {
  Set set;
  const auto add = [&](std::string name, std::int64_t bytes, profiler::Fill fill,
                       Access access) -> Result<BufferHandle> {
    STITCH_ASSIGN(const auto buffer, session_->allocate(std::move(name), bytes, std::move(fill), access));
    buffers_.push_back(buffer);
    return buffer;
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    STITCH_ASSIGN(const auto buffer,
                  add(fmt::format("parameter {}", i), inputs[i].type().bytes(), inputs[i].filler(), Access::read_only));
    set.parameters.push_back(buffer);
  }
  for (std::size_t i = 0; i < plan.results.size(); ++i) {
    STITCH_ASSIGN(const auto buffer,
                  add(fmt::format("result {}", i), plan.results[i].bytes(), profiler::Poison{}, Access::read_write));
    set.results.push_back(buffer);
  }
  if (plan.workspace_bytes > 0) {
    STITCH_ASSIGN(set.workspace, add("workspace", plan.workspace_bytes, profiler::Poison{}, Access::read_write));
    for (const api::ZeroedRange& range : plan.zeroed) {
      const std::vector<std::byte> zeros(range.bytes);
      STITCH_TRY(session_->write(set.workspace, range.offset, zeros));
    }
  }
  return set;
}

std::vector<profiler::PlanStep> PlanOnDevice::steps(const api::Plan& plan,
                                                    const std::vector<profiler::KernelHandle>& kernels,
                                                    const Set& set) const {
  const auto value_of = [&](const api::LaunchArgument& argument) -> LaunchValue {
    const std::size_t index = argument.value;
    switch (argument.kind) {
      case api::LaunchArgument::Kind::parameter: return set.parameters[index];
      case api::LaunchArgument::Kind::result: return set.results[index];
      case api::LaunchArgument::Kind::workspace:
        return static_cast<std::int64_t>(set.workspace.address) + argument.value;
      case api::LaunchArgument::Kind::integer: break;
    }
    return argument.value;
  };
  std::vector<profiler::PlanStep> steps;
  add_copies(plan, true, set.parameters, set.results, steps);
  for (std::size_t i = 0; i < plan.launches.size(); ++i) {
    const api::KernelLaunch& launch = plan.launches[i];
    std::vector<LaunchValue> arguments;
    for (const api::LaunchArgument& argument : launch.arguments) arguments.push_back(value_of(argument));
    steps.emplace_back(profiler::PlannedLaunch{
        kernels[i],
        {launch.blocks, launch.threads, launch.cluster, launch.shared_bytes, launch.cooperative, launch.dependent},
        std::move(arguments),
        launch.dependent && i > 0});
  }
  add_copies(plan, false, set.parameters, set.results, steps);
  return steps;
}

Result<profiler::Measurement> PlanOnDevice::measure(const profiler::MeasureOptions& options, bool as_graph) {
  return session_->measure({rotations_, as_graph, options});
}

}  // namespace stitch::tuning
