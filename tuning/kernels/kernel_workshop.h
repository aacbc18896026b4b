#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "codegen/compiler.h"
#include "codegen/kernel.h"
#include "costmodel/machine_code.h"
#include "profiler/verify/verify.h"
#include "search/schedule/kernel_cache.h"
#include "tuning/kernels/kernel_timer.h"

namespace stitch::tuning {

/// One way to compute a kernel. Keeps alive what it refers to.
struct KernelCandidate {
  search::SharedKernel kernel;
  std::shared_ptr<const search::StitchCandidate> scheduled;  ///< for the kernel's graph
  int place = 0;  ///< among the candidates that it was taken from, from the best prediction on

  KernelCandidate() = default;
  /// One of the kernel's own candidates.
  KernelCandidate(const search::SharedKernel& of, int at) : kernel(of), scheduled(of, &of->candidates[at]), place(at) {}
};

/// A schedule made into machine code, and what is known about it.
struct BuiltKernel {
  KernelCandidate candidate;
  codegen::GeneratedKernel generated;
  codegen::CompiledKernel compiled;
  /// The candidate's prediction, corrected by what the compiler made of it (costmodel/compiled_estimate.h), µs.
  double estimated_us = 0;
  std::optional<costmodel::MachineCodeFeatures> machine_code;  ///< where it was looked at
  int overtaken = 0;  ///< candidates with better predictions of the schedule that it was put ahead of
  std::optional<profiler::Verification> verification;
  std::optional<profiler::Measurement> measurement;
};

/// What became of one candidate of one kernel.
struct Trial {
  KernelCandidate candidate;
  std::shared_ptr<const BuiltKernel> built;  ///< null when it did not get that far
  std::optional<Error> failure;              ///< constraint, compile, timeout, runtime or correctness
};

/// Whether an error is what became of a candidate; every other says something of the device, or of us.
bool is_outcome(ErrorKind kind);

struct WorkshopOptions {
  std::string architecture;
  profiler::VerifyOptions verify;
  int measured_candidates = 6;  ///< of a kernel, at most: those with the best estimates that are right
  /// Of a kernel, at most, built side by side and put in order by their estimates before any is verified. 0: twice as
  /// many as are measured; 3 where nothing is, as each costs a compilation and no measurement corrects the choice.
  int compiled_candidates = 0;
  /// Estimates see the machine code, too, where kernels are measured and there is an nvdisasm (up to a second each).
  bool machine_code = true;
  std::filesystem::path nvdisasm;  ///< looked up on PATH when empty

  [[nodiscard]] int built_ahead(bool measured) const {
    if (compiled_candidates > 0) return compiled_candidates;
    return measured ? 2 * measured_candidates : 3;
  }
};

/// Generates, compiles, verifies and measures kernels; every kernel once, however many fragments share it. Safe to use
/// from several threads.
class KernelWorkshop {
 public:
  /// `timer`: null where nothing can be measured. All must outlive the workshop.
  KernelWorkshop(codegen::Compiler& compiler, profiler::Device& verifier, KernelTimer* timer, const DeviceSpec& device,
                 WorkshopOptions options)
      : compiler_(compiler), verifier_(verifier), timer_(timer), device_(device), options_(std::move(options)) {}

  [[nodiscard]] bool measures() const { return timer_ != nullptr; }

  /// The first candidate that generates, compiles and keeps to the device's limits. Trials of those before it failed.
  /// It answers who waits for a plan that may be anything correct, so that it compiles one candidate, in the order of
  /// the predictions; a kernel that was verified or measured is given as such.
  std::vector<Trial> build(const search::SharedKernel& kernel);

  /// The first of these candidates of one kernel that builds, and that is right if `verifies`. Trials of those before
  /// it failed. What was measured here goes before; else nothing is remembered.
  std::vector<Trial> first_of(std::span<const KernelCandidate> candidates, bool verifies);

  /// The first candidates (WorkshopOptions::compiled_candidates), built side by side, in the order in which they are
  /// verified and measured: those that failed, then by their estimates, equal ones by their predictions. The order does
  /// not depend on the number of threads. Of a kernel that was verified: what verify gives.
  std::vector<Trial> build_ahead(const search::SharedKernel& kernel);

  /// The first in the order of build_ahead that is also right, or else of the candidates behind; the last trial is
  /// without failure unless none is.
  std::vector<Trial> verify(const search::SharedKernel& kernel);

  /// The fastest of the first right candidates: one takes the place of another with a better estimate only if it is
  /// clearly faster (profiler::compare_samples). It is the last trial, which is without failure unless none is; a trial
  /// that could be verified but not measured is without measurement. The same as verify without a timer.
  std::vector<Trial> measure(const search::SharedKernel& kernel);

  /// Takes a measured trial of another candidate for the kernel's best if it is clearly faster than the best that
  /// measure gave; forgets it otherwise. Whether it was taken.
  bool promote(const Trial& trial);

  /// One candidate by itself, step by step; nothing of it is remembered. Only a trial without failure goes on to the
  /// next step. measure_candidate needs a timer; without measurement and failure: it could not be timed.
  Result<codegen::CompiledKernel> compile(const std::string& source);
  Trial build_candidate(KernelCandidate candidate);
  Trial verify_candidate(Trial trial);
  Trial measure_candidate(Trial trial);

 private:
  struct Entry {
    std::mutex mutex;          ///< held while the kernel is worked on: whoever asks second waits
    std::vector<Trial> built;  ///< by candidate, from the first one on; at most the last one without failure
    std::vector<Trial> ahead;  ///< what is tried next; forgotten when nothing more will be
    std::vector<Trial> verified;
    std::vector<Trial> measured;
  };
  Entry& entry_of(const Hash128& key);
  void build_ahead_of(const search::SharedKernel& kernel, Entry& entry);
  void read_machine_code(std::vector<Trial>& trials);
  [[nodiscard]] bool can_disassemble();
  Trial next_trial(const search::SharedKernel& kernel, const Entry& entry, std::size_t place);
  [[nodiscard]] double estimate(const BuiltKernel& built) const;

  codegen::Compiler& compiler_;
  profiler::Device& verifier_;
  KernelTimer* const timer_;
  const DeviceSpec& device_;
  const WorkshopOptions options_;
  std::once_flag probed_;
  bool disassembles_ = false;
  std::mutex mutex_;  ///< guards entries_
  std::unordered_map<Hash128, std::unique_ptr<Entry>> entries_;
};

}  // namespace stitch::tuning
