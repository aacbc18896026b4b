#include "cli/trace/chrome_trace.h"

#include <algorithm>

namespace stitch::cli {

using Json = nlohmann::ordered_json;

std::string to_json(const ChromeTrace& trace) {
  Json events = Json::array();
  for (const auto& [process, name] : trace.processes) {
    events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", process}, {"tid", 0}, {"args", {{"name", name}}}});
  }
  std::vector<const ChromeEvent*> sorted;
  for (const ChromeEvent& event : trace.events) sorted.push_back(&event);
  // Of two that begin together the longer one is around the other.
  std::ranges::stable_sort(sorted, [](const ChromeEvent* a, const ChromeEvent* b) {
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->took_us.value_or(0) > b->took_us.value_or(0);
  });
  for (const ChromeEvent* event : sorted) {
    Json one = {{"ph", event->took_us ? "X" : "i"},
                {"name", event->name},
                {"cat", event->category},
                {"ts", event->at_us},
                {"pid", event->process},
                {"tid", event->thread}};
    if (event->took_us) {
      one["dur"] = *event->took_us;
    } else {
      one["s"] = "t";
    }
    one["args"] = event->arguments;
    events.push_back(std::move(one));
  }
  const Json document = {{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}, {"otherData", trace.about}};
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace stitch::cli
