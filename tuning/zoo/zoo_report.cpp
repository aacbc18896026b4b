#include "tuning/zoo/zoo_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace stitch::tuning {
namespace {

using Json = nlohmann::ordered_json;

Json document_of(const ZooFigures& figures) {
  return {{"launches", figures.launches}, {"bytes", figures.bytes}, {"predicted_us", figures.predicted_us}};
}

Json document_of(const ZooRow& row) {
  Json json = {{"model", row.model}};
  if (!row.error.empty()) {
    json["error"] = row.error;
    return json;
  }
  json["operators"] = row.operators;
  json["ours"] = row.ours;
  json["share"] = row.share();
  json["library_calls"] = row.library_calls;
  json["fragments"] = {
      {"distinct", row.fragments}, {"tuned", row.tuned}, {"uncompared", row.uncompared}, {"left", row.left}};
  json["before"] = document_of(row.before);
  json["after"] = document_of(row.after);
  json["measured_us"] = row.measured_us ? Json(*row.measured_us) : Json(nullptr);
  if (row.no_program.empty()) {
    json["peak_bytes"] = {{"before", row.peak_before}, {"after", row.peak_after}};
  } else {
    json["no_program"] = row.no_program;
  }
  json["opaque"] = Json::array();
  for (const auto& [op, times] : row.opaque) json["opaque"].push_back({{"operator", op}, {"count", times}});
  json["failures"] = row.failures;
  return json;
}

std::string megabytes(std::int64_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / 1e6); }

std::string row_text(const ZooRow& row, std::size_t width) {
  if (!row.error.empty()) return fmt::format("{:<{}} failed: {}\n", row.model, width, row.error);
  const bool known = row.no_program.empty();
  std::string text =
      fmt::format("{:<{}} {:>6.1f} {:>9} {:>9} {:>7} {:>7} {:>11} {:>11} {:>10} {:>10} {:>10.1f} {:>10.1f}\n",
                  row.model, width, 100 * row.share(), fmt::format("{}/{}", row.tuned, row.fragments),
                  row.library_calls, row.before.launches, row.after.launches, megabytes(row.before.bytes),
                  megabytes(row.after.bytes), known ? megabytes(row.peak_before) : "-",
                  known ? megabytes(row.peak_after) : "-", row.before.predicted_us, row.after.predicted_us);
  if (row.measured_us) text += fmt::format("  measured: {:.1f} us\n", *row.measured_us);
  if (row.uncompared > 0)
    text += fmt::format("  not compared: {} fragments, of whose results the reference says nothing\n", row.uncompared);
  if (row.left > 0) text += fmt::format("  left: {} fragments were not reached\n", row.left);
  for (const auto& [op, times] : row.opaque) text += fmt::format("  not ours: {} x{}\n", op, times);
  for (const std::string& failure : row.failures) text += fmt::format("  no plan: {}\n", failure);
  if (!known) text += fmt::format("  no program: {}\n", row.no_program);
  return text;
}

}  // namespace

bool ZooReport::sound() const { return std::ranges::all_of(models, &ZooRow::sound) && wrong_candidates.empty(); }

std::string to_table(const ZooReport& report) {
  std::size_t width = 5;
  for (const ZooRow& row : report.models) width = std::max(width, row.model.size());
  std::string text = fmt::format(
      "zoo of {} models for {}, effort {}\n{:<{}} {:>6} {:>9} {:>9} {:>15} {:>23} {:>21} {:>21}\n{:<{}} {:>6} {:>9} "
      "{:>9} {:>7} {:>7} {:>11} {:>11} {:>10} {:>10} {:>10} {:>10}\n",
      report.models.size(), report.target, report.effort, "", width, "ours", "fragments", "library", "launches", "MB",
      "peak MB", "predicted us", "model", width, "%", "tuned", "calls", "before", "after", "before", "after", "before",
      "after", "before", "after");
  for (const ZooRow& row : report.models) text += row_text(row, width);
  for (const std::string& wrong : report.wrong_candidates) text += fmt::format("wrong candidate: {}\n", wrong);
  text += fmt::format("{} distinct fragments: {} were tuned before, {} now, {} without a plan, {} left",
                      report.fragments, report.tuned_before, report.tuned_now, report.failed, report.left);
  return text;
}

std::string to_json(const ZooReport& report) {
  Json json = {{"target", report.target}, {"effort", report.effort}};
  json["models"] = Json::array();
  for (const ZooRow& row : report.models) json["models"].push_back(document_of(row));
  json["fragments"] = {{"distinct", report.fragments},
                       {"tuned_before", report.tuned_before},
                       {"tuned_now", report.tuned_now},
                       {"failed", report.failed},
                       {"left", report.left}};
  const ModelReport::Search& search = report.search;
  json["search"] = {{"trials", search.trials},   {"failed", search.failed},     {"kernels", search.kernels},
                    {"settled", search.settled}, {"improved", search.improved}, {"saved_us", search.saved_us}};
  json["wrong_candidates"] = report.wrong_candidates;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace stitch::tuning
