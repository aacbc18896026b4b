#include "tests/profiler/fake_cupti.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <set>
#include <utility>

namespace stitch::profiler::test {
namespace {

/// Every record begins so far behind the one before: any kind fits.
constexpr std::size_t slot_bytes = 512;
static_assert(sizeof(CuptiKernelRecord) <= slot_bytes && sizeof(CUpti_ActivityGraphTrace2) <= slot_bytes);

struct Record {
  CUpti_ActivityKind kind;
  std::uint64_t start, end;
};

struct State {
  const FakeCupti* fake = nullptr;
  CUpti_BuffersCallbackRequestFunc give = nullptr;
  CUpti_BuffersCallbackCompleteFunc take = nullptr;
  std::set<CUpti_ActivityKind> kinds;
  std::deque<Record> records;
  std::uint64_t now = 1000;
  int without_times = 0, lost = 0;
  std::size_t passes_done = 0;
};
State& state() {
  static State one;  // callbacks are registered once in a process, whatever becomes of the fakes
  return one;
}

void write(const Record& record, std::uint8_t* to) {
  if (record.kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) {
    CUpti_ActivityGraphTrace2 graph{};
    graph.kind = record.kind;
    graph.start = record.start;
    graph.end = record.end;
    std::memcpy(to, &graph, sizeof graph);
    return;
  }
  CuptiKernelRecord kernel{};
  kernel.kind = record.kind;
  kernel.start = record.start;
  kernel.end = record.end;
  std::memcpy(to, &kernel, sizeof kernel);
}

CUptiResult CUPTIAPI register_callbacks(CUpti_BuffersCallbackRequestFunc give, CUpti_BuffersCallbackCompleteFunc take) {
  state().give = give;
  state().take = take;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI enable(CUpti_ActivityKind kind) {
  if (state().fake->refuses_all) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  if (state().fake->refuses_graphs && kind == CUPTI_ACTIVITY_KIND_GRAPH_TRACE) return CUPTI_ERROR_NOT_SUPPORTED;
  state().kinds.insert(kind);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI disable(CUpti_ActivityKind kind) {
  state().kinds.erase(kind);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI flush_all(std::uint32_t) {
  State& all = state();
  while (!all.records.empty()) {
    std::uint8_t* buffer = nullptr;
    std::size_t size = 0, most = 0;
    all.give(&buffer, &size, &most);
    std::size_t valid = 0;
    // A buffer with room left at its end, as the last one always has.
    for (; !all.records.empty() && valid + 2 * slot_bytes <= std::min(size, 3 * slot_bytes); valid += slot_bytes) {
      write(all.records.front(), buffer + valid);
      all.records.pop_front();
    }
    all.take(nullptr, 0, buffer, size, valid);
  }
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI next_record(std::uint8_t* buffer, std::size_t valid, CUpti_Activity** record) {
  std::uint8_t* next = *record == nullptr ? buffer : reinterpret_cast<std::uint8_t*>(*record) + slot_bytes;
  if (next >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI dropped_records(CUcontext, std::uint32_t, std::size_t* dropped) {
  *dropped = 7;
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI result_string(CUptiResult result, const char** text) {
  *text = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
          : result == CUPTI_ERROR_NOT_SUPPORTED         ? "CUPTI_ERROR_NOT_SUPPORTED"
                                                        : "CUPTI_SUCCESS";
  return CUPTI_SUCCESS;
}

/// A call of the counters' that has nothing to say.
template <class Parameters>
CUptiResult CUPTIAPI content(Parameters*) {
  return CUPTI_SUCCESS;
}

CUptiResult CUPTIAPI chip_name(CUpti_Device_GetChipName_Params* p) {
  p->pChipName = "GH100";
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI counter_availability(CUpti_Profiler_GetCounterAvailability_Params* p) {
  p->counterAvailabilityImageSize = 16;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI config_size(CUpti_Profiler_Host_GetConfigImageSize_Params* p) {
  p->configImageSize = 32;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI pass_count(CUpti_Profiler_Host_GetNumOfPasses_Params* p) {
  p->numOfPasses = state().fake->passes;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI evaluate(CUpti_Profiler_Host_EvaluateToGpuValues_Params* p) {
  for (std::size_t m = 0; m < p->numMetrics; ++m) p->pMetricValues[m] = state().fake->values[m];
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI range_enable(CUpti_RangeProfiler_Enable_Params* p) {
  state().passes_done = 0;
  p->pRangeProfilerObject = reinterpret_cast<CUpti_RangeProfiler_Object*>(&state());
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI data_size(CUpti_RangeProfiler_GetCounterDataSize_Params* p) {
  p->counterDataSize = 64;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI range_stop(CUpti_RangeProfiler_Stop_Params* p) {
  ++state().passes_done;
  p->isAllPassSubmitted = state().fake->is_done && state().passes_done == state().fake->passes ? 1 : 0;
  return CUPTI_SUCCESS;
}
CUptiResult CUPTIAPI decode(CUpti_RangeProfiler_DecodeData_Params* p) {
  p->numOfRangeDropped = state().fake->dropped_ranges;
  return CUPTI_SUCCESS;
}

}  // namespace

FakeCupti::FakeCupti() {
  state().fake = this;
  state().kinds.clear();
  state().records.clear();
  state().without_times = state().lost = 0;
}
FakeCupti::~FakeCupti() { state().records.clear(); }

std::shared_ptr<const CuptiApi> FakeCupti::api() const {
  auto api = std::make_shared<CuptiApi>();
  api->path = "a stand-in for CUPTI";
  api->api_version = CUPTI_API_VERSION;
  api->result_string = result_string;
  api->register_callbacks = register_callbacks;
  api->enable = enable;
  api->disable = disable;
  api->flush_all = flush_all;
  api->next_record = next_record;
  api->dropped_records = dropped_records;
  api->profiler_initialize = content<CUpti_Profiler_Initialize_Params>;
  api->counter_availability = counter_availability;
  api->chip_name = chip_name;
  api->host_initialize = content<CUpti_Profiler_Host_Initialize_Params>;
  api->host_deinitialize = content<CUpti_Profiler_Host_Deinitialize_Params>;
  api->add_metrics = content<CUpti_Profiler_Host_ConfigAddMetrics_Params>;
  api->config_size = config_size;
  api->config_image = content<CUpti_Profiler_Host_GetConfigImage_Params>;
  api->pass_count = pass_count;
  api->evaluate = evaluate;
  api->range_enable = range_enable;
  api->range_disable = content<CUpti_RangeProfiler_Disable_Params>;
  api->data_size = data_size;
  api->data_initialize = content<CUpti_RangeProfiler_CounterDataImage_Initialize_Params>;
  api->set_config = content<CUpti_RangeProfiler_SetConfig_Params>;
  api->range_start = content<CUpti_RangeProfiler_Start_Params>;
  api->range_stop = range_stop;
  api->push_range = content<CUpti_RangeProfiler_PushRange_Params>;
  api->pop_range = content<CUpti_RangeProfiler_PopRange_Params>;
  api->decode = decode;
  return api;
}

void FakeCupti::ran(CUpti_ActivityKind kind, std::uint64_t ns, std::uint64_t gap_ns) {
  State& all = state();
  all.now += gap_ns;
  Record record{kind, all.now, all.now + ns};
  all.now += ns;
  if (!all.kinds.contains(kind)) return;
  if (all.lost > 0) {
    --all.lost;
    return;
  }
  if (all.without_times > 0) {
    --all.without_times;
    record.start = record.end = 0;
  }
  all.records.push_back(record);
}

void FakeCupti::spoil(int without_times, int lost) {
  state().without_times = without_times;
  state().lost = lost;
}

}  // namespace stitch::profiler::test
