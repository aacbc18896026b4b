#pragma once

#include <array>
#include <utility>

#include "base/device_spec.h"
#include "costmodel/analytical_constants.h"
#include "costmodel/contraction/pipeline_turn.h"
#include "kernel/contraction/contraction_schedule.h"

namespace stitch::costmodel {

/// How long a matmul-class kernel takes, and what of it. After the pipeline model of ALCOP (arXiv 2210.16691 §4): of a
/// loop of N turns that loads S tiles ahead, shared by x blocks of an SM,
///
///     N · T_use                     where T_load ≤ (S · x − 1) · T_use
///     N · (T_load + T_use) ÷ S ÷ x  elsewhere
///
/// for shared memory, and the same for registers inside: T_use of the one is the pipelined time of the other. Beyond
/// it: the bandwidths of shared memory, L2 and device memory, issue, whole rounds of blocks and the last one, the
/// filling of the pipeline, the epilogue, partial sums, and what consecutive tiles find in L2 (rasterisation).
struct ContractionTime {
  // Rival limits, µs, of the SM that has most to do, or of the whole GPU. The largest decides.
  double multiply = 0;  ///< tensor cores, or multiply-adds of CUDA cores
  double shared = 0;    ///< shared memory's bandwidth
  double issue = 0;
  double l2 = 0;
  double dram = 0;
  double loop = 0;  ///< all turns with the waits that stages do not hide; at least multiply, shared and issue
  // What no limit hides, µs.
  double fill = 0;      ///< first tiles of each round of blocks
  double epilogue = 0;  ///< results through shared memory, what is computed of them, stores
  double partial = 0;   ///< sums of blocks that share a tile's depth
  double launch = 0;    ///< gap before the kernel, ramp-up and drain

  double total = 0;   ///< µs
  double clock = 1;   ///< share of it that power leaves: all but dram and launch take so much longer
  int resident = 0;   ///< blocks of an SM
  double rounds = 0;  ///< how often all SMs get that many; 2.5: the last one is half full
  double l2_bytes = 0, dram_bytes = 0;
  PipelineTurn turn;  ///< of the rounds of most blocks

  [[nodiscard]] std::array<std::pair<const char*, double>, 6> limits() const;
  [[nodiscard]] std::pair<const char*, double> binding() const;
};

/// Of a legal schedule.
ContractionTime contraction_time(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                                 const DeviceSpec& device, const AnalyticalConstants& constants = {});

/// What the vendor's library takes for the same (which is one product): the best of its tiles, by the same model, with
/// the asynchronous tensor-core instructions that our kernels do not use yet. A prediction of what a library that is as
/// good as the hardware allows would take, not of a version of cuBLASLt. How far both may be off:
/// KernelKind::contraction.
double library_us(const kernel::ContractionProblem& problem, const DeviceSpec& device,
                  const AnalyticalConstants& constants = {});

/// What it takes to write the operands that a product computes while it loads them, µs: by kernels before it (`apart`),
/// or by such as read anyway what they are made of.
double computing_apart_us(const kernel::ContractionProblem& problem, bool apart, const DeviceSpec& device,
                          const AnalyticalConstants& constants = {});

/// Of a problem with reductions over rows: what a kernel of its own takes for what stands behind `product`
/// (kernel::without_rows), µs: its launch, and what it reads and writes.
double rows_apart_us(const kernel::ContractionProblem& problem, const graph::Graph& product, const DeviceSpec& device,
                     const AnalyticalConstants& constants = {});

}  // namespace stitch::costmodel
