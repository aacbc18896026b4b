#include "profiler/gpu/cupti_counters.h"

#include <array>

// After NVIDIA's description of the Range Profiling and Profiler Host APIs (CUPTI documentation, "Range Profiling
// API").
namespace stitch::profiler {
namespace {

constexpr std::array<const char*, 3> metric_names = {"dram__bytes_read.sum", "dram__bytes_write.sum",
                                                     "sm__warps_active.avg.pct_of_peak_sustained_active"};

/// A parameter struct of CUPTI: zero but for its size, by which the library knows its version.
#define STITCH_PARAMETERS(type, name) \
  type name{};                        \
  name.structSize = type##_STRUCT_SIZE

/// CUPTI's parameters want an array of names that could be written to, and write nothing there.
const char** names() {
  static std::array<const char*, metric_names.size()> copy = metric_names;
  return copy.data();
}

Result<std::string> chip_of(const CuptiApi& api, int device) {
  STITCH_PARAMETERS(CUpti_Device_GetChipName_Params, chip);
  chip.deviceIndex = device;
  STITCH_TRY(api.check(api.chip_name(&chip), "cuptiDeviceGetChipName"));
  return std::string(chip.pChipName);
}

Result<std::vector<std::uint8_t>> availability_of(const CuptiApi& api, CUcontext context) {
  STITCH_PARAMETERS(CUpti_Profiler_GetCounterAvailability_Params, availability);
  availability.ctx = context;
  STITCH_TRY(api.check(api.counter_availability(&availability), "cuptiProfilerGetCounterAvailability"));
  std::vector<std::uint8_t> image(availability.counterAvailabilityImageSize);
  availability.pCounterAvailabilityImage = image.data();
  STITCH_TRY(api.check(api.counter_availability(&availability), "cuptiProfilerGetCounterAvailability"));
  return image;
}

/// CUPTI's range profiler on one context, for as long as it counts.
class Range {
 public:
  explicit Range(const CuptiApi& api) : api_(api) {}
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  ~Range() {
    if (object_ == nullptr) return;
    STITCH_PARAMETERS(CUpti_RangeProfiler_Disable_Params, disable);
    disable.pRangeProfilerObject = object_;
    api_.range_disable(&disable);
  }

  Status enable(CUcontext context) {
    STITCH_PARAMETERS(CUpti_RangeProfiler_Enable_Params, enable);
    enable.ctx = context;
    STITCH_TRY(api_.check(api_.range_enable(&enable), "cuptiRangeProfilerEnable"));
    object_ = enable.pRangeProfilerObject;
    return {};
  }

  Status configure(const std::vector<std::uint8_t>& config) {
    STITCH_PARAMETERS(CUpti_RangeProfiler_GetCounterDataSize_Params, size);
    size.pRangeProfilerObject = object_;
    size.pMetricNames = names();
    size.numMetrics = metric_names.size();
    size.maxNumOfRanges = 1;
    size.maxNumRangeTreeNodes = 1;
    STITCH_TRY(api_.check(api_.data_size(&size), "cuptiRangeProfilerGetCounterDataSize"));
    image_.resize(size.counterDataSize);
    STITCH_PARAMETERS(CUpti_RangeProfiler_CounterDataImage_Initialize_Params, data);
    data.pRangeProfilerObject = object_;
    data.counterDataSize = image_.size();
    data.pCounterData = image_.data();
    STITCH_TRY(api_.check(api_.data_initialize(&data), "cuptiRangeProfilerCounterDataImageInitialize"));
    STITCH_PARAMETERS(CUpti_RangeProfiler_SetConfig_Params, set);
    set.pRangeProfilerObject = object_;
    set.configSize = config.size();
    set.pConfig = config.data();
    set.counterDataImageSize = image_.size();
    set.pCounterDataImage = image_.data();
    set.range = CUPTI_UserRange;
    set.replayMode = CUPTI_UserReplay;
    set.maxRangesPerPass = 1;
    set.numNestingLevels = 1;
    set.minNestingLevel = 1;
    set.targetNestingLevel = 1;
    return api_.check(api_.set_config(&set), "cuptiRangeProfilerSetConfig");
  }

  /// One pass over the work; true when it was the last that is needed.
  Result<bool> pass(const std::function<Status()>& run) {
    STITCH_PARAMETERS(CUpti_RangeProfiler_Start_Params, start);
    start.pRangeProfilerObject = object_;
    STITCH_TRY(api_.check(api_.range_start(&start), "cuptiRangeProfilerStart"));
    STITCH_PARAMETERS(CUpti_RangeProfiler_PushRange_Params, push);
    push.pRangeProfilerObject = object_;
    push.pRangeName = "stitch";
    STITCH_TRY(api_.check(api_.push_range(&push), "cuptiRangeProfilerPushRange"));
    STITCH_TRY(run());
    STITCH_PARAMETERS(CUpti_RangeProfiler_PopRange_Params, pop);
    pop.pRangeProfilerObject = object_;
    STITCH_TRY(api_.check(api_.pop_range(&pop), "cuptiRangeProfilerPopRange"));
    STITCH_PARAMETERS(CUpti_RangeProfiler_Stop_Params, stop);
    stop.pRangeProfilerObject = object_;
    STITCH_TRY(api_.check(api_.range_stop(&stop), "cuptiRangeProfilerStop"));
    return stop.isAllPassSubmitted != 0;
  }

  Result<std::vector<std::uint8_t>> decode() {
    STITCH_PARAMETERS(CUpti_RangeProfiler_DecodeData_Params, decoding);
    decoding.pRangeProfilerObject = object_;
    STITCH_TRY(api_.check(api_.decode(&decoding), "cuptiRangeProfilerDecodeData"));
    if (decoding.numOfRangeDropped != 0) return make_error(ErrorKind::unavailable, "CUPTI dropped the range");
    return image_;
  }

 private:
  const CuptiApi& api_;
  CUpti_RangeProfiler_Object* object_ = nullptr;
  std::vector<std::uint8_t> image_;
};

}  // namespace

Result<std::unique_ptr<CounterPlan>> CounterPlan::make(std::shared_ptr<const CuptiApi> api, const std::string& chip,
                                                       std::vector<std::uint8_t> availability) {
  if (!api->missing.empty()) {
    return make_error(ErrorKind::unavailable, "{} has no {}", api->path, api->missing);
  }
  std::unique_ptr<CounterPlan> plan(new CounterPlan(std::move(api)));
  plan->availability_ = std::move(availability);
  STITCH_PARAMETERS(CUpti_Profiler_Host_Initialize_Params, initialize);
  initialize.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  initialize.pChipName = chip.c_str();
  initialize.pCounterAvailabilityImage = plan->availability_.empty() ? nullptr : plan->availability_.data();
  STITCH_TRY(plan->api_->check(plan->api_->host_initialize(&initialize), "cuptiProfilerHostInitialize"));
  plan->host_ = initialize.pHostObject;
  STITCH_TRY(plan->configure());
  return plan;
}

CounterPlan::~CounterPlan() {
  if (host_ == nullptr) return;
  STITCH_PARAMETERS(CUpti_Profiler_Host_Deinitialize_Params, end);
  end.pHostObject = host_;
  api_->host_deinitialize(&end);
}

Status CounterPlan::configure() {
  STITCH_PARAMETERS(CUpti_Profiler_Host_ConfigAddMetrics_Params, add);
  add.pHostObject = host_;
  add.ppMetricNames = names();
  add.numMetrics = metric_names.size();
  STITCH_TRY(api_->check(api_->add_metrics(&add), "cuptiProfilerHostConfigAddMetrics"));
  STITCH_PARAMETERS(CUpti_Profiler_Host_GetConfigImageSize_Params, size);
  size.pHostObject = host_;
  STITCH_TRY(api_->check(api_->config_size(&size), "cuptiProfilerHostGetConfigImageSize"));
  config_.resize(size.configImageSize);
  STITCH_PARAMETERS(CUpti_Profiler_Host_GetConfigImage_Params, image);
  image.pHostObject = host_;
  image.configImageSize = config_.size();
  image.pConfigImage = config_.data();
  STITCH_TRY(api_->check(api_->config_image(&image), "cuptiProfilerHostGetConfigImage"));
  STITCH_PARAMETERS(CUpti_Profiler_Host_GetNumOfPasses_Params, count);
  count.configImageSize = config_.size();
  count.pConfigImage = config_.data();
  STITCH_TRY(api_->check(api_->pass_count(&count), "cuptiProfilerHostGetNumOfPasses"));
  passes_ = count.numOfPasses;
  return {};
}

Result<HardwareCounters> CounterPlan::evaluate(const std::vector<std::uint8_t>& image) const {
  std::array<double, metric_names.size()> values{};
  STITCH_PARAMETERS(CUpti_Profiler_Host_EvaluateToGpuValues_Params, evaluation);
  evaluation.pHostObject = host_;
  evaluation.pCounterDataImage = image.data();
  evaluation.counterDataImageSize = image.size();
  evaluation.rangeIndex = 0;
  evaluation.ppMetricNames = names();
  evaluation.numMetrics = metric_names.size();
  evaluation.pMetricValues = values.data();
  STITCH_TRY(api_->check(api_->evaluate(&evaluation), "cuptiProfilerHostEvaluateToGpuValues"));
  return HardwareCounters{values[0], values[1], values[2] / 100};
}

Result<HardwareCounters> count_hardware(const std::shared_ptr<const CuptiApi>& api, CUcontext context, int device,
                                        const std::function<Status()>& prepare, const std::function<Status()>& run) {
  if (!api->missing.empty()) return make_error(ErrorKind::unavailable, "{} has no {}", api->path, api->missing);
  STITCH_PARAMETERS(CUpti_Profiler_Initialize_Params, initialize);
  STITCH_TRY(api->check(api->profiler_initialize(&initialize), "cuptiProfilerInitialize"));
  STITCH_ASSIGN(const std::string chip, chip_of(*api, device));
  STITCH_ASSIGN(auto availability, availability_of(*api, context));
  STITCH_ASSIGN(const auto plan, CounterPlan::make(api, chip, std::move(availability)));
  Range range(*api);
  STITCH_TRY(range.enable(context));
  STITCH_TRY(range.configure(plan->config()));
  bool done = false;
  for (std::size_t pass = 0; pass < plan->passes() && !done; ++pass) {
    STITCH_TRY(prepare());
    STITCH_ASSIGN(done, range.pass(run));
  }
  if (!done) return make_error(ErrorKind::unavailable, "CUPTI wants more than its {} passes", plan->passes());
  STITCH_ASSIGN(const auto image, range.decode());
  return plan->evaluate(image);
}

}  // namespace stitch::profiler
