#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "profiler/measure/stopping_rule.h"

// What measuring a kernel or a plan gives: its samples, and what they were taken under, so that a record of it can be
// judged later. A TimedDevice makes measurements (profiler/measure/timed_device.h); stitch-runner sends them to its
// parent as documents; the tuning loop compares them (profiler/measure/sample_comparison.h) and stores them
// (db::MeasurementRecord); `stitch bench` prints them:
//
//     12.34 us (noise 0.31 %, 40 samples, 2 dropped: power cap), cold L2, precise (noise 0.31 %)
//
// Where there is no GPU the emulated device gives counts of sectors instead. They have the same shape and another
// `kind`, and nothing reports them as times.
namespace stitch::profiler {

/// How to measure.
struct MeasureOptions {
  StoppingOptions stopping;
  bool cold_l2 = true;          ///< overwrite twice the L2's size between samples
  double warm_up_us = 20000;    ///< of host time before the first sample: clocks rise, code is loaded
  double cool_down_us = 50000;  ///< pause after samples that were dropped because of throttling
  bool counters = true;         ///< also hardware counters of one more launch, where they may be read

  bool operator==(const MeasureOptions&) const = default;
};

/// What a GPU says about itself at one moment; absent: not known (no NVML, or it refuses).
struct DeviceState {
  std::optional<double> sm_clock_mhz, memory_clock_mhz, temperature_c, power_w;
  std::vector<std::string> throttled;  ///< reasons in force: "power cap", "hardware slowdown", …

  bool operator==(const DeviceState&) const = default;
};

/// Hardware counters of one launch (CUPTI range profiler).
struct HardwareCounters {
  double dram_read_bytes = 0;
  double dram_write_bytes = 0;
  double achieved_occupancy = 0;  ///< resident warps over what an SM can hold, mean over active cycles, 0 … 1

  bool operator==(const HardwareCounters&) const = default;
};

/// Samples of a kernel or of a plan on one device, with what a record of them has to say (db::MeasurementRecord holds
/// the same under the same names, what it has no column for in `conditions`).
struct Measurement {
  /// What samples are: µs of device time, or events that the emulator counted, which are never a time.
  enum class Kind : std::uint8_t { device_time, event_count };

  Kind kind = Kind::device_time;
  std::string unit = "us";                   ///< "us", or "sectors" of counts
  std::vector<double> samples;               ///< kept, in the order taken
  std::vector<double> dropped_samples;       ///< taken while the device throttled; in no figure below
  std::vector<std::string> dropped_reasons;  ///< each once
  double median = 0, mean = 0, noise = 0;    ///< of the samples; noise is trimmed_deviation
  std::string stopped;                       ///< why sampling ended: "precise (noise 0.31 %)", "time limit (…)"
  std::string method;                        ///< "CUPTI activity", "emulator counters"
  bool cold_l2 = true;
  bool cuda_graph = false;  ///< a whole plan, launched as one CUDA graph
  int launches = 1;         ///< kernels of one sample
  int rotation = 1;         ///< sets of buffers that samples took in turns
  DeviceState before, after;
  std::string driver;   ///< "580.95.05 (CUDA 13.0)"
  std::string toolkit;  ///< "CUPTI 130001"
  std::optional<HardwareCounters> counters;
  std::string no_counters;  ///< why they are absent; empty: not asked for, or there

  bool operator==(const Measurement&) const = default;
};
std::string_view to_string(Measurement::Kind kind);

/// Fills in median, mean, noise and `stopped` from the samples.
void summarise(Measurement& measurement, Verdict verdict);

/// The mean of before and after, of what is known.
std::optional<double> mean_of(const std::optional<double>& before, const std::optional<double>& after);

/// What a stored measurement has no column for, as JSON: counters, rotation, power, dropped samples, toolkit.
std::string conditions(const Measurement& measurement);

/// "12.34 us (noise 0.31 %, 40 samples, 2 dropped: power cap), cold L2, precise (noise 0.31 %)".
std::string to_text(const Measurement& measurement);

nlohmann::json to_document(const Measurement& measurement);
nlohmann::json to_document(const MeasureOptions& options);
/// Errors: parse, naming the field; invalid_argument (samples that are negative or not finite).
Result<Measurement> measurement_from(const nlohmann::json& document);
Result<MeasureOptions> measure_options_from(const nlohmann::json& document);

}  // namespace stitch::profiler
