#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "codegen/compile/compiler.h"
#include "profiler/verify/verify.h"
#include "search/schedule/kernel_cache.h"
#include "tuning/kernels/built_kernel.h"
#include "tuning/kernels/kernel_timer.h"

namespace stitch::tuning {

struct WorkshopOptions {
  std::string architecture;
  profiler::VerifyOptions verify;
  int measured_candidates = 6;  ///< of a kernel, at most: those with the best estimates that are right
  /// Of a kernel, at most, built side by side and put in order by their estimates before any is verified. 0: twice as
  /// many as are measured; 3 where nothing is, as each costs a compilation and no measurement corrects the choice.
  int compiled_candidates = 0;
  /// Candidates that are built for one that spills in no loop, where all so far do; and then as many with more
  /// registers.
  int beyond_spills = 8;
  bool machine_code = true;  ///< estimates see the machine code, too (costmodel/machine_code.h)

  [[nodiscard]] int built_ahead(bool measured) const {
    if (compiled_candidates > 0) return compiled_candidates;
    return measured ? 2 * measured_candidates : 3;
  }
};

/// Where kernels are made: generates, compiles, verifies and measures candidates, every kernel once, however many
/// fragments share it. Each step goes one further with the candidates that the step before left, and remembers what it
/// found:
///
///   build        the first candidate that compiles, for who waits for a plan that may be anything correct
///   build_ahead  several, side by side, in the order of what the compiler made of them
///   verify       the first of these that computes what the reference says
///   measure      the fastest of the first few that do
///
///   KernelWorkshop workshop(compiler, device, &timer, spec, {.architecture = "sm_90a"});
///   const Attempts tried = workshop.measure(kernel);
///   if (!tried.best) return tried.why_none();
///
/// A candidate that spills registers in a loop (spills_in_loop) is dropped in each of them, a failure of kind
/// constraint, for the first that does not, of so many further candidates as WorkshopOptions::beyond_spills says, and
/// then of as many schedules that leave a thread more registers than those that spill
/// (search/schedule/register_relief.h). Where there is none, what spills is taken as it is.
///
/// The maker of plans (tuning/plans/plan_maker.h) takes kernels through the steps, a search
/// (tuning/kernels/kernel_search.h) tries further candidates one by one and promotes what is faster. Safe to use from
/// several threads: who asks for a kernel that is being worked on waits for it. When a stop token fires, a step ends
/// soon, with a trial that failed as cancelled, and remembers nothing of it.
class KernelWorkshop {
 public:
  /// `timer`: null where nothing can be measured. All must outlive the workshop.
  KernelWorkshop(codegen::Compiler& compiler, profiler::Device& verifier, KernelTimer* timer, const DeviceSpec& device,
                 WorkshopOptions options)
      : compiler_(compiler), verifier_(verifier), timer_(timer), device_(device), options_(std::move(options)) {}

  [[nodiscard]] bool measures() const { return timer_ != nullptr; }

  /// The first candidate that generates, compiles and keeps to the device's limits, in the order of the predictions; a
  /// kernel that was verified or measured is given as such, with no best if nothing of it is right. The others failed.
  Attempts build(const search::SharedKernel& kernel, const std::stop_token& stop = {});

  /// The first of these candidates of one kernel that builds, and that is right if `verifies`; the others failed. What
  /// was measured here goes before; else nothing is remembered.
  Attempts first_of(std::span<const KernelCandidate> candidates, bool verifies, const std::stop_token& stop = {});

  /// The one of the kernel's candidates whose machine code and PTX are among these: how a plan is made again whose code
  /// is known (api/program_lock.h). No other candidate is to blame for being another: `others` has nothing but why
  /// there is no best (not_found, cancelled). Nothing is remembered.
  /// It is the one without unwaited loads (build_unwaited) where that of any of these inputs has the code.
  Attempts made_of(const search::SharedKernel& kernel, const std::set<Sha256>& code,
                   const std::set<kernel::UnwaitedInputs>& unwaited = {}, const std::stop_token& stop = {});

  /// The first candidates (WorkshopOptions::compiled_candidates), built side by side, in the order in which they are
  /// verified and measured: those that failed, then by their estimates, equal ones by their predictions; before all of
  /// them the simplest of those that are as good as the best (tuning/kernels/equal_candidates.h). The order does not
  /// depend on the number of threads. Of a kernel that was verified: those that were tried then.
  std::vector<Trial> build_ahead(const search::SharedKernel& kernel, const std::stop_token& stop = {});

  /// The first in the order of build_ahead that is also right, or else of the candidates behind; the others failed.
  Attempts verify(const search::SharedKernel& kernel, const std::stop_token& stop = {});

  /// The fastest of the first right candidates: one takes the place of another with a better estimate only if it is
  /// clearly faster (profiler::compare_measurements). A trial that could be verified but not measured is without
  /// measurement. The same as verify without a timer.
  Attempts measure(const search::SharedKernel& kernel, const std::stop_token& stop = {});

  /// Takes a measured trial of another candidate for the kernel's best if it is clearly faster than the best that
  /// measure gave; forgets it otherwise. Whether it was taken.
  bool promote(const Trial& trial);

  /// One candidate by itself, step by step; nothing of it is remembered. Only a trial without failure goes on to the
  /// next step. measure_candidate needs a timer; without measurement and failure: it could not be timed.
  Result<codegen::CompiledKernel> compile(const codegen::GeneratedKernel& kernel, const std::stop_token& stop = {});
  Trial build_candidate(KernelCandidate candidate, const std::stop_token& stop = {});
  /// What was built, with loads of these inputs before it waits for the launch before it: as it may only be launched
  /// behind kernels that do not write them. Neither built nor failed where it has no such loads, or may not be launched
  /// dependent.
  Trial build_unwaited(const BuiltKernel& built, kernel::UnwaitedInputs inputs, const std::stop_token& stop = {});
  Trial verify_candidate(Trial trial, const std::stop_token& stop = {});
  Trial measure_candidate(Trial trial);

 private:
  struct Entry {
    std::timed_mutex mutex;    ///< held while the kernel is worked on: whoever asks second waits
    bool spill_free = false;   ///< one of those that were built spills in no loop: none that does is taken
    Attempts built;            ///< the kernel's candidates from the first one on
    std::vector<Trial> ahead;  ///< what is tried next, in this order; forgotten when nothing more will be
    int besides = 0;           ///< of `ahead`: that are not the kernel's own candidates
    std::optional<Attempts> verified;
    std::optional<Attempts> measured;
  };
  using Hold = std::unique_lock<std::timed_mutex>;
  Entry& entry_of(const Hash128& key);
  /// The kernel's lock, or none if `stop` fired before it could be had.
  static Hold hold(Entry& entry, const std::stop_token& stop);
  void build_ahead_of(const search::SharedKernel& kernel, Entry& entry, const std::stop_token& stop);
  void build_past_spills(const search::SharedKernel& kernel, std::vector<Trial>& trials, const std::stop_token& stop);
  [[nodiscard]] std::vector<KernelCandidate> relieved_candidates(std::span<const KernelCandidate> candidates) const;
  Trial first_made_of(std::span<const KernelCandidate> candidates, const std::set<Sha256>& code,
                      const std::set<kernel::UnwaitedInputs>& unwaited, const std::stop_token& stop);
  void prefer_simplest(std::vector<Trial>& trials) const;
  Trial next_trial(const search::SharedKernel& kernel, const Entry& entry, int place, const std::stop_token& stop);
  [[nodiscard]] double estimate(const BuiltKernel& built) const;

  codegen::Compiler& compiler_;
  profiler::Device& verifier_;
  KernelTimer* const timer_;
  const DeviceSpec& device_;
  const WorkshopOptions options_;
  std::mutex mutex_;  ///< guards entries_
  std::unordered_map<Hash128, std::unique_ptr<Entry>> entries_;
};

}  // namespace stitch::tuning
