#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/device_spec.h"
#include "cli/contractions/problem_file.h"
#include "cli/session.h"

namespace stitch::cli {

/// A schedule that was measured, as the cost models see it today.
struct PricedLine {
  nlohmann::ordered_json line;  ///< as it was written
  double analytical_us = 0;     ///< 0: the schedule, or its problem, is not there today
  std::vector<float> features;  ///< with what the compiler said, where the line has it
  bool spills = false;          ///< as the compiler said
  std::string what, bound_by;   ///< the schedule in words
  double library_us = 0;
  double uncertainty_us = 0;     ///< of the difference between the two, where the library has one call; else 0
  nlohmann::ordered_json parts;  ///< of the analytical time, µs
};

/// The lines of a measurement (measured_products.h) by the name of their problem. A schedule is found by its hash among
/// those that the space has today. Errors: io; parse (a line that is no measurement of a product).
Result<std::map<std::string, std::vector<PricedLine>>> price_lines(const std::vector<NamedProblem>& problems,
                                                                   const DeviceSpec& device,
                                                                   const std::filesystem::path& measured);

/// Prints the lines of a measurement (measured_products.h) again with what is predicted today: `predicted_us` and
/// `library_us` are new, `bound_by`, the difference's `uncertainty_us` and the `parts` of the prediction, µs, are
/// added. A schedule is found by its hash among those that the space has today; lines of others, and of problems that
/// `problems` does not name, are left out and counted on standard error, lines that are no JSON objects skipped. So a
/// model is held against a GPU's times where there is no GPU. Errors: io; parse (a line that is no JSON object).
Result<ExitCode> price_measured(const std::vector<NamedProblem>& problems, const DeviceSpec& device,
                                const std::filesystem::path& measured);

}  // namespace stitch::cli
