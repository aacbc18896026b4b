#pragma once

#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <string_view>

#include "api/program_document.h"
#include "api/program_lock.h"
#include "base/result.h"
#include "import/import.h"
#include "tuning/plans/progress.h"
#include "tuning/plans/remembering_tuner.h"
#include "tuning/plans/tuner.h"
#include "tuning/programs/product_choices.h"

namespace stitch::tuning {

struct ProgramRequest {
  std::string_view name = {};  ///< for people: "bert.onnx"
  Sha256 source = {};          ///< of the model's bytes
  /// Every kernel is verified, and measured where the tuner can; otherwise plans are the best predicted ones.
  bool tunes = false;
  /// Plans that are served there are taken, if they are as well founded as `tunes` asks for, and what is made is kept
  /// there; null: everything is made anew.
  RememberingTuner* memory = nullptr;
  /// False: plans that are served there, and no others; a fragment without one says so.
  bool makes = true;
  ProgressSink progress = {};
  std::stop_token stop = {};
  std::optional<ProductsBy> products = {};  ///< instead of the tuner's
  /// Of a program that is among these, the plans that are locked and no others: what the memory has under a plan's id,
  /// whatever it serves, or the same plan made again.
  std::span<const api::LockedProgram> lock = {};
};

/// The program of a model without plans: simplified (where products may be ours, attentions' gradients, too), cut as
/// cut_model does (loops whole where the tuner expects more of it), ports named, with the ranges that integers of its
/// inputs must keep to. Which products are ours is the tuner's prediction, or, of those of which the memory has times
/// of both, who was measured to be faster (tuning/programs/product_choices.h). `left`: products, by their keys, that
/// are the library's whatever they say. Errors: those of simplification and of build_program; cancelled.
Result<api::Program> outline_program(import::Imported model, const Tuner& tuner, const ProgramRequest& request,
                                     const std::set<Hash128>& left = {});
/// The same where somebody else chooses who computes products.
Result<api::Program> outline_program(import::Imported model, const Tuner& tuner, const ProgramRequest& request,
                                     ProductChoices& choices);

/// Gives every fragment of the program a plan, and the program their code. A fragment for which none can be made says
/// why. Errors: cancelled, those of the memory's store; constraint (a locked plan that is not stored and cannot be made
/// again, with the lock's line).
Status plan_program(const Tuner& tuner, const ProgramRequest& request, api::Program& program);

/// Both. A product of ours without a plan is left to the library (of an attention two calls and what is between them,
/// of a long epilogue what the call has no place for), so that it costs time, not the step; what has a plan keeps it.
/// Where the request tunes, and library calls can be measured, so is one that these are not measured slower than.
/// Errors: those of both.
Result<api::Program> make_program(const import::Imported& model, const Tuner& tuner, const ProgramRequest& request);

}  // namespace stitch::tuning
