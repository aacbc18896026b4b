#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "codegen/compiler.h"
#include "codegen/kernel.h"
#include "daemon/kernel_timer.h"
#include "profiler/verify.h"
#include "search/kernel_cache.h"

namespace stitch::daemon {

/// A schedule made into machine code, and what is known about it.
struct BuiltKernel {
  int candidate = 0;  ///< which of the kernel's candidates
  codegen::GeneratedKernel generated;
  codegen::CompiledKernel compiled;
  std::optional<profiler::Verification> verification;
  std::optional<profiler::Measurement> measurement;
};

/// What became of one candidate of one kernel.
struct Trial {
  int candidate = 0;
  std::shared_ptr<const BuiltKernel> built;  ///< null when it did not get that far
  std::optional<Error> failure;              ///< constraint, compile, timeout, runtime or correctness
};

struct WorkshopOptions {
  std::string architecture;
  profiler::VerifyOptions verify;
  int measured_candidates = 6;  ///< of a kernel, at most: those with the best predictions that are right
};

/// Generates, compiles, verifies and measures kernels; every kernel once, however many fragments share it. Safe to use
/// from several threads.
class KernelWorkshop {
 public:
  /// `timer`: null where nothing can be measured. All must outlive the workshop.
  KernelWorkshop(codegen::Compiler& compiler, profiler::Device& verifier, KernelTimer* timer, const DeviceSpec& device,
                 WorkshopOptions options)
      : compiler_(compiler), verifier_(verifier), timer_(timer), device_(device), options_(std::move(options)) {}

  /// The first candidate that generates, compiles and keeps to the device's limits. Trials of those before it failed.
  std::vector<Trial> build(const search::ExploredKernel& kernel);

  /// The first candidate that is also right; the last trial is without failure unless none is.
  std::vector<Trial> verify(const search::ExploredKernel& kernel);

  /// The fastest of the first right candidates: one takes the place of another with a better prediction only if it is
  /// clearly faster (profiler::compare_samples). It is the last trial, which is without failure unless none is; a trial
  /// that could be verified but not measured is without measurement. The same as verify without a timer.
  std::vector<Trial> measure(const search::ExploredKernel& kernel);

  /// One candidate by itself, step by step; nothing of it is remembered. Only a trial without failure goes on to the
  /// next step. measure_candidate needs a timer; without measurement and failure: it could not be timed.
  Trial build_candidate(const search::ExploredKernel& kernel, int candidate);
  Trial verify_candidate(const search::ExploredKernel& kernel, Trial trial);
  Trial measure_candidate(const search::ExploredKernel& kernel, Trial trial);

 private:
  struct Entry {
    std::mutex mutex;  ///< held while the kernel is worked on: whoever asks second waits
    std::vector<Trial> built;
    std::vector<Trial> verified;
    std::vector<Trial> measured;
  };
  Entry& entry_of(const Hash128& key);

  codegen::Compiler& compiler_;
  profiler::Device& verifier_;
  KernelTimer* const timer_;
  const DeviceSpec& device_;
  const WorkshopOptions options_;
  std::mutex mutex_;  ///< guards entries_
  std::unordered_map<Hash128, std::unique_ptr<Entry>> entries_;
};

}  // namespace stitch::daemon
