#include "lab/recording/recording_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace stitch::lab {

bool RecordingReport::complete() const {
  return std::all_of(kernels.begin(), kernels.end(),
                     [](const KernelRecord& kernel) { return kernel.recorded >= kernel.wanted; });
}

std::string to_json(const RecordingReport& report) {
  nlohmann::json kernels = nlohmann::json::array();
  for (const KernelRecord& kernel : report.kernels) {
    nlohmann::json row = {{"key", kernel.key.hex()},   {"name", kernel.name},      {"legal", kernel.legal},
                          {"wanted", kernel.wanted},   {"before", kernel.before},  {"recorded", kernel.recorded},
                          {"right", kernel.right},     {"first", kernel.first},    {"best", kernel.best},
                          {"untimed", kernel.untimed}, {"seconds", kernel.seconds}};
    row["failed"] = kernel.failed;
    if (!kernel.why_failed.empty()) row["why_failed"] = kernel.why_failed;
    if (!kernel.why_untimed.empty()) row["why_untimed"] = kernel.why_untimed;
    kernels.push_back(std::move(row));
  }
  const nlohmann::json document = {{"device", report.device},
                                   {"unit", report.unit},
                                   {"complete", report.complete()},
                                   {"kernels", std::move(kernels)}};
  return document.dump();
}

std::string to_table(const RecordingReport& report) {
  std::string text = fmt::format("{:>8} {:>8} {:>8} {:>8} {:>12} {:>12} {:>8}  kernel\n", "legal", "wanted", "recorded",
                                 "right", "first", "best", "seconds");
  for (const KernelRecord& kernel : report.kernels) {
    text += fmt::format("{:>8} {:>8} {:>8} {:>8} {:>12.2f} {:>12.2f} {:>8.1f}  {} {}\n", kernel.legal, kernel.wanted,
                        kernel.recorded, kernel.right, kernel.first, kernel.best, kernel.seconds,
                        kernel.key.hex().substr(0, 12), kernel.name);
    for (const auto& [outcome, count] : kernel.failed) text += fmt::format("{:>44} {}\n", count, outcome);
    if (!kernel.why_failed.empty()) text += fmt::format("{:>44} {}\n", "", kernel.why_failed);
    if (kernel.untimed > 0) text += fmt::format("{:>44} not judged: {}\n", kernel.untimed, kernel.why_untimed);
  }
  text += fmt::format("{} kernels on {}, first and best in {}{}", report.kernels.size(), report.device, report.unit,
                      report.complete() ? "" : "; not complete: the same call goes on");
  return text;
}

}  // namespace stitch::lab
