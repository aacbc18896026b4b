#pragma once

#include <tbb/task_arena.h>

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/device_spec.h"
#include "base/file.h"
#include "base/result.h"
#include "codegen/compile/artifact_cache.h"
#include "codegen/compile/compiler.h"
#include "db/records.h"
#include "search/schedule/kernel_cache.h"
#include "search/schedule/scorer.h"
#include "tuning/kernels/kernel_workshop.h"
#include "tuning/kernels/work_counter.h"
#include "tuning/plans/fault_log.h"
#include "tuning/plans/tuner_options.h"

namespace stitch::tuning {

/// What all work on fragments shares: the target, the compiler, the caches of explored and built kernels, the devices
/// that judge, and the threads. Made once by Tuner::create; the functions of this room take it as constant (what it
/// refers to guards itself) and run inside its arena.
struct TuningContext {
  /// The devices, files and clock must outlive it. Errors: as of Tuner::create.
  static Result<std::unique_ptr<TuningContext>> create(TunerOptions options, profiler::Device& device,
                                                       KernelTimer* timer, FileSystem& files, const Clock& clock);

  [[nodiscard]] const std::string& verifier() const { return judges.front().key; }
  /// `judged`: who found out about the record and how, in words; `on`: key of the device that it was found out on.
  [[nodiscard]] db::Provenance provenance(std::string judged, std::string on) const;

  mutable WorkCounter work;
  TunerOptions options;
  DeviceSpec device;
  db::Target target;
  std::unique_ptr<codegen::NvrtcCompiler> nvrtc;  ///< null: explores only
  std::string toolkit;                            ///< of NVRTC: "13.0.88"
  std::unique_ptr<CountingCompiler> compiling;    ///< with nvrtc
  std::unique_ptr<codegen::ArtifactCache> artifacts;
  std::unique_ptr<codegen::CachingCompiler> caching;
  std::unique_ptr<codegen::Compiler> compiler;  ///< TunerOptions::around_compiler's; null: there is none
  std::unique_ptr<search::Scorer> scorer;
  std::string scorer_name;
  std::unique_ptr<search::KernelCache> kernels;
  std::unique_ptr<CountingVerifier> verifying;   ///< where kernels are verified
  std::unique_ptr<CountingTimer> timer;          ///< null: nothing is measured
  std::unique_ptr<KernelWorkshop> workshop;      ///< null: explores only
  std::vector<profiler::DeviceIdentity> judges;  ///< the first verifies, the last measures
  const Clock* clock = nullptr;
  std::unique_ptr<FaultLog> faults;
  mutable tbb::task_arena arena;
  /// Of predictions, which somebody waits for: places that no tuning takes, and one of their own for two callers.
  mutable tbb::task_arena predicting;
};

}  // namespace stitch::tuning
