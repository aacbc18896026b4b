#pragma once

#include <stop_token>
#include <string_view>

#include "api/program_document.h"
#include "base/result.h"
#include "import/import.h"
#include "tuning/plans/progress.h"
#include "tuning/plans/remembering_tuner.h"
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

struct ProgramRequest {
  std::string_view name = {};  ///< for people: "bert.onnx"
  Sha256 source = {};          ///< of the model's bytes
  /// Every kernel is verified, and measured where the tuner can; otherwise plans are the best predicted ones.
  bool tunes = false;
  /// Plans that are served there are taken, if they are as well founded as `tunes` asks for, and what is made is kept
  /// there; null: everything is made anew.
  RememberingTuner* memory = nullptr;
  ProgressSink progress = {};
  std::stop_token stop = {};
};

/// The program of a model without plans: simplified, cut as cut_model does (loops whole where the tuner expects more of
/// it), ports named, with the ranges that integers of its inputs must keep to. Errors: those of simplification and of
/// build_program.
Result<api::Program> outline_program(import::Imported model, const Tuner& tuner, const ProgramRequest& request);

/// Gives every fragment of the program a plan, and the program their code. A fragment for which none can be made says
/// why. Errors: cancelled, those of the memory's store.
Status plan_program(const Tuner& tuner, const ProgramRequest& request, api::Program& program);

}  // namespace stitch::tuning
