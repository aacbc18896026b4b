#pragma once

#include <cstdint>
#include <initializer_list>

#include "base/device_spec.h"
#include "costmodel/analytical_constants.h"
#include "kernel/contraction/contraction_schedule.h"

// What the models of products' time share: rates of what multiplies, and how limits go together.
namespace stitch::costmodel {

/// Of the rate of tensor cores, what a loop that never waits reaches: other instructions stand between; guess.
inline constexpr double tensor_share = 0.97;
/// Instructions for one result of an epilogue: to the strip and back, its place, its conversion; and an operator's;
/// guesses.
inline constexpr double result_instructions = 4, operator_instructions = 3;
/// Latency of loads while all SMs load, over the idle one; and what a kernel waits for its code and constants, which no
/// cache has yet, µs. Fitted to products and attentions measured on an H100 (bench/results/gpu).
inline constexpr double busy_latency = 2.5, cold_code_us = 0.8;
/// A warp's instructions for a copy to shared memory: place, bounds, address. Fitted to the same.
inline constexpr double copy_instructions = 18;
/// And for each dimension of a window that it must lie within: digits of row and depth are divided for. Fitted to
/// convolutions measured there.
inline constexpr double window_instructions = 30;
/// Of each scheduler of an SM, which there are so many of.
inline constexpr int schedulers = 4;

/// What passes before a kernel's blocks compute and after they have, µs: its code, the launch, ramp-up and drain.
double launch_time(const DeviceSpec& device, const AnalyticalConstants& constants);
/// Bytes/s of L2 that tiles of operands are read with: whole lines, which nobody writes. On Hopper and sm_100 more than
/// the device table says, of which other kernels' loads and stores were not seen to reach more.
double tile_bandwidth(const DeviceSpec& device);
/// Cycles until a load is there while all SMs load, of which a share is found in L2.
double load_latency(const DeviceSpec& device, double found_in_l2);

/// Limits that are near one another add up: the norm of order 8 is taken; guess. Two that are equal take a tenth more
/// than one of them.
double norm_of(std::initializer_list<double> limits);

/// Multiply-adds per clock of an SM: of tensor cores that work by themselves, as far as power and other instructions
/// let them; of CUDA cores; and of what the instruction multiplies with. 0: there are none for the types.
double tensor_rate(const kernel::ContractionProblem& problem, const DeviceSpec& device);
double core_rate(const kernel::ContractionProblem& problem, const DeviceSpec& device);
double multiply_rate(const kernel::ContractionProblem& problem, kernel::ContractionInstruction instruction,
                     const DeviceSpec& device);

/// What a warp executes where operands are rounded, or split in parts that are multiplied one by one.
struct SplitWork {
  int products = 1;         ///< instructions of tensor cores for one of the whole operands
  double instructions = 0;  ///< for each element of the operands that a lane has
};
SplitWork split_work(kernel::ContractionInstruction instruction);

/// Share of the clock that power leaves an SM whose lanes multiply and add all of the time.
double core_clock_share(const kernel::ContractionProblem& problem, const DeviceSpec& device);
/// And one that multiplies by this instruction: on Ada. Elsewhere what power leaves tensor cores is a share of their
/// rate (TensorRates::sustained_share), as fitted; 1.
double clock_share(const kernel::ContractionProblem& problem, kernel::ContractionInstruction instruction,
                   const DeviceSpec& device);
/// multiply_rate at the full clock, beside clock_share.
double full_clock_rate(const kernel::ContractionProblem& problem, kernel::ContractionInstruction instruction,
                       const DeviceSpec& device);

/// Cycles of shared memory for a warp's loads of one element of depth, `size` bytes, for each of a lane's rows or
/// columns: lanes that load the same share a wavefront, but 16 bytes a lane take two at least.
double core_load_cycles(int elements, double size);

/// Of operands that repeat along batch dimensions (heads that share keys), how many are different.
double different_batches(const kernel::ContractionOperand& operand);

/// Of an operand's elements, counted as often as rows and depth name them, those that differ: a convolution's windows
/// overlap.
double different_share(const kernel::ContractionProblem& problem, const kernel::ContractionOperand& operand,
                       std::int64_t rows);

/// Bytes of device memory for an element of the left or right operand: of one that is computed, of all that it is made
/// of and no other element is.
double read_bytes(const kernel::ContractionProblem& problem, bool left);
/// A warp's instructions for `elements` of a computed operand, of `element_bytes` each, that are copied together: to
/// load what they are made of, to make them of it, and to store them.
double computing_instructions(const kernel::ComputedOperand& computed, int element_bytes, int elements);

/// Bytes that the epilogue reads besides the sums, and its element-wise operators; of several products all bytes, and
/// the longest.
double epilogue_reads(const kernel::ContractionProblem& problem);
/// And that it writes.
double result_bytes(const kernel::ContractionProblem& problem);
double epilogue_operators(const kernel::ContractionProblem& problem);

}  // namespace stitch::costmodel
