#pragma once

#include <vector>

#include "base/result.h"
#include "codegen/kernel.h"
#include "graph/graph.h"
#include "profiler/device/device.h"
#include "profiler/verify/input_source.h"

namespace stitch::profiler {

/// Inputs of a kernel's graph from one distribution: every parameter has a stream of its own, integers that index stay
/// within what they index.
std::vector<InputSource> make_inputs(const graph::Graph& graph, Distribution distribution, std::uint64_t seed);

/// What one launch of a generated kernel works on, on a session's device: parameters (read only), results and scratch
/// as they have to be before the first launch. Results that may lie where parameters do (GeneratedKernel::in_place)
/// have memory of their own and memory that holds a parameter. Freed with it.
class KernelBuffers {
 public:
  /// `graph` is what the kernel was generated from; `sources` has an entry per parameter. All arguments but `sources`
  /// must outlive it. Errors: those of Session::allocate.
  static Result<KernelBuffers> allocate(Session& session, const graph::Graph& graph,
                                        const codegen::GeneratedKernel& kernel,
                                        const std::vector<InputSource>& sources);
  KernelBuffers(KernelBuffers&&) noexcept = default;
  KernelBuffers& operator=(KernelBuffers&&) = delete;
  ~KernelBuffers();

  /// `in_place`: with results where parameters lie, as far as they may; such a launch changes what the next one reads.
  [[nodiscard]] std::vector<LaunchValue> arguments(bool in_place) const;
  [[nodiscard]] LaunchShape shape() const;
  /// What a launch in place writes.
  [[nodiscard]] BufferHandle output(std::size_t i) const { return outputs_in_place_[i]; }
  [[nodiscard]] BufferHandle scratch(std::size_t i) const { return scratch_[i]; }

 private:
  KernelBuffers(Session& session, const codegen::GeneratedKernel& kernel) : session_(session), kernel_(kernel) {}

  Session& session_;
  const codegen::GeneratedKernel& kernel_;
  std::vector<BufferHandle> inputs_, outputs_, scratch_, shared_;  ///< all there are; empty once moved from
  std::vector<BufferHandle> inputs_in_place_, outputs_in_place_;   ///< the same, but those of shared_ in both
};

}  // namespace stitch::profiler
