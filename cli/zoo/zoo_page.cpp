#include "cli/zoo/zoo_page.h"

#include <fmt/format.h>

#include "base/version.h"
#include "cli/explain/page.h"
#include "cli/explain/svg.h"

namespace stitch::cli {
namespace {

using tuning::ZooFigures;
using tuning::ZooReport;
using tuning::ZooRow;

constexpr std::string_view bar_style = R"(
.bar{display:inline-block;width:8em;height:.7em;margin-right:.6em;background:var(--rule)}
.bar span{display:block;height:100%;background:#3f8f5f}
tr.failed td{background:var(--reduction)}tfoot td{font-weight:600}
)";

std::string number(std::string_view text) { return fmt::format("<td class=\"number\">{}</td>", text); }
std::string whole(std::int64_t value) { return number(fmt::format("{}", value)); }
std::string megabytes(std::int64_t bytes) { return number(fmt::format("{:.2f}", static_cast<double>(bytes) / 1e6)); }
std::string ratio(double after, double before) {
  return number(before > 0 ? fmt::format("{:.2f}", after / before) : "");
}

std::string share_cell(double share) {
  return fmt::format("<td><span class=\"bar\"><span style=\"width:{:.1f}%\"></span></span>{:.1f} %</td>", 100 * share,
                     100 * share);
}

/// Launches, bytes and predicted time: before, after and what became of them.
std::string figure_cells(const ZooFigures& before, const ZooFigures& after) {
  return whole(before.launches) + whole(after.launches) +
         ratio(static_cast<double>(after.launches), static_cast<double>(before.launches)) + megabytes(before.bytes) +
         megabytes(after.bytes) + ratio(static_cast<double>(after.bytes), static_cast<double>(before.bytes)) +
         number(fmt::format("{:.1f}", before.predicted_us)) + number(fmt::format("{:.1f}", after.predicted_us)) +
         ratio(after.predicted_us, before.predicted_us);
}

std::string peak_cells(const ZooRow& row) {
  if (!row.no_program.empty()) return number("") + number("") + number("");
  return megabytes(row.peak_before) + megabytes(row.peak_after) +
         ratio(static_cast<double>(row.peak_after), static_cast<double>(row.peak_before));
}

std::string fragment_cell(const ZooRow& row) {
  std::string text = fmt::format("{} of {}", row.tuned, row.fragments);
  if (row.uncompared > 0) text += fmt::format(", {} not compared", row.uncompared);
  if (row.left > 0) text += fmt::format(", {} left", row.left);
  return number(text);
}

std::string row_of(const ZooRow& row, bool measured) {
  if (!row.error.empty()) {
    return fmt::format("<tr class=\"failed\"><td>{}</td><td colspan=\"{}\">{}</td></tr>\n", escape_xml(row.model),
                       measured ? 16 : 15, escape_xml(row.error));
  }
  std::string text =
      fmt::format("<tr><td>{}</td>{}{}{}{}{}", escape_xml(row.model), share_cell(row.share()), fragment_cell(row),
                  whole(row.library_calls), figure_cells(row.before, row.after), peak_cells(row));
  if (measured) text += number(row.measured_us ? fmt::format("{:.1f}", *row.measured_us) : "");
  return text + "</tr>\n";
}

std::string heading(bool measured) {
  return fmt::format(
      "<thead><tr><th rowspan=\"2\">model</th><th rowspan=\"2\">ours</th><th rowspan=\"2\">fragments tuned</th>"
      "<th rowspan=\"2\">library calls</th><th colspan=\"3\">launches</th><th colspan=\"3\">MB moved</th>"
      "<th colspan=\"3\">predicted µs</th><th colspan=\"3\">peak MB</th>{}</tr>\n<tr>{}</tr></thead>\n",
      measured ? "<th rowspan=\"2\">measured µs</th>" : "", [] {
        std::string cells;
        for (int group = 0; group < 4; ++group) cells += "<th>before</th><th>after</th><th>÷</th>";
        return cells;
      }());
}

std::string sum_row(const ZooReport& report, bool measured) {
  ZooRow all;
  for (const ZooRow& row : report.models) {
    if (!row.error.empty()) continue;
    all.operators += row.operators;
    all.ours += row.ours;
    all.library_calls += row.library_calls;
    all.before.launches += row.before.launches;
    all.before.bytes += row.before.bytes;
    all.before.predicted_us += row.before.predicted_us;
    all.after.launches += row.after.launches;
    all.after.bytes += row.after.bytes;
    all.after.predicted_us += row.after.predicted_us;
  }
  return fmt::format("<tfoot><tr><td>all</td>{}{}{}{}{}{}</tr></tfoot>\n", share_cell(all.share()),
                     number(fmt::format("{} distinct", report.fragments)), whole(all.library_calls),
                     figure_cells(all.before, all.after), number("") + number("") + number(""),
                     measured ? number("") : "");
}

/// What a model's row has no room for; nothing when there is nothing to say.
std::string remarks(const ZooRow& row) {
  std::string items;
  for (const std::string& failure : row.failures) items += fmt::format("<li>no plan: {}</li>\n", escape_xml(failure));
  for (const auto& [op, times] : row.opaque) {
    items += fmt::format("<li>stays with others: {}, {} times</li>\n", escape_xml(op), times);
  }
  if (!row.no_program.empty()) items += fmt::format("<li>no program: {}</li>\n", escape_xml(row.no_program));
  return items.empty() ? "" : fmt::format("<h3>{}</h3>\n<ul>\n{}</ul>\n", escape_xml(row.model), items);
}

}  // namespace

std::string to_page(const ZooReport& report) {
  const std::string title =
      fmt::format("{} models for {}, effort {}", report.models.size(), report.target, report.effort);
  bool measured = false;
  std::string rows, remarked;
  for (const ZooRow& row : report.models) measured = measured || row.measured_us;
  for (const ZooRow& row : report.models) {
    rows += row_of(row, measured);
    remarked += remarks(row);
  }
  for (const std::string& wrong : report.wrong_candidates)
    remarked += fmt::format("<p>A kernel was wrong and is not used: {}</p>\n", escape_xml(wrong));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>{0}</title><style>{1}{2}</style></head>"
      "<body>\n<h1>{0}</h1>\n<p>Written by stitch {3}. <em>Ours</em>: share of the memory-intensive operators (all but "
      "matmuls, convolutions and control flow), as often as they run, that our kernels run. <em>Before</em>: each of "
      "them in a kernel of its own, values freed after their last use. <em>After</em>: by our plans, what has none as "
      "before; memory by the model's program. Library calls are on neither side. Predicted times are a model's and "
      "were "
      "not measured.</p>\n<table>\n{4}<tbody>\n{5}</tbody>\n{6}</table>\n{7}</body></html>\n",
      escape_xml(title), page_style(), bar_style, tool_version, heading(measured), rows, sum_row(report, measured),
      remarked.empty() ? "" : "<h2>What is not ours, and why</h2>\n" + remarked);
}

}  // namespace stitch::cli
