#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/kernel.h"
#include "emulator/counters.h"
#include "graph/reference/evaluate.h"
#include "kernel/program/program.h"
#include "profiler/device/device.h"
#include "profiler/verify/block_sample.h"
#include "profiler/verify/input_source.h"

// Whether a generated kernel computes what its graph says. It is run on random inputs of several distributions, with
// poisoned outputs and red zones around every buffer, and what it wrote is compared with the float64 reference within a
// tolerance that follows from dtypes and from the lengths of sums:
//
//     STITCH_ASSIGN(const Verification found, verify_kernel(device, graph, program, kernel, image, {.seed = 7}));
//     if (!found.correct) … found.failure: "result 0 at [3, 17]: 1.5 instead of 1.25 ± 0.001"
//
// The cost is bounded: of a large grid a sample of the blocks is run where the device can (profiler/verify/
// block_sample.h), and `share` says how much was compared. The tuning loop verifies every candidate before it is
// measured or served and records the seed, from which the inputs can be made again; `stitch verify` shows the same.
namespace stitch::profiler {

/// How much a verification may look at, and what it begins with.
struct VerifyOptions {
  std::uint64_t seed = 1;
  /// Input distributions, each run anew with fresh inputs; see input_source.h.
  std::vector<Distribution> distributions = default_distributions();
  /// Bounds the cost: work (elements that blocks handle, times operators) per distribution. Above it a sample of the
  /// blocks is run, where the device and the kernel allow it (block_sample.h).
  std::int64_t work_budget = std::int64_t{1} << 22;
  /// Work over all distributions. Blocks that are larger, or a kernel that must run whole, use fewer distributions, but
  /// always two, `mixed` among them, the rest drawn by the seed.
  std::int64_t total_budget = std::int64_t{1} << 26;
  /// Elements of all results that are compared on one distribution where the device runs all blocks and cannot sample
  /// them (a GPU). The reference's time follows from them, and is what verification costs there: seconds for the 2^23
  /// that other devices compare at most. Sums of many elements need these all the same.
  std::int64_t most_compared = std::int64_t{1} << 20;
  /// There, fewer are compared where each takes many operations (Execution::element_operations): of all together the
  /// reference takes no more than these, unless 2^14 elements (or `most_compared`, if that is less) take more.
  std::int64_t most_operations = std::int64_t{1} << 27;
  /// Operations that the reference may take on one distribution (graph::EvaluateOptions::work_limit): about a
  /// minute. Where what was written takes more (a deep chain whose every element needs all before it), less of it is
  /// compared, and the share says so. Counted, so that the verdict is the same on any machine.
  std::int64_t reference_budget = std::int64_t{1} << 32;
  /// Bytes of values that the reference may have at once; where what was written takes more, the same.
  std::int64_t reference_bytes = std::int64_t{4} << 30;
  /// What counting does not foresee: after so many seconds no further distribution is begun, if two are done.
  double most_seconds = 300;
  std::stop_token stop = {};  ///< looked at between the runs and within them; error then: cancelled
};

/// How a kernel was found to be right, or wrong.
struct Verification {
  bool correct = false;
  std::string failure;     ///< of a wrong kernel: which output, element, values, distribution; or the device's finding
  std::uint64_t seed = 0;  ///< inputs can be made again from it
  std::vector<Distribution> distributions;  ///< that were used, in this order (the last one is a failure's)
  /// Of the output elements that were compared, 0 … 1. At 0 a correct kernel is one that nothing was found against,
  /// because the reference says nothing of its results.
  double share = 0;
  std::int64_t compared = 0;  ///< elements, over all distributions
  double worst = 0;           ///< largest |difference| ÷ tolerance seen
  std::optional<emulator::Counters>
      counters;  ///< of one run, of the blocks that were run; of `mixed`, if that is among them
  std::int64_t blocks_run = 0, blocks = 0;  ///< of one run
};

/// What verification has to know of how a kernel runs, beyond what it computes.
struct Execution {
  std::int64_t serial_additions = 32;  ///< longest chain of additions that one thread makes: what a sum may be off
  std::int64_t narrow_part = 0;        ///< graph::ErrorModel
  std::int64_t work = 0;               ///< of all blocks, in scalar operations: what bounds the cost
  bool recurrent = false;              ///< a loop in one launch
  /// Operations that the reference takes for one element of a result alone, where they are many: a product's depth.
  std::int64_t element_operations = 1;
  std::int64_t slabs = 1;
  std::vector<std::int64_t> slab_steps = {};  ///< by result (kernel/program/slab_choice.h)
  /// Blocks to run where the device can run some of them, drawn by `seed`.
  std::function<BlockSample(std::int64_t budget, std::uint64_t seed)> sample;
};

/// Longest chain of additions that one thread makes, over all groups and phases: what the error bound of a sum has to
/// allow (graph/reference/evaluate_error.h).
std::int64_t serial_additions(const kernel::KernelProgram& program);

/// Runs a kernel on inputs of several distributions and compares every output that it wrote with the float64 reference,
/// by a tolerance that follows from dtypes and reduction lengths (graph/reference/evaluate_error.h). Outputs and
/// scratch start poisoned, red zones surround every buffer. `graph` and `program` are what the kernel was generated
/// from.
///
/// A wrong kernel is a Verification, not an error. Errors: those of the device (unsupported, resource_exhausted) and of
/// the reference; cancelled.
Result<Verification> verify_kernel(Device& device, const graph::Graph& graph, const kernel::KernelProgram& program,
                                   const codegen::GeneratedKernel& kernel, const KernelImage& image,
                                   const VerifyOptions& options);

/// The same of any kernel: `execution` says how it runs. verify_contraction.h has the execution of a contraction.
Result<Verification> verify_kernel(Device& device, const graph::Graph& graph, const Execution& execution,
                                   const codegen::GeneratedKernel& kernel, const KernelImage& image,
                                   const VerifyOptions& options);

}  // namespace stitch::profiler
