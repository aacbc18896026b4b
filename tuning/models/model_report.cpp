#include "tuning/models/model_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace stitch::tuning {

std::string to_json(const ModelReport& report) {
  nlohmann::ordered_json json;
  json["model"] = report.model;
  json["operators"] = report.operators;
  json["fragments"] = report.fragments;
  json["distinct_fragments"] = report.distinct_fragments;
  json["kernels"] = report.kernels;
  json["launches"] = report.launches;
  json["library_calls"] = report.library_calls;
  json["bytes"] = report.bytes;
  json["launches_unfused"] = report.launches_unfused;
  json["bytes_unfused"] = report.bytes_unfused;
  json["predicted_us"] = report.predicted_us;
  json["predicted_unfused_us"] = report.predicted_unfused_us;
  json["seconds"] = {{"import", report.seconds.import},   {"plan", report.seconds.plan},
                     {"codegen", report.seconds.codegen}, {"verify", report.seconds.verify},
                     {"measure", report.seconds.measure}, {"search", report.seconds.search}};
  json["search"] = {{"trials", report.search.trials},     {"failed", report.search.failed},
                    {"kernels", report.search.kernels},   {"settled", report.search.settled},
                    {"improved", report.search.improved}, {"saved_us", report.search.saved_us}};
  json["boundaries"] = nlohmann::ordered_json::array();
  for (const auto& [op, times] : report.boundaries) json["boundaries"].push_back({{"operator", op}, {"count", times}});
  json["verified"] = {{"kernels", report.verified_kernels}, {"wrong", report.wrong_kernels}};
  json["failed_candidates"] = nlohmann::ordered_json::object();
  for (const auto& [outcome, times] : report.failed_candidates) json["failed_candidates"][outcome] = times;
  json["wrong_candidates"] = report.wrong_candidates;
  json["failures"] = report.failures;
  return json.dump();
}

std::string to_table(const ModelReport& report) {
  std::string text;
  const auto row = [&](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<28}{}\n", name, value);
  };
  const auto ratio = [](double ours, double theirs) {
    return theirs > 0 ? fmt::format("{:.2f}", ours / theirs) : std::string("-");
  };
  text += fmt::format("{}\n", report.model);
  row("operators", fmt::format("{}", report.operators));
  row("fragments", fmt::format("{} ({} distinct)", report.fragments, report.distinct_fragments));
  row("kernels", fmt::format("{} distinct", report.kernels));
  row("launches",
      fmt::format("{} (unfused {}, ratio {})", report.launches, report.launches_unfused,
                  ratio(static_cast<double>(report.launches), static_cast<double>(report.launches_unfused))));
  row("library calls", fmt::format("{}", report.library_calls));
  row("device memory",
      fmt::format("{:.1f} MB (unfused {:.1f} MB, ratio {})", static_cast<double>(report.bytes) / 1e6,
                  static_cast<double>(report.bytes_unfused) / 1e6,
                  ratio(static_cast<double>(report.bytes), static_cast<double>(report.bytes_unfused))));
  row("predicted", fmt::format("{:.1f} us (unfused {:.1f} us)", report.predicted_us, report.predicted_unfused_us));
  row("verified kernels", fmt::format("{} right, {} wrong", report.verified_kernels, report.wrong_kernels));
  const StageSeconds& spent = report.seconds;
  row("seconds", fmt::format("import {:.2f}, plan {:.2f}, codegen {:.2f}, verify {:.2f}", spent.import, spent.plan,
                             spent.codegen, spent.verify) +
                     (spent.measure > 0 ? fmt::format(", measure {:.2f}", spent.measure) : ""));
  if (const ModelReport::Search& search = report.search; search.trials > 0) {
    row("search", fmt::format("{} trials ({} failed) of {} kernels in {:.1f} s, {} settled", search.trials,
                              search.failed, search.kernels, spent.search, search.settled));
    row("faster by search", fmt::format("{} kernels, {:.1f} us", search.improved, search.saved_us));
  }
  for (const auto& [op, times] : report.boundaries) row("boundary", fmt::format("{} x{}", op, times));
  if (!report.failed_candidates.empty()) {
    std::string all;
    for (const auto& [outcome, times] : report.failed_candidates)
      all += fmt::format("{}{} {}", all.empty() ? "" : ", ", times, outcome);
    row("failed candidates", all);
  }
  for (const std::string& wrong : report.wrong_candidates) row("wrong candidate", wrong);
  for (const std::string& failure : report.failures) row("no plan", failure);
  return text;
}

}  // namespace stitch::tuning
