#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "api/program_document.h"
#include "base/result.h"
#include "tuning/plans/tuner.h"
#include "tuning/programs/library_rival.h"

namespace stitch::cli {

/// A kernel of a program, or a call of the library, once for all steps that it runs in.
struct ProgramKernel {
  std::string kind = {};  ///< "kernel", "product" (convolutions and attentions among them), "library"
  std::string name = {};  ///< what it computes
  std::string runs = {};  ///< its schedule: of a kernel its blocks and threads; of the library's: nothing
  double times = 0;       ///< in one run of the program
  double us = 0;          ///< predicted, of one run
  std::optional<double> measured_us = {};  ///< of the library's: what its call was measured to take
  double bytes = 0;      ///< of device memory, of one run: as planned; of products and calls every operand once
  double memory_us = 0;  ///< what these bytes take at the bandwidth that a kernel can reach
  double rival_us = 0;   ///< of a product: what the library's call or calls are predicted to take
  std::optional<double> rival_measured_us = {};  ///< the same with calls as they were measured
  std::string bound_by = {};  ///< the term of the predicted time that decides; of the library's: nothing
};

/// What a program runs, kernel by kernel.
struct ProgramKernels {
  std::vector<ProgramKernel> kernels;  ///< costliest first: by what all their runs take
  double copies = 0;                   ///< of values, which are no kernels here, but are in the time
  double foreign_steps = 0;            ///< that have no price
  double predicted_us = 0;             ///< of the program
  double saved_us = 0;                 ///< that launches take off it which begin while the kernel before still runs
};

/// Of a program without plans (tuning::outline_program): plans as they are explored, nothing is compiled. Loops and
/// branches count as tuning::ProgramPrice has them. Errors: those of exploring, with the fragment's place; cancelled.
/// `known`: what library calls were measured to take; empty: none was.
Result<ProgramKernels> kernels_of(const api::Program& program, const tuning::Tuner& tuner,
                                  const tuning::KnownCall& known = {}, const std::stop_token& stop = {});

/// A table for people.
std::string to_text(const ProgramKernels& program);
nlohmann::ordered_json to_document(const ProgramKernels& program);

}  // namespace stitch::cli
