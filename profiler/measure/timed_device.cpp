#include "profiler/measure/timed_device.h"

#include <algorithm>

namespace stitch::profiler {
namespace {

bool differ_in_buffers_only(const PlanStep& a, const PlanStep& b) {
  if (a.index() != b.index()) return false;
  if (const auto* copy = std::get_if<PlannedCopy>(&a)) return copy->bytes == std::get<PlannedCopy>(b).bytes;
  if (const auto* call = std::get_if<PlannedCall>(&a)) {
    const auto& other = std::get<PlannedCall>(b);
    return call->call.id == other.call.id && call->parameters.size() == other.parameters.size();
  }
  const auto &one = std::get<PlannedLaunch>(a), &other = std::get<PlannedLaunch>(b);
  return one.kernel.id == other.kernel.id && one.shape == other.shape;
}

}  // namespace

Status check_task(const MeasureTask& task) {
  if (task.rotations.empty() || task.rotations.front().empty()) {
    return make_error(ErrorKind::invalid_argument, "nothing to measure");
  }
  const auto& first = task.rotations.front();
  for (std::size_t r = 0; r < task.rotations.size(); ++r) {
    const auto& steps = task.rotations[r];
    if (steps.size() != first.size()) {
      return make_error(ErrorKind::invalid_argument, "rotation {} has {} steps, rotation 0 has {}", r, steps.size(),
                        first.size());
    }
    if (!task.cuda_graph && (steps.size() != 1 || std::holds_alternative<PlannedCopy>(steps[0]))) {
      return make_error(ErrorKind::invalid_argument,
                        "rotation {}: without a CUDA graph a sample is exactly one launch of a kernel, or call", r);
    }
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (!differ_in_buffers_only(first[i], steps[i])) {
        return make_error(ErrorKind::invalid_argument, "rotation {}: step {} is another one than in rotation 0", r, i);
      }
      if (const auto* launch = std::get_if<PlannedLaunch>(&steps[i])) STITCH_TRY(check_shape(launch->shape));
    }
  }
  return {};
}

Measurement begin_measurement(const MeasureTask& task) {
  Measurement measurement;
  measurement.cold_l2 = task.options.cold_l2;
  measurement.cuda_graph = task.cuda_graph;
  measurement.rotation = task.rotations.size();
  measurement.launches = std::ranges::count_if(
      task.rotations.front(), [](const PlanStep& step) { return !std::holds_alternative<PlannedCopy>(step); });
  return measurement;
}

Status check_shape(const LaunchShape& shape) {
  constexpr std::int64_t most_blocks = (std::int64_t{1} << 31) - 1, most_shared = std::int64_t{1} << 20;
  if (shape.blocks < 1 || shape.blocks > most_blocks) {
    return make_error(ErrorKind::constraint, "{} blocks, 1 to {} are possible", shape.blocks, most_blocks);
  }
  if (shape.threads < 1 || shape.threads > 1024) {
    return make_error(ErrorKind::constraint, "{} threads a block, 1 to 1024 are possible", shape.threads);
  }
  if (shape.cluster < 1 || shape.cluster > 16 || shape.blocks % shape.cluster != 0) {
    return make_error(ErrorKind::constraint, "clusters of {} blocks in a grid of {}", shape.cluster, shape.blocks);
  }
  if (shape.shared_bytes < 0 || shape.shared_bytes > most_shared) {
    return make_error(ErrorKind::constraint, "{} bytes of dynamic shared memory", shape.shared_bytes);
  }
  return {};
}

}  // namespace stitch::profiler
