#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "profiler/gpu/cupti_api.h"

namespace stitch::profiler {

/// One thing that ran, by the device's own clock.
struct ActivityInterval {
  std::uint64_t start_ns = 0, end_ns = 0;
  [[nodiscard]] double us() const { return (end_ns - start_ns) * 1e-3; }
};

/// Of every `each` intervals that follow one another the first one's start to the last one's end: what a sample of that
/// many kernels took, gaps included. The intervals are in order of start. Error: unavailable (their number is no
/// multiple of `each`).
Result<std::vector<ActivityInterval>> spans_of(std::span<const ActivityInterval> intervals, std::size_t each);

/// Durations of kernels and of CUDA graphs from CUPTI's activity records. CUPTI knows one pair of callbacks per
/// process, so there is at most one timer at a time; it is used by one thread.
class CuptiTimer {
 public:
  enum class Kind : std::uint8_t {
    kernels,  ///< each kernel, also a graph's (CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
    graphs,   ///< each graph launch as a whole, its nodes unobserved (CUPTI_ACTIVITY_KIND_GRAPH_TRACE)
  };

  /// Begins to record; must come before the launches that it is to see. Errors: unavailable (CUPTI refuses; its own
  /// words), internal (there is a timer already).
  static Result<std::unique_ptr<CuptiTimer>> start(std::shared_ptr<const CuptiApi> api, Kind kind);
  /// Ends recording.
  ~CuptiTimer();
  CuptiTimer(const CuptiTimer&) = delete;
  CuptiTimer& operator=(const CuptiTimer&) = delete;

  /// What has run since the last call, in order of start; the work must have been waited for. `expected`: how many
  /// launches there were. Errors: unavailable (CUPTI delivered another number of records, or records without times).
  Result<std::vector<ActivityInterval>> take(std::size_t expected);
  /// Forgets what has run since the last call, of which nobody knows how much it was; how many records there were once
  /// no more came for a while. The work must have been waited for. Error: unavailable (CUPTI refuses).
  Result<std::size_t> count();

 private:
  CuptiTimer(std::shared_ptr<const CuptiApi> api, CUpti_ActivityKind kind) : api_(std::move(api)), kind_(kind) {}
  static void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records);
  static void CUPTIAPI take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                                   std::size_t valid);

  std::shared_ptr<const CuptiApi> api_;
  CUpti_ActivityKind kind_;
};

}  // namespace stitch::profiler
