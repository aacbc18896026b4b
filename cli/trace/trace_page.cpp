#include "cli/trace/trace_page.h"

#include <fmt/format.h>

#include <array>

#include "base/version.h"
#include "cli/explain/page.h"
#include "cli/explain/svg.h"
#include "cli/trace/trace_summary.h"
#include "cli/trace/trace_timeline.h"

namespace stitch::cli {
namespace {

constexpr std::size_t most_steps = 200;
constexpr std::string_view trace_style = "tr.missed td{background:var(--reduction)}code{font-size:12px}\n";

std::string text_cell(std::string_view text) { return fmt::format("<td>{}</td>", escape_xml(text)); }
std::string figure(std::string_view text) { return fmt::format("<td class=\"number\">{}</td>", text); }
std::string count_cell(std::int64_t value) { return figure(fmt::format("{}", value)); }
std::string time_cell(double us) { return figure(fmt::format("{:.3f}", us / 1e3)); }
/// Hashes are long: the front of one, all of it where it is pointed at.
std::string hash_cell(const std::string& hex) {
  return fmt::format("<td><code title=\"{}\">{}</code></td>", escape_xml(hex), escape_xml(hex.substr(0, 12)));
}

std::string phase_table(const TraceSummary& summary) {
  if (summary.phases.empty()) return {};
  std::string rows;
  for (const PhaseTotal& phase : summary.phases) {
    rows +=
        fmt::format("<tr>{}{}{}{}{}</tr>\n", text_cell(phase.name), count_cell(phase.count), time_cell(phase.total_us),
                    time_cell(phase.longest_us), phase.failed > 0 ? count_cell(phase.failed) : figure(""));
  }
  return "<h3>phases</h3>\n<table><tr><th>phase</th><th class=\"number\">times</th><th class=\"number\">ms</th>"
         "<th class=\"number\">longest ms</th><th class=\"number\">failed</th></tr>\n" +
         rows + "</table>\n";
}

std::string fragment_table(const TraceSummary& summary) {
  if (summary.fragments.empty()) return {};
  std::string rows;
  for (const FragmentRow& row : summary.fragments) {
    rows += fmt::format("<tr{}>{}{}{}{}{}{}{}{}</tr>\n", row.outcome() == "miss" ? " class=\"missed\"" : "",
                        hash_cell(row.fragment), text_cell(row.name), hash_cell(row.plan), text_cell(row.label),
                        text_cell(row.outcome()), text_cell(row.source), text_cell(row.reason), count_cell(row.count));
  }
  return fmt::format(
      "<h3>fragments</h3>\n<p>{} hits, {} misses, {} made here, {} "
      "swaps.</p>\n<table><tr><th>fragment</th><th>of</th><th>plan</th>"
      "<th>label</th><th></th><th>from</th><th>why</th><th class=\"number\">times</th></tr>\n{}</table>\n",
      summary.hits, summary.misses, summary.made, summary.swaps, rows);
}

std::string fallback_table(const TraceSummary& summary) {
  if (summary.fallbacks.empty()) return "<p>Nothing fell back.</p>\n";
  std::string rows;
  for (const FallbackRow& row : summary.fallbacks)
    rows += fmt::format("<tr>{}{}{}{}</tr>\n", text_cell(row.what), text_cell(row.to), text_cell(row.reason),
                        count_cell(row.count));
  return "<h3>what fell back</h3>\n<table><tr><th>what</th><th>to</th><th>why</th><th "
         "class=\"number\">times</th></tr>\n" +
         rows + "</table>\n";
}

std::string step_table(const TraceSummary& summary) {
  if (summary.steps.empty()) return {};
  std::string rows;
  for (std::size_t i = 0; i < std::min(most_steps, summary.steps.size()); ++i) {
    const TraceEvent& step = *summary.steps[i];
    rows += fmt::format("<tr>{}{}{}{}{}{}</tr>\n", text_cell(step.text("name")), text_cell(step.text("kind")),
                        text_cell(step.text("by")), count_cell(static_cast<std::int64_t>(step.number("runs"))),
                        figure(fmt::format("{:.1f}", step.number("us"))), text_cell(step.text("clock")));
  }
  const std::string more = summary.steps.size() > most_steps
                               ? fmt::format("<p>The longest {} of {}.</p>\n", most_steps, summary.steps.size())
                               : "";
  return "<h3>steps</h3>\n<p>Clock <em>GPU</em>: by its events. <em>host</em>: what the emulated device and the host's "
         "library took, which says nothing of a GPU.</p>\n" +
         more +
         "<table><tr><th>step</th><th>kind</th><th>by</th><th class=\"number\">runs</th><th class=\"number\">µs</th>"
         "<th>clock</th></tr>\n" +
         rows + "</table>\n";
}

std::string note_list(const TraceSummary& summary) {
  std::string items;
  for (const TraceEvent* note : summary.notes) {
    std::string text = note->name + ":";
    for (const auto& [name, value] : note->fields.items()) {
      if (name != "event" && name != "ts" && name != "tid") text += fmt::format(" {}={}", name, note->text(name));
    }
    items += fmt::format("<li>{}</li>\n", escape_xml(text));
  }
  if (items.empty()) return {};
  return fmt::format(
      "<details><summary>{} more: servers, programs, work handed in, swaps, reports</summary><ul>\n{}</ul></details>\n",
      summary.notes.size(), items);
}

std::string trace_section(const ProcessTrace& trace, std::size_t number) {
  const TraceSummary summary = summary_of(trace);
  std::string html =
      fmt::format("<h2 id=\"p{}\">{}</h2>\n<p>{:.3f} s, stitch {}, {}.{}{}</p>\n", number, escape_xml(trace.title()),
                  static_cast<double>(trace.ended_us - trace.began_us) / 1e6, escape_xml(trace.version),
                  escape_xml(std::filesystem::path(trace.file).filename().string()),
                  trace.ended ? "" : " It was killed, or is still running.",
                  trace.cut ? " Its last line is cut and was skipped." : "");
  if (const std::string drawn = timeline_of(trace); !drawn.empty())
    html += fmt::format("<div class=\"drawing\">{}</div>\n", drawn);
  return html + phase_table(summary) + fragment_table(summary) + fallback_table(summary) + step_table(summary) +
         note_list(summary);
}

/// Of several processes: which one to look at.
std::string overview(const std::vector<ProcessTrace>& traces) {
  if (traces.size() < 2) return {};
  std::string rows;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const TraceSummary summary = summary_of(traces[i]);
    std::int64_t fallbacks = 0;
    for (const FallbackRow& row : summary.fallbacks) fallbacks += row.count;
    rows +=
        fmt::format("<tr><td><a href=\"#p{}\">{}</a></td>{}{}{}{}{}{}</tr>\n", i, escape_xml(traces[i].title()),
                    figure(fmt::format("{:.3f}", static_cast<double>(traces[i].ended_us - traces[i].began_us) / 1e6)),
                    count_cell(summary.hits), count_cell(summary.misses), count_cell(summary.swaps),
                    count_cell(fallbacks), text_cell(traces[i].ended ? "" : "killed or still running"));
  }
  return "<table><tr><th>process</th><th class=\"number\">s</th><th class=\"number\">hits</th>"
         "<th class=\"number\">misses</th><th class=\"number\">swaps</th><th class=\"number\">fell "
         "back</th><th></th></tr>\n" +
         rows + "</table>\n";
}

}  // namespace

std::string to_page(const std::vector<ProcessTrace>& traces) {
  const std::string title =
      fmt::format("what {} process{} did with Stitch", traces.size(), traces.size() == 1 ? "" : "es");
  std::string sections;
  for (std::size_t i = 0; i < traces.size(); ++i) sections += trace_section(traces[i], i);
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><title>{0}</title><style>{1}{2}{3}</style>"
      "</head><body>\n<h1>{0}</h1>\n<p>Written by stitch {4}. Times are the host's; a phase inside another counts in "
      "both.</p>\n{5}{6}</body></html>\n",
      title, page_style(), timeline_style(), trace_style, tool_version, overview(traces), sections);
}

}  // namespace stitch::cli
