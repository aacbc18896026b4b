#pragma once

#include <optional>

#include "costmodel/analytical_constants.h"
#include "costmodel/kernel_features.h"
#include "costmodel/kernel_quantities.h"

// How long a kernel will take, once it is known what the compiler made of it: to order the candidates that were
// compiled before any of them runs. docs/cost-model.md has the derivation.
namespace stitch::costmodel {

/// What one warp executes of a kernel's machine code in one tile.
struct WarpWork {
  double instructions = 0;
  double stall_cycles = 0;  ///< of issue alone, every result there in time
  double cycles = 0;        ///< of a warp by itself, waits for memory included
  double local_bytes = 0;   ///< of a lane, to and from local memory
};

/// All of the code once, and the hot loop as often as the bytes that the schedule loads in a tile need it. Nothing for
/// kernels whose code cannot be told apart: of several phases, groups or turns, of several sweeps that iterate, with
/// loads of the same bytes in two ways; and nothing where the instructions are four times the planned ones, or a
/// quarter.
std::optional<WarpWork> warp_work(const KernelQuantities& kernel, const MachineCodeFeatures& code);

/// The analytical formula (µs) over what the compiler really took:
///  a. blocks that fit on an SM, by the registers and the shared memory of the compiled kernel;
///  b. spilled registers: bytes to and from local memory, and instructions, once a thread, tile and turn, or, where
///     there is machine code, in loops as often as those turn (local_trips);
///  c. where there is machine code and warp_work has an answer: its instructions, stalls, chain and bytes in flight in
///     place of the planned ones.
/// Room for fewer blocks on an SM is never faster. `compiled` without registers says nothing of (a); with nothing that
/// differs from the plan the result is analytical_us.
double compiled_us(const KernelQuantities& kernel, const CompiledFacts& compiled, const DeviceSpec& device,
                   const AnalyticalConstants& constants = {});

/// A scorer's prediction of the schedule (µs), corrected by what compiling changes of the analytical time, so that what
/// a trained model knows besides stays in it. Of the analytical scorer with these constants it is compiled_us.
double reranked_us(double predicted_us, const KernelQuantities& kernel, const CompiledFacts& compiled,
                   const DeviceSpec& device, const AnalyticalConstants& constants = {});

}  // namespace stitch::costmodel
