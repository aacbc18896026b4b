#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/device_spec.h"
#include "base/result.h"
#include "base/sha256.h"
#include "codegen/compile/compiler.h"
#include "codegen/kernel.h"
#include "costmodel/machine_code.h"
#include "profiler/measure/measurement.h"
#include "profiler/verify/verify.h"
#include "search/schedule/kernel_cache.h"

// What is made of one kernel, as values: a candidate (a schedule that is thought to be fast), what building it gave,
// and what became of those that were tried. KernelWorkshop makes them, plans and the store's records read them.
namespace stitch::tuning {

/// One way to compute a kernel. Keeps alive what it refers to.
struct KernelCandidate {
  search::SharedKernel kernel;
  std::shared_ptr<const search::StitchCandidate> scheduled;  ///< for the kernel's graph
  /// Among the candidates that it was taken from, from the best prediction on; behind them one that was made of them.
  int place = 0;
  kernel::UnwaitedInputs unwaited = 0;  ///< GenerateOptions::unwaited

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
  std::optional<costmodel::MachineCodeFeatures> machine_code;  ///< none where it cannot be read, or nobody asked
  double unwaited_saving_us = 0;  ///< taken off where it is launched dependent (search/partition/unwaited_saving.h)
  int overtaken = 0;              ///< candidates with better predictions of the schedule that it was put ahead of
  /// Where it was put first for being simpler than the best estimate: the uncertainty within which both are equal, µs.
  double equal_within_us = 0;
  std::optional<profiler::Verification> verification;
  std::optional<profiler::Measurement> measurement;
};

/// How a kernel's source is compiled: what tuning, and whoever looks at the machine code by itself, asks for.
codegen::CompileRequest compile_request(std::string source, std::string architecture);

/// Whether what the compiler made of a kernel can run: a block fits an SM, and all of them together where they wait for
/// each other. Error: constraint.
Status check_residency(const codegen::GeneratedKernel& generated, const codegen::CompiledKernel& compiled,
                       const DeviceSpec& device);

/// Gives a built kernel what verifying it found. Why it is not right: the error of the device or of the reference, or
/// correctness; nothing when it is.
std::optional<Error> judge(std::shared_ptr<const BuiltKernel>& built, Result<profiler::Verification> found);

/// Verifies a kernel again, a few times at most, where the device went away under it (unavailable): another thread's
/// kernel may have hung or faulted on the same device, which takes every session on it along, and is no fault of this
/// one.
Result<profiler::Verification> verify_undisturbed(const std::stop_token& stop,
                                                  const std::function<Result<profiler::Verification>()>& verify);

/// Whether measurements tell that one kernel is faster than another; not, where one of them was not measured.
bool is_faster(const BuiltKernel& challenger, const BuiltKernel& best);

/// Whether registers are spilled and a loop of its machine code accesses local memory: so often as it turns. Not where
/// the code was not read. (An array that ptxas puts there is no spill: no other schedule would be rid of it.)
bool spills_in_loop(const BuiltKernel& built);

/// Whether it waits for its predecessor before it touches memory, but for what it loads unwaited, in its PTX and, since
/// ptxas may move loads of what it takes for constant, in its machine code: only such a kernel may be launched
/// dependent (codegen/device/launch.cuh).
bool may_depend(const BuiltKernel& built);

/// Whether its machine code and its PTX are among these.
bool is_made_of(const BuiltKernel& built, const std::set<Sha256>& code);

/// The image of a built kernel, as a device loads it.
profiler::KernelImage image_of(const BuiltKernel& built);

/// What became of one candidate of one kernel.
struct Trial {
  KernelCandidate candidate;
  std::shared_ptr<const BuiltKernel> built;  ///< null when it did not get that far
  std::optional<Error> failure;              ///< constraint, compile, timeout, runtime or correctness
};

/// Whether an error is what became of a candidate; every other says something of the device, or of us.
bool is_outcome(ErrorKind kind);

/// The candidates of one kernel that were tried, and the one that is taken.
struct Attempts {
  std::vector<Trial> others;  ///< failed or slower ones, in the order in which they were tried
  std::optional<Trial> best;  ///< without failure; nothing when all others failed

  /// `tried[chosen]` is the best, and all are others when `chosen` is negative.
  static Attempts choose(std::vector<Trial> tried, std::ptrdiff_t chosen);
  /// Adds the next trial: the best if it did not fail. To be called while there is no best.
  void add(Trial trial);

  [[nodiscard]] int size() const { return static_cast<int>(others.size()) + (best ? 1 : 0); }
  /// The others, then the best.
  [[nodiscard]] std::vector<Trial> all() const;
  /// Why there is no best: the failure of the last one.
  [[nodiscard]] Error why_none() const;
};

}  // namespace stitch::tuning
