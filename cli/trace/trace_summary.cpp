#include "cli/trace/trace_summary.h"

#include <algorithm>
#include <tuple>

namespace stitch::cli {
namespace {

using Json = nlohmann::ordered_json;

/// The row of these values, made where there is none yet.
template <class Row, class Key>
Row& row_of(std::vector<Row>& rows, const Key& key_of, const Row& like) {
  const auto known = std::ranges::find_if(rows, [&](const Row& row) { return key_of(row) == key_of(like); });
  return known != rows.end() ? *known : rows.emplace_back(like);
}

void add_phase(std::vector<PhaseTotal>& phases, const TraceEvent& event) {
  PhaseTotal& total = row_of(
      phases, [](const PhaseTotal& phase) { return phase.name; }, PhaseTotal{event.name});
  const auto took = static_cast<double>(*event.took_us);
  ++total.count;
  total.failed += event.text("error").empty() ? 0 : 1;
  total.total_us += took;
  total.longest_us = std::max(total.longest_us, took);
}

void add_fragment(std::vector<FragmentRow>& rows, const TraceEvent& event) {
  const FragmentRow row{event.text("fragment"), event.text("name"),   event.text("plan"),   event.text("label"),
                        event.text("source"),   event.text("reason"), event.is_true("hit"), 0};
  const auto key = [](const FragmentRow& each) {
    return std::tie(each.fragment, each.plan, each.label, each.source, each.reason, each.hit);
  };
  ++row_of(rows, key, row).count;
}

void add_fallback(std::vector<FallbackRow>& rows, const TraceEvent& event) {
  const FallbackRow row{event.text("what"), event.text("reason"), event.text("to"), 0};
  const auto key = [](const FallbackRow& each) { return std::tie(each.what, each.reason, each.to); };
  row_of(rows, key, row).count += std::max<std::int64_t>(1, static_cast<std::int64_t>(event.number("count")));
}

}  // namespace

TraceSummary summary_of(const ProcessTrace& trace) {
  TraceSummary summary;
  for (const TraceEvent& event : trace.events) {
    if (event.took_us) add_phase(summary.phases, event);
    if (event.name == "fetch" || event.name == "fragment") {
      add_fragment(summary.fragments, event);
      ++(event.is_true("hit") ? summary.hits : event.text("source") == "made" ? summary.made : summary.misses);
    } else if (event.name == "fallback") {
      add_fallback(summary.fallbacks, event);
    } else if (event.name == "step") {
      summary.steps.push_back(&event);
    } else if (!event.took_us) {
      summary.notes.push_back(&event);
    }
    summary.swaps += event.name == "swap" ? 1 : 0;
  }
  std::ranges::stable_sort(summary.phases, std::ranges::greater(), &PhaseTotal::total_us);
  std::ranges::stable_sort(summary.fragments, {}, &FragmentRow::hit);
  std::ranges::stable_sort(summary.fallbacks, std::ranges::greater(), &FallbackRow::count);
  std::ranges::stable_sort(summary.steps,
                           [](const TraceEvent* a, const TraceEvent* b) { return a->number("us") > b->number("us"); });
  return summary;
}

std::string to_table(const std::vector<ProcessTrace>& traces) {
  std::string text;
  for (const ProcessTrace& trace : traces) {
    const TraceSummary summary = summary_of(trace);
    text += fmt::format("{}: {:.3f} s{}{}\n  {} hits, {} misses, {} made here, {} swaps\n", trace.title(),
                        static_cast<double>(trace.ended_us - trace.began_us) / 1e6,
                        trace.ended ? "" : ", killed or still running",
                        trace.cut ? "; its last line is cut and was skipped" : "", summary.hits, summary.misses,
                        summary.made, summary.swaps);
    for (const PhaseTotal& phase : summary.phases) {
      text += fmt::format("  {:<20}{:>6} x{:>12.3f} ms, longest {:.3f} ms{}\n", phase.name, phase.count,
                          phase.total_us / 1e3, phase.longest_us / 1e3,
                          phase.failed > 0 ? fmt::format(", {} failed", phase.failed) : "");
    }
    for (const FragmentRow& row : summary.fragments) {
      if (row.outcome() != "miss") continue;
      text += fmt::format("  missed {} x: {} {}: {}\n", row.count, row.fragment, row.name,
                          row.reason.empty() ? row.source : row.reason);
    }
    for (const FallbackRow& row : summary.fallbacks)
      text += fmt::format("  fell back {} x: {} to {}: {}\n", row.count, row.what, row.to, row.reason);
  }
  return text;
}

std::string to_json(const std::vector<ProcessTrace>& traces) {
  Json processes = Json::array();
  for (const ProcessTrace& trace : traces) {
    const TraceSummary summary = summary_of(trace);
    Json one = {
        {"file", trace.file},       {"pid", trace.process},       {"rank", trace.rank ? Json(*trace.rank) : Json()},
        {"program", trace.program}, {"began_us", trace.began_us}, {"ended_us", trace.ended_us},
        {"ended", trace.ended},     {"cut", trace.cut},           {"events", trace.events.size()},
        {"hits", summary.hits},     {"misses", summary.misses},   {"made", summary.made},
        {"swaps", summary.swaps}};
    one["phases"] = one["fragments"] = one["fallbacks"] = one["steps"] = Json::array();
    for (const PhaseTotal& phase : summary.phases) {
      one["phases"].push_back({{"name", phase.name},
                               {"count", phase.count},
                               {"failed", phase.failed},
                               {"total_us", phase.total_us},
                               {"longest_us", phase.longest_us}});
    }
    for (const FragmentRow& row : summary.fragments) {
      one["fragments"].push_back({{"fragment", row.fragment},
                                  {"name", row.name},
                                  {"plan", row.plan},
                                  {"label", row.label},
                                  {"outcome", row.outcome()},
                                  {"source", row.source},
                                  {"reason", row.reason},
                                  {"count", row.count}});
    }
    for (const FallbackRow& row : summary.fallbacks)
      one["fallbacks"].push_back({{"what", row.what}, {"reason", row.reason}, {"to", row.to}, {"count", row.count}});
    for (const TraceEvent* step : summary.steps) one["steps"].push_back(Json(step->fields));
    processes.push_back(std::move(one));
  }
  return Json{{"processes", std::move(processes)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace stitch::cli
