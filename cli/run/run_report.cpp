#include "cli/run/run_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace stitch::cli {
namespace {

std::string check_columns(const StepRow& row, bool against_eager) {
  if (row.compared == 0) return fmt::format("{:>10} {:>10}  {:>{}}", "", "", "", against_eager ? 20 : 0);
  std::string text = fmt::format("{:>10.2e} {:>10.2e}  ", row.error, row.tolerance);
  if (row.accuracy) {
    text += fmt::format("{:>8.1e} {:>9.1e}  ", row.accuracy->ours_rms(), row.accuracy->eager_rms());
  } else if (against_eager) {
    text += fmt::format("{:>20}", "");
  }
  if (row.wrong > 0) return text + fmt::format("{} WRONG  ", row.wrong);
  return row.unchecked == row.compared ? text + "unchecked  " : text;
}

nlohmann::ordered_json document_of(const StepRow& row, bool checked) {
  nlohmann::ordered_json json = {{"kind", row.kind},           {"name", row.name},         {"by", to_string(row.by)},
                                 {"runs", row.runs},           {"launches", row.launches}, {"bytes", row.bytes},
                                 {"host_seconds", row.seconds}};
  if (row.us) json["us"] = *row.us;
  if (row.predicted_us) json["predicted_us"] = *row.predicted_us;
  if (checked) {
    json["compared"] = row.compared;
    json["unchecked"] = row.unchecked;
    json["wrong"] = row.wrong;
    json["error"] = row.error;
    json["tolerance"] = row.tolerance;
    if (!row.first_wrong.empty()) json["first_wrong"] = row.first_wrong;
    if (row.accuracy)
      json["relative_rms_error"] = {{"ours", row.accuracy->ours_rms()}, {"eager", row.accuracy->eager_rms()}};
  }
  return json;
}

double median_of(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + std::ssize(values) / 2);
  return values[values.size() / 2];
}

RunReport report_of_program(const api::Program& program) {
  const api::ProgramRegion& model = program.regions[0];
  RunReport report;
  report.model = program.model;
  report.arena = model.arena_bytes;
  report.lower_bound = model.lower_bound_bytes;
  report.eager_peak = model.eager_bytes;
  for (const api::ProgramPort& port : program.results) report.results += api::arena_bytes_of(port.type.bytes());
  for (const api::ProgramPort& port : program.parameters) report.parameters += port.type.bytes();
  return report;
}

}  // namespace

RunReport report_of(const client::ProgramRunner& runner, const StepLog& log) {
  RunReport report = report_of_program(runner.program());
  report.steps = log.rows();
  report.fallbacks = runner.fallbacks();
  report.library = runner.library();
  report.workspaces = runner.workspace_bytes();
  return report;
}

RunReport report_of(const client::StreamProgram& program, const client::ProgramTime& of,
                    const std::vector<tuning::ProgramPrice>& prices) {
  RunReport report = report_of_program(program.program());
  report.library = program.library();
  report.workspaces = program.workspace_bytes();
  report.replay_us = of.replay_us;
  report.cold_us = of.cold_us;
  for (const client::StepTime& time : of.steps) {
    StepRow& row = report.steps.emplace_back();
    row.kind = time.kind;
    row.name = time.place;
    row.by = time.kind == "library" ? client::StepBy::library : client::StepBy::device;
    row.runs = 1;
    row.bytes = time.bytes;
    row.launches = time.operations;
    row.us = time.microseconds;
    if (time.number < prices.size()) row.predicted_us = prices[time.number].us;
  }
  return report;
}

std::string to_table(const RunReport& report, bool checked) {
  const auto are_there = [&](std::optional<double> StepRow::*us) {
    return std::ranges::any_of(report.steps, [&](const StepRow& row) { return (row.*us).has_value(); });
  };
  const bool timed = are_there(&StepRow::us), priced = are_there(&StepRow::predicted_us);
  const auto column = [](std::optional<double> us) {
    return us ? fmt::format(" {:>10.1f}", *us) : fmt::format(" {:>10}", "");
  };
  const auto times = [&](std::optional<double> us, std::optional<double> predicted) {
    return (timed ? column(us) : "") + (priced ? column(predicted) : "");
  };
  const bool against_eager =
      std::ranges::any_of(report.steps, [](const StepRow& row) { return row.accuracy.has_value(); });
  const std::string_view check_heads = !checked        ? ""
                                       : against_eager ? "    error  tolerance   rms error, eager's  "
                                                       : "    error  tolerance  ";
  std::string text =
      fmt::format("{}{}\n{:<10} {:<10} {:>6} {:>9} {:>14}{} {}{}\n", report.model,
                  report.on.empty() ? "" : ", on " + report.on, "step", "by", "runs", "launches", "bytes",
                  (timed ? fmt::format(" {:>10}", "us") : "") + (priced ? fmt::format(" {:>10}", "predicted") : ""),
                  check_heads, "what");
  std::int64_t runs = 0, launches = 0, bytes = 0;
  double us = 0, predicted = 0;
  for (const StepRow& row : report.steps) {
    text += fmt::format("{:<10} {:<10} {:>6} {:>9} {:>14}{} {}{}\n", row.kind, to_string(row.by), row.runs,
                        row.launches, row.bytes, times(row.us, row.predicted_us),
                        checked ? check_columns(row, against_eager) : "", row.name);
    if (!row.first_wrong.empty()) text += fmt::format("  {}\n", row.first_wrong);
    runs += row.runs;
    launches += row.launches;
    bytes += row.bytes;
    us += row.us.value_or(0);
    predicted += row.predicted_us.value_or(0);
  }
  text += fmt::format("{:<10} {:<10} {:>6} {:>9} {:>14}{}\n", "all", "", runs, launches, bytes, times(us, predicted));
  if (report.replay_us) text += fmt::format("the whole as one CUDA graph: {:.1f} us", *report.replay_us);
  if (!report.cold_us.empty()) text += fmt::format("; {:.1f} us with a cold L2", median_of(report.cold_us));
  if (report.replay_us) text += "\n";
  if (report.whole) {
    text += fmt::format(
        "results beside the reference of the whole model: error {:.2e}, tolerance {:.2e}, {} of {} "
        "elements unchecked, {} wrong\n",
        report.whole->error, report.whole->tolerance, report.whole->unchecked, report.whole->compared,
        report.whole->wrong);
    if (!report.whole->first_wrong.empty()) text += fmt::format("  {}\n", report.whole->first_wrong);
    if (const auto& accuracy = report.whole->accuracy)
      text +=
          fmt::format("root mean square of the results' errors, relative: {:.2e}; of operators one at a time: {:.2e}\n",
                      accuracy->ours_rms(), accuracy->eager_rms());
  }
  text += fmt::format("library calls: {}\n", report.library);
  if (!report.why_by_steps.empty())
    text += fmt::format("step by step through host memory, not on a stream: {}\n", report.why_by_steps);
  for (const client::ProgramFallback& fallback : report.fallbacks) {
    text += fmt::format("by the reference evaluator: region {}, step {} ({}): {}\n", fallback.region, fallback.index,
                        fallback.step, fallback.reason);
  }
  text += fmt::format(
      "memory: arena {} bytes, lower bound {}, ratio {:.4f}; with results {}, eager peak {}; plans' workspaces {}; "
      "inputs and weights {}",
      report.arena, report.lower_bound, report.ratio(), report.arena + report.results, report.eager_peak,
      report.workspaces, report.parameters);
  if (report.price) {
    const tuning::ProgramPrice& price = *report.price;
    text += fmt::format(
        "\npredicted: {:.1f} us, of them {:.1f} in {:.0f} library calls; {:.0f} launches, {:.1f} MB of device memory",
        price.us, price.library_us, price.library_calls, price.launches, price.bytes / 1e6);
    if (price.dependent_launches > 0)
      text +=
          fmt::format("; {:.0f} launched to begin before the kernel before them has ended, which takes off {:.1f} us",
                      price.dependent_launches, price.saved_us);
    if (price.unpriced_calls > 0)
      text += fmt::format("; {:.0f} calls have the time of their bytes", price.unpriced_calls);
    if (price.foreign_steps > 0) text += fmt::format("; {:.0f} steps have no price", price.foreign_steps);
  }
  return text;
}

std::string to_json(const RunReport& report, bool checked) {
  nlohmann::ordered_json json = {{"model", report.model}};
  if (!report.on.empty()) json["on"] = report.on;
  if (!report.why_by_steps.empty()) json["why_by_steps"] = report.why_by_steps;
  if (report.replay_us) json["replay_us"] = *report.replay_us;
  if (!report.cold_us.empty()) json["cold_us"] = report.cold_us;
  json["steps"] = nlohmann::ordered_json::array();
  for (const StepRow& row : report.steps) json["steps"].push_back(document_of(row, checked));
  if (report.whole) json["whole"] = document_of(*report.whole, true);
  json["library"] = report.library;
  json["fallbacks"] = nlohmann::ordered_json::array();
  for (const client::ProgramFallback& fallback : report.fallbacks) {
    json["fallbacks"].push_back(
        {{"region", fallback.region}, {"step", fallback.index}, {"name", fallback.step}, {"reason", fallback.reason}});
  }
  json["memory"] = {{"arena_bytes", report.arena},
                    {"lower_bound_bytes", report.lower_bound},
                    {"ratio", report.ratio()},
                    {"result_bytes", report.results},
                    {"eager_peak_bytes", report.eager_peak},
                    {"workspace_bytes", report.workspaces},
                    {"parameter_bytes", report.parameters}};
  if (report.price) {
    const tuning::ProgramPrice& price = *report.price;
    json["price"] = {{"predicted_us", price.us},
                     {"library_us", price.library_us},
                     {"launches", price.launches},
                     {"dependent_launches", price.dependent_launches},
                     {"saved_us", price.saved_us},
                     {"library_calls", price.library_calls},
                     {"bytes", price.bytes},
                     {"library_bytes", price.library_bytes},
                     {"unpriced_calls", price.unpriced_calls},
                     {"foreign_steps", price.foreign_steps}};
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace stitch::cli
