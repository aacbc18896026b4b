#include "profiler/gpu/cupti_timer.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace stitch::profiler {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
constexpr std::size_t buffer_alignment = 8;  // ACTIVITY_RECORD_ALIGNMENT (cupti_activity.h)

/// What CUPTI's callbacks, which it may make from a thread of its own, leave for the timer. They carry no context of
/// ours, so that this is the process's.
struct Inbox {
  std::mutex mutex;
  const CuptiApi* api = nullptr;  ///< set while a timer lives
  bool registered = false;        ///< CUPTI knows the callbacks; once is enough
  std::vector<ActivityInterval> intervals;
  std::size_t without_times = 0;
};
Inbox& inbox() {
  static Inbox& box = *new Inbox;  // never destroyed: CUPTI may call at the very end of the process
  return box;
}

void read_record(const CUpti_Activity* record, Inbox& box) {
  ActivityInterval interval;
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* kernel = reinterpret_cast<const CuptiKernelRecord*>(record);
    interval = {kernel->start, kernel->end};
  } else if (record->kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
    const auto* graph = reinterpret_cast<const CUpti_ActivityGraphTrace2*>(record);
    interval = {graph->start, graph->end};
  } else {
    return;
  }
  if (interval.start_ns == 0 || interval.end_ns < interval.start_ns) {
    ++box.without_times;
  } else {
    box.intervals.push_back(interval);
  }
}

}  // namespace

Result<std::vector<ActivityInterval>> spans_of(std::span<const ActivityInterval> intervals, std::size_t each) {
  if (each == 0 || intervals.size() % each != 0) {
    return make_error(ErrorKind::unavailable, "{} kernels were recorded, which is no multiple of {}", intervals.size(),
                      each);
  }
  std::vector<ActivityInterval> spans;
  for (std::size_t from = 0; from < intervals.size(); from += each) {
    ActivityInterval span = intervals[from];
    // Kernels of a graph may run side by side: the one that starts last need not end last.
    for (const ActivityInterval& kernel : intervals.subspan(from, each))
      span.end_ns = std::max(span.end_ns, kernel.end_ns);
    spans.push_back(span);
  }
  return spans;
}

void CUPTIAPI CuptiTimer::give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(buffer_alignment, buffer_bytes));
  *size = *buffer == nullptr ? 0 : buffer_bytes;
  *most_records = 0;
}

void CUPTIAPI CuptiTimer::take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  Inbox& box = inbox();
  const std::lock_guard lock(box.mutex);
  CUpti_Activity* record = nullptr;
  while (box.api != nullptr && box.api->next_record(buffer, valid, &record) == CUPTI_SUCCESS) read_record(record, box);
  std::free(buffer);
}

Result<std::unique_ptr<CuptiTimer>> CuptiTimer::start(std::shared_ptr<const CuptiApi> api, Kind kind) {
  {
    Inbox& box = inbox();
    const std::lock_guard lock(box.mutex);
    if (box.api != nullptr) return make_error(ErrorKind::internal, "a second timer while there is one");
    box.api = api.get();
    box.intervals.clear();
    box.without_times = 0;
  }
  std::unique_ptr<CuptiTimer> timer(new CuptiTimer(
      std::move(api), kind == Kind::kernels ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL : CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
  const CuptiApi& cupti = *timer->api_;
  if (!inbox().registered) {
    STITCH_TRY(cupti.check(cupti.register_callbacks(give_buffer, take_buffer), "cuptiActivityRegisterCallbacks"));
    inbox().registered = true;
  }
  STITCH_TRY(cupti.check(cupti.enable(timer->kind_), "cuptiActivityEnable"));
  return timer;
}

CuptiTimer::~CuptiTimer() {
  api_->disable(kind_);
  api_->flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  Inbox& box = inbox();
  const std::lock_guard lock(box.mutex);
  box.api = nullptr;
}

Result<std::vector<ActivityInterval>> CuptiTimer::take(std::size_t expected) {
  // Records of work that has ended may still be on their way through CUPTI's own thread.
  using namespace std::chrono_literals;
  Inbox& box = inbox();
  std::vector<ActivityInterval> intervals;
  std::size_t without_times = 0;
  for (const auto end = std::chrono::steady_clock::now() + 2s;;) {
    STITCH_TRY(api_->check(api_->flush_all(0), "cuptiActivityFlushAll"));
    {
      const std::lock_guard lock(box.mutex);
      intervals.insert(intervals.end(), box.intervals.begin(), box.intervals.end());
      box.intervals.clear();
      without_times += std::exchange(box.without_times, 0);
    }
    if (intervals.size() + without_times >= expected || std::chrono::steady_clock::now() >= end) break;
    std::this_thread::sleep_for(1ms);
  }
  if (intervals.size() != expected) {
    std::size_t dropped = 0;
    api_->dropped_records(nullptr, 0, &dropped);
    return make_error(ErrorKind::unavailable,
                      "CUPTI recorded {} of {} launches ({} more without times, {} records dropped)", intervals.size(),
                      expected, without_times, dropped);
  }
  std::sort(intervals.begin(), intervals.end(),
            [](const ActivityInterval& a, const ActivityInterval& b) { return a.start_ns < b.start_ns; });
  return intervals;
}

Result<std::size_t> CuptiTimer::count() {
  // Longer than CUPTI's own thread has been seen to keep records of work that has ended.
  using namespace std::chrono_literals;
  Inbox& box = inbox();
  std::size_t counted = 0;
  for (int quiet = 0; quiet < 20;) {
    STITCH_TRY(api_->check(api_->flush_all(0), "cuptiActivityFlushAll"));
    {
      const std::lock_guard lock(box.mutex);
      const std::size_t more = box.intervals.size() + std::exchange(box.without_times, 0);
      box.intervals.clear();
      counted += more;
      quiet = more > 0 ? 0 : quiet + 1;
    }
    std::this_thread::sleep_for(1ms);
  }
  return counted;
}

}  // namespace stitch::profiler
