#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "profiler/gpu/cupti_api.h"
#include "profiler/measure/measurement.h"

namespace stitch::profiler {

/// What CUPTI has to be told before it counts: which metrics, for which chip. Making it needs no GPU.
class CounterPlan {
 public:
  /// `chip`: "GH100"; `availability`: what the device says it can count (cuptiProfilerGetCounterAvailability), empty:
  /// whatever the chip can. Errors: unavailable, in CUPTI's words (a chip or a metric it does not know).
  static Result<std::unique_ptr<CounterPlan>> make(std::shared_ptr<const CuptiApi> api, const std::string& chip,
                                                   std::vector<std::uint8_t> availability = {});
  ~CounterPlan();
  CounterPlan(const CounterPlan&) = delete;
  CounterPlan& operator=(const CounterPlan&) = delete;

  [[nodiscard]] const std::vector<std::uint8_t>& config() const { return config_; }
  /// How often the work must run for everything to be counted.
  [[nodiscard]] std::size_t passes() const { return passes_; }
  /// The counters from the first range of a decoded image.
  Result<HardwareCounters> evaluate(const std::vector<std::uint8_t>& image) const;

 private:
  explicit CounterPlan(std::shared_ptr<const CuptiApi> api) : api_(std::move(api)) {}
  Status configure();

  std::shared_ptr<const CuptiApi> api_;
  CUpti_Profiler_Host_Object* host_ = nullptr;
  std::vector<std::uint8_t> availability_;  ///< CUPTI may keep its address
  std::vector<std::uint8_t> config_;
  std::size_t passes_ = 0;
};

/// Counts what `run` does on the device of the current context: one range, as many passes as it takes. `run` launches
/// the work and waits for it. Errors: unavailable, in CUPTI's words (no permission, a machine that does not let
/// counters through), or those of `run`.
Result<HardwareCounters> count_hardware(const std::shared_ptr<const CuptiApi>& api, CUcontext context, int device,
                                        const std::function<Status()>& prepare, const std::function<Status()>& run);

}  // namespace stitch::profiler
