#include "cli/startup/startup_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "db/trial_records.h"

namespace stitch::cli {
namespace {

using Json = nlohmann::ordered_json;

double median_of(const std::vector<double>& samples) { return samples.empty() ? 0 : db::summarise(samples).median; }

}  // namespace

std::string to_table(const StartupReport& report) {
  std::string text =
      fmt::format("{} from {}: {} of {} fragments with a plan, {} launches, {} bytes of code\n", report.model,
                  report.from, report.planned, report.fragments, report.launches, report.code_bytes);
  text += fmt::format("{:<10}{:>12}{:>12}{:>12}   ms\n", "", "cold", "warm", "slowest");
  double cold = 0, warm = 0;
  for (const StartupPhase& phase : report.phases) {
    const double slowest = phase.warm_us.empty() ? 0 : std::ranges::max(phase.warm_us);
    text += fmt::format("{:<10}{:>12.2f}{:>12.2f}{:>12.2f}\n", phase.name, phase.cold_us / 1e3,
                        median_of(phase.warm_us) / 1e3, slowest / 1e3);
    cold += phase.cold_us;
    warm += median_of(phase.warm_us);
  }
  text += fmt::format("{:<10}{:>12.2f}{:>12.2f}\n", "all", cold / 1e3, warm / 1e3);
  if (report.made.empty()) return text;
  std::vector<std::string> made;
  for (const auto& [what, count] : report.made) made.push_back(fmt::format("{} {}", what, count));
  return text + fmt::format("made by the server meanwhile: {}\n", fmt::join(made, ", "));
}

std::string to_json(const StartupReport& report) {
  Json json = {{"model", report.model},     {"from", report.from},         {"fragments", report.fragments},
               {"planned", report.planned}, {"launches", report.launches}, {"code_bytes", report.code_bytes},
               {"phases", Json::array()}};
  for (const StartupPhase& phase : report.phases) {
    json["phases"].push_back({{"name", phase.name},
                              {"cold_us", phase.cold_us},
                              {"warm_us", median_of(phase.warm_us)},
                              {"warm_samples_us", phase.warm_us}});
  }
  for (const auto& [what, count] : report.made) json["made"][what] = count;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace stitch::cli
