#pragma once

#include <cstdint>
#include <string_view>

#include "kernel/contraction/contraction_schedule.h"
#include "kernel/program/program.h"

namespace stitch::costmodel {

/// What decides how far the analytical model may be off: kernels of a kind are off alike.
enum class KernelKind : std::uint8_t {
  streaming,          ///< Every element by itself, or moved.
  row_reduction,      ///< Reductions that end in a tile, one phase.
  partial_reduction,  ///< Partial results of many tiles, which later phases add up: sums of columns, of everything.
  phases,             ///< Several phases for another reason: blocks that wait for one another.
  scan,               ///< Cumulative sums and the like.
  sort,               ///< Lines put in order.
  scatter,            ///< Updates whose places are read.
  recurrent,          ///< A loop in one launch.
  contraction,        ///< A product of matrices, a library's as well.
};

std::string_view to_string(KernelKind kind);

/// The kind of a scheduled kernel; of one that is of several the one that is the least certain.
KernelKind kind_of(const kernel::KernelProgram& program);

/// How far a prediction of `predicted_us` of such a kernel may be off, in µs: about two of three kernels are nearer. It
/// is a share that was fitted to published times where there are any for the kind (bench/results/measured.md), and what
/// launch, ramp and drain may be off. Errors of a plan's kernels go the same way, so that a plan's is their sum.
double uncertainty_us(KernelKind kind, double predicted_us);
double uncertainty_us(const kernel::KernelProgram& program, double predicted_us);

/// What multiplies in a product: by this differ the errors of two predictions of the same one.
enum class ProductKind : std::uint8_t { tensor_cores, multiply_adds, convolution };

/// How far the difference between what two kernels of one product are predicted to take (ours, and the library's) may
/// be off, in µs, where the slower takes `us`: two of three are nearer. Errors of both go the same way, the more the
/// longer both take, so that this is less than uncertainty_us of either beyond some 10 µs. Fitted to products that an
/// H100 has run by both (bench/results/product_choices.md).
double difference_uncertainty_us(ProductKind kind, double us);
double difference_uncertainty_us(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                                 double us);

}  // namespace stitch::costmodel
