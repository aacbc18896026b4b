#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/run/step_log.h"
#include "client/program.h"
#include "client/stream_program.h"
#include "tuning/programs/program_price.h"

namespace stitch::cli {

/// What `stitch run` tells of a run.
struct RunReport {
  std::string model;
  std::vector<StepRow> steps;
  std::optional<StepRow> whole;  ///< the model's results beside the reference of the whole model
  std::vector<client::ProgramFallback> fallbacks;
  std::string library;
  std::string on;                             ///< what it ran on: "the emulated device", "a stream of gpu:0"
  std::string why_by_steps;                   ///< on a GPU and not on a stream; empty: it was
  std::optional<tuning::ProgramPrice> price;  ///< with --price
  std::optional<double> replay_us;            ///< of the whole on a GPU, as one CUDA graph
  std::vector<double> cold_us;                ///< such replays with a cold L2
  // Memory, bytes.
  std::int64_t arena = 0, lower_bound = 0, results = 0, eager_peak = 0, workspaces = 0, parameters = 0;

  [[nodiscard]] double ratio() const { return lower_bound > 0 ? 1.0 * arena / lower_bound : 1; }
};

RunReport report_of(const client::ProgramRunner& runner, const StepLog& log);
/// `prices`: of the steps of the program's first region; none: they are not told.
RunReport report_of(const client::StreamProgram& program, const client::ProgramTime& time,
                    const std::vector<tuning::ProgramPrice>& prices);
std::string to_table(const RunReport& report, bool checked);
std::string to_json(const RunReport& report, bool checked);

}  // namespace stitch::cli
