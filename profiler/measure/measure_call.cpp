#include "profiler/measure/measure_call.h"

#include <algorithm>
#include <vector>

#include "base/hash.h"
#include "graph/traffic.h"
#include "profiler/verify/kernel_buffers.h"

namespace stitch::profiler {
namespace {

/// What calls allocated, given back when all was measured.
class CallBuffers {
 public:
  explicit CallBuffers(TimedSession& session) : session_(session) {}
  CallBuffers(const CallBuffers&) = delete;
  CallBuffers& operator=(const CallBuffers&) = delete;
  ~CallBuffers() {
    for (const BufferHandle buffer : held_) (void)session_.free(buffer);
  }
  Result<BufferHandle> allocate(std::string name, std::int64_t bytes, Fill fill, Access access) {
    STITCH_ASSIGN(const BufferHandle buffer, session_.allocate(std::move(name), bytes, std::move(fill), access));
    held_.push_back(buffer);
    return buffer;
  }

 private:
  TimedSession& session_;
  std::vector<BufferHandle> held_;
};

}  // namespace

Result<MeasuredCall> measure_call(TimedSession& session, const graph::Graph& call,
                                  const KernelMeasureOptions& options) {
  if (call.results().size() != 1 || call.type(call.results().front()).bytes() == 0)
    return make_error(ErrorKind::unsupported, "a call that has nothing to compute");
  STITCH_ASSIGN(const PreparedCall prepared, session.prepare(call));
  const std::int64_t affordable = options.most_bytes / std::max<std::int64_t>(1, graph::interface_bytes(call));
  const std::size_t sets = std::clamp<std::int64_t>(affordable, 1, options.rotations);
  CallBuffers buffers(session);
  MeasureTask task;
  task.options = options.measure;
  task.options.counters = false;  // they are a kernel's
  task.cuda_graph = prepared.copies > 0;
  for (std::size_t i = 0; i < sets; ++i) {
    PlannedCall planned{prepared.call, {}, {}};
    const auto sources = make_inputs(call, options.distribution, mix(options.seed, i));
    for (std::size_t p = 0; p < sources.size(); ++p) {
      STITCH_ASSIGN(planned.parameters.emplace_back(),
                    buffers.allocate(fmt::format("parameter {}", p), sources[p].type().bytes(), sources[p].filler(),
                                     Access::read_only));
    }
    STITCH_ASSIGN(planned.result,
                  buffers.allocate("result", call.type(call.results().front()).bytes(), Poison{}, Access::read_write));
    task.rotations.push_back({std::move(planned)});
  }
  STITCH_ASSIGN(Measurement measurement, session.measure(task));
  return MeasuredCall{prepared.library, std::move(measurement)};
}

}  // namespace stitch::profiler
