#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "profiler/measure/measurement.h"
#include "profiler/measure/stopping_rule.h"

namespace stitch::profiler {

/// Where durations come from: the device, in batches.
class SampleSource {
 public:
  virtual ~SampleSource() = default;
  /// Durations of `count` ≥ 1 samples, µs, in the order taken.
  virtual Result<std::vector<double>> take(int count) = 0;
  /// The device as it is now.
  virtual DeviceState state() = 0;
  /// Lets the device rest.
  virtual void pause(double us) = 0;
};

/// What sampling gave.
struct Sampling {
  Verdict verdict = Verdict::go_on;
  std::vector<double> samples;               ///< kept
  std::vector<double> dropped;               ///< of batches at whose end the device throttled
  std::vector<std::string> dropped_reasons;  ///< each once
};

/// Takes samples until the stopping rule is content: batches of 1, 4, 16, then 64, fewer where samples or time run out.
/// A device that throttles says so for some time, so that what it says at the end of a batch holds for the batch; such
/// a batch is dropped and followed by a pause. Errors: those of the source.
Result<Sampling> take_samples(SampleSource& source, const Clock& clock, const MeasureOptions& options);

}  // namespace stitch::profiler
