#include "tuning/kernels/work_counter.h"

namespace stitch::tuning {

WorkCounts& WorkCounts::operator+=(const WorkCounts& other) {
  compiled += other.compiled;
  verified += other.verified;
  measured += other.measured;
  predicted += other.predicted;
  tuned += other.tuned;
  return *this;
}

void WorkCounter::count(std::int64_t WorkCounts::*kind, std::int64_t by) {
  const std::lock_guard lock(mutex_);
  counts_.*kind += by;
}

WorkCounts WorkCounter::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

Result<codegen::CompiledKernel> CountingCompiler::compile(const codegen::CompileRequest& request) {
  work_.count(&WorkCounts::compiled);
  return compiler_.compile(request);
}

Result<std::unique_ptr<profiler::Session>> CountingVerifier::session() {
  work_.count(&WorkCounts::verified);
  return device_.session();
}

Result<profiler::Measurement> CountingTimer::measure_kernel(const BuiltKernel& built) {
  work_.count(&WorkCounts::measured);
  return timer_.measure_kernel(built);
}

Result<std::vector<profiler::Measurement>> CountingTimer::measure_plans(std::span<const RunnablePlan> plans) {
  work_.count(&WorkCounts::measured, std::ssize(plans));
  return timer_.measure_plans(plans);
}

Result<profiler::MeasuredCall> CountingTimer::measure_call(const graph::Graph& call) {
  work_.count(&WorkCounts::measured);
  return timer_.measure_call(call);
}

}  // namespace stitch::tuning
