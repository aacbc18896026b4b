#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <vector>

#include "api/program_document.h"
#include "base/result.h"
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

/// What a run of a program is predicted to cost, by counting and by the models; nothing is compiled and nothing runs. A
/// loop's body counts as often as it runs (once where nobody knows), of a branch its costliest region.
struct ProgramPrice {
  double launches = 0;       ///< of kernels of ours
  double library_calls = 0;  ///< one launch each, at least
  double foreign_steps = 0;  ///< that neither computes; they have no price
  double bytes = 0;          ///< of device memory: of kernels as planned; of products and calls every operand once
  double library_bytes = 0;  ///< of them the calls
  double us = 0;             ///< predicted: kernels, and calls as by a library that is as good as the hardware allows
  double library_us = 0;     ///< of them the calls
  double dependent_launches = 0;  ///< kernels behind a kernel, launched to begin while that still runs
  double saved_us = 0;            ///< what that takes off `us`
  double unpriced_calls = 0;      ///< of the library, that have no form of a product: their time is that of their bytes
  /// How often each of them runs: indices into Program::fragments and Program::calls.
  std::map<int, double> fragment_runs = {}, call_runs = {};
  double copies = 0;  ///< of values, each a launch
};

/// Told the plan of each fragment that is no product, by its number, once.
using FragmentPlanned = std::function<void(int, const search::FusionPlan&)>;

/// What a fragment's kernel is predicted to take, by its number, µs, where whoever asks has ranked its schedules.
using KnownKernel = std::function<std::optional<double>(int)>;

/// Of each step of the program's first region: together they are its price. What is `known` is asked of no tuner.
/// Errors: constraint (a fragment that no plan is found for, by name); cancelled.
Result<std::vector<ProgramPrice>> price_steps(const api::Program& program, const Tuner& tuner,
                                              const std::stop_token& stop = {}, const FragmentPlanned& planned = {},
                                              const KnownKernel& known = {});
ProgramPrice sum_of(const std::vector<ProgramPrice>& steps);

}  // namespace stitch::tuning
