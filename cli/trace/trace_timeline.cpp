#include "cli/trace/trace_timeline.h"

#include <algorithm>

#include "cli/explain/svg.h"

namespace stitch::cli {
namespace {

constexpr std::size_t most_drawn = 1500;
constexpr double axis_width = 1100, lane_height = 20, lanes_top = 26, break_width = 44;

constexpr std::string_view trace_svg_style = R"(
svg.trace{font:11px system-ui,sans-serif;max-width:100%;height:auto}
svg.trace text{fill:var(--ink)}svg.trace .axis{stroke:var(--rule)}svg.trace .moment{stroke:#c2453d;stroke-width:2}
svg.trace .cut{stroke:var(--line);stroke-dasharray:3 3}svg.trace text.soft{fill:var(--soft)}
svg.trace rect{stroke:var(--paper);fill:#8aa0b8}svg.trace .fetch,svg.trace .make{fill:#5b8fd0}
svg.trace .import,svg.trace .capture{fill:#b98ad0}svg.trace .plan{fill:#d0965b}svg.trace .load{fill:#4fa380}
svg.trace .artifact,svg.trace .connect{fill:#7fb7c9}svg.trace .first,svg.trace .run{fill:#c9b13f}
svg.trace .failed{fill:#c2453d}
)";

/// "2.45 ms".
std::string duration(double us) {
  if (us < 1e3) return fmt::format("{:.0f} µs", us);
  return us < 1e6 ? fmt::format("{:.2f} ms", us / 1e3) : fmt::format("{:.2f} s", us / 1e6);
}

/// Times of which nothing is told, cut out of the axis.
class Axis {
 public:
  explicit Axis(const std::vector<const TraceEvent*>& sorted) {
    std::vector<std::pair<std::int64_t, std::int64_t>> busy;
    for (const TraceEvent* event : sorted) {
      if (busy.empty() || event->at_us > busy.back().second) {
        busy.emplace_back(event->at_us, event->end_us());
      } else {
        busy.back().second = std::max(busy.back().second, event->end_us());
      }
    }
    double told = 1;
    for (const auto& [from, to] : busy) told += static_cast<double>(to - from);
    const double longest_gap = 0.1 * told;
    for (const auto& [from, to] : busy) {
      if (!parts_.empty() && static_cast<double>(from - parts_.back().to) <= longest_gap) {
        parts_.back().to = to;
      } else {
        parts_.push_back({from, to});
      }
    }
    double shown = 1;
    for (const Part& part : parts_) shown += static_cast<double>(part.to - part.from);
    const double cuts = break_width * static_cast<double>(parts_.size() - 1);
    scale_ = std::max(axis_width - cuts, axis_width / 2) / shown;
    for (double x = 0; Part & part : parts_) {
      part.x = x;
      x += static_cast<double>(part.to - part.from) * scale_ + break_width;
    }
  }

  [[nodiscard]] double x(std::int64_t at) const {
    const Part* in = &parts_.front();
    for (const Part& part : parts_) {
      if (part.from <= at) in = &part;
    }
    return in->x + static_cast<double>(at - in->from) * scale_;
  }
  [[nodiscard]] double length(std::int64_t us) const { return static_cast<double>(us) * scale_; }
  [[nodiscard]] double end() const { return parts_.back().x + length(parts_.back().to - parts_.back().from); }

  /// The cuts, and the times at which the parts begin.
  [[nodiscard]] std::string marks(double bottom) const {
    std::string svg;
    const std::int64_t first = parts_.front().from;
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      svg += fmt::format("<text class=\"soft\" x=\"{:.1f}\" y=\"10\">{}</text>", parts_[i].x,
                         i == 0 ? "0" : duration(static_cast<double>(parts_[i].from - first)));
      if (i + 1 == parts_.size()) continue;
      const double middle = parts_[i + 1].x - break_width / 2;
      svg += fmt::format(
          "<line class=\"cut\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"14\" y2=\"{1:.1f}\"><title>{2} of which nothing is "
          "told</title></line>",
          middle, bottom, duration(static_cast<double>(parts_[i + 1].from - parts_[i].to)));
    }
    return svg + fmt::format("<text class=\"soft\" x=\"{:.1f}\" y=\"10\">{}</text>", end(),
                             duration(static_cast<double>(parts_.back().to - first)));
  }

 private:
  struct Part {
    std::int64_t from = 0, to = 0;
    double x = 0;
  };
  std::vector<Part> parts_;
  double scale_ = 1;
};

/// What is pointed at says: name, duration, and all that the event has.
std::string tooltip(const TraceEvent& event) {
  std::string text = event.name;
  if (event.took_us) text += ", " + duration(static_cast<double>(*event.took_us));
  for (const auto& [name, value] : event.fields.items()) {
    if (name == "event" || name == "ts" || name == "dur" || name == "tid") continue;
    text += fmt::format("\n{}: {}", name, event.text(name));
  }
  return escape_xml(text);
}

/// The first word of a phase is its class.
std::string class_of(const TraceEvent& event) {
  return event.text("error").empty() ? escape_xml(event.name.substr(0, event.name.find(' '))) : "failed";
}

std::string bar(const TraceEvent& event, const Axis& axis, std::size_t lane) {
  const double x = axis.x(event.at_us), y = lanes_top + lane_height * static_cast<double>(lane);
  const double w = std::max(1.0, axis.length(*event.took_us));
  std::string svg = fmt::format(
      "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"><title>{}</title></rect>",
      class_of(event), x, y, w, lane_height - 2, tooltip(event));
  constexpr double per_letter = 6.5;
  if (w > per_letter * static_cast<double>(event.name.size())) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" pointer-events=\"none\">{}</text>", x + 3, y + 13,
                       escape_xml(event.name));
  }
  return svg;
}

bool is_drawn_moment(const TraceEvent& event) {
  return event.name == "swap" || event.name == "withdrawn" || event.name == "fallback";
}

}  // namespace

std::string timeline_of(const ProcessTrace& trace) {
  std::vector<const TraceEvent*> bars, moments;
  for (const TraceEvent& event : trace.events) {
    if (event.took_us) bars.push_back(&event);
    if (is_drawn_moment(event)) moments.push_back(&event);
  }
  if (bars.empty()) return {};
  const std::size_t all = bars.size();
  if (all > most_drawn) {
    std::ranges::nth_element(bars, bars.begin() + most_drawn,
                             [](const TraceEvent* a, const TraceEvent* b) { return *a->took_us > *b->took_us; });
    bars.resize(most_drawn);
  }
  std::ranges::sort(bars, [](const TraceEvent* a, const TraceEvent* b) {
    return a->at_us != b->at_us ? a->at_us < b->at_us : *a->took_us > *b->took_us;
  });
  std::vector<const TraceEvent*> sorted = bars;
  for (const TraceEvent* moment : moments) sorted.push_back(moment);
  std::ranges::stable_sort(sorted, {}, &TraceEvent::at_us);
  const Axis axis(sorted);

  std::string svg;
  std::vector<std::int64_t> free_from;  // of each lane
  for (const TraceEvent* event : bars) {
    std::size_t lane = 0;
    while (lane < free_from.size() && free_from[lane] > event->at_us) ++lane;
    if (lane == free_from.size()) free_from.push_back(0);
    free_from[lane] = event->end_us();
    svg += bar(*event, axis, lane);
  }
  const double bottom = lanes_top + lane_height * static_cast<double>(free_from.size());
  for (const TraceEvent* moment : moments) {
    svg += fmt::format(
        "<line class=\"moment\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"13\" y2=\"{1:.1f}\"><title>{2}</title></line>",
        axis.x(moment->at_us), lanes_top - 2, tooltip(*moment));
  }
  svg += axis.marks(bottom);
  if (all > most_drawn) {
    svg += fmt::format("<text class=\"soft\" x=\"0\" y=\"{:.1f}\">the {} longest of {} phases are drawn</text>",
                       bottom + 12, most_drawn, all);
  }
  return fmt::format(
      "<svg class=\"trace\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\">{2}</svg>",
      std::max(axis_width, axis.end()) + 60, bottom + 18, svg);
}

std::string_view timeline_style() { return trace_svg_style; }

}  // namespace stitch::cli
