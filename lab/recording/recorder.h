#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/file.h"
#include "base/result.h"
#include "codegen/compile/compiler.h"
#include "lab/recording/recording_report.h"
#include "profiler/measure/recording.h"
#include "tuning/kernels/kernel_space.h"
#include "tuning/kernels/kernel_timer.h"
#include "tuning/kernels/kernel_workshop.h"
#include "tuning/plans/tuner.h"

namespace stitch::lab {

struct RecorderOptions {
  tuning::KernelSpaceOptions space;
  double seconds = 0;            ///< from the recorder's making on; 0: no limit
  double seconds_of_kernel = 0;  ///< for each kernel; 0: no limit
  int threads = 0;               ///< 0: one per hardware thread
  profiler::VerifyOptions verify = verification();

  /// All distributions but `small`, which is `mixed` with other exponents: there are thousands of candidates. (Of
  /// recurrent kernels verification takes it all the same.)
  static profiler::VerifyOptions verification();
};

/// Records candidate spaces: the kernels of models' plans, each candidate verified and measured. Candidates are built
/// several at a time, and verified and measured one by one.
class Recorder {
 public:
  /// `tuner` plans, `verifier` and `timer` judge. All arguments but the options must outlive the recorder.
  Recorder(const tuning::Tuner& tuner, codegen::Compiler& compiler, profiler::Device& verifier,
           tuning::KernelTimer& timer, FileSystem& files, const Clock& clock, RecorderOptions options);

  /// Adds a model's kernels to the file, which is replaced after each one; what is in it already is not done again.
  /// Ends early, without error, when the time is up or a stop is asked for. Errors: those of import and planning;
  /// invalid_argument (the file was recorded elsewhere: device, target or generator differ); those of reading and
  /// writing it; unavailable (the device is gone; machine code is asked for, and there is no nvdisasm).
  Status record(std::string_view bytes, std::string_view name, const std::filesystem::path& path,
                const tuning::ProgressSink& progress, const std::stop_token& stop, RecordingReport& report);

 private:
  struct Task;
  Result<profiler::Recording> open(const std::filesystem::path& path) const;
  Result<std::vector<Task>> kernels_of(std::string_view bytes, std::string_view name) const;
  Status record_kernel(const Task& task, profiler::Recording& recording, KernelRecord& done,
                       const std::stop_token& stop);
  Status record_batch(const search::SharedKernel& kernel, std::span<const int> batch, profiler::Recording& recording,
                      std::size_t at, KernelRecord& done, const std::function<bool()>& late);
  Result<std::vector<double>> features_of(const tuning::Trial& trial) const;
  Status judge(tuning::Trial trial, profiler::Recording& recording, std::size_t at, KernelRecord& done);
  [[nodiscard]] bool out_of_time() const { return options_.seconds > 0 && watch_.seconds() > options_.seconds; }

  const tuning::Tuner& tuner_;
  tuning::KernelTimer& timer_;
  FileSystem& files_;
  const Clock& clock_;
  const RecorderOptions options_;
  const DeviceSpec device_;
  tuning::KernelWorkshop workshop_;
  const Stopwatch watch_;
};

}  // namespace stitch::lab
