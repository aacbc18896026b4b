#include "cli/run/step_trace.h"

#include "base/trace.h"

namespace stitch::cli {
namespace {

using Json = nlohmann::ordered_json;

Json arguments_of(const api::Program& program, const api::ProgramStep& step) {
  Json json = {{"bytes", step.bytes}};
  if (const auto* work = std::get_if<api::FragmentStep>(&step.work)) {
    const api::ProgramFragment& fragment = program.fragments[work->fragment];
    json["fragment"] = fragment.key.hex();
    if (fragment.plan) {
      json["plan"] = fragment.plan->id.hex();
      json["label"] = fragment.plan->label;
      json["launches"] = fragment.plan->launches.size();
      json["bytes"] = fragment.plan->bytes;
    }
  }
  if (const auto* work = std::get_if<api::LibraryStep>(&step.work))
    json["call"] = program.calls[work->call].description;
  return json;
}

std::string name_of(const api::ProgramStep& step, std::size_t index) {
  const std::string what = step.name.empty() ? std::string(api::kind_of(step)) : step.name;
  return fmt::format("{} {}", index, what);
}

ChromeTrace begun(const api::Program& program, std::string_view on, std::string_view clock) {
  ChromeTrace trace;
  trace.processes[1] = fmt::format("{} on {} ({})", program.model, on, clock);
  trace.about = {{"model", program.model}, {"program", program.id.hex()}, {"on", on}, {"clock", clock}};
  return trace;
}

}  // namespace

Status StepTrace::before(const client::StepRun& run) {
  const auto from = static_cast<double>(trace::now_us());
  const Status status = next_.before(run);
  const auto now = static_cast<double>(trace::now_us());
  aside_us_ += now - from;
  begun_.push_back(now - aside_us_);
  return status;
}

Status StepTrace::after(const client::StepRun& run) {
  const auto now = static_cast<double>(trace::now_us());
  ChromeEvent event;
  event.name = name_of(run.step, run.index);
  event.category = api::kind_of(run.step);
  event.at_us = begun_.back();
  event.took_us = now - aside_us_ - event.at_us;
  event.arguments = arguments_of(program_, run.step);
  event.arguments["by"] = to_string(run.by);
  if (const std::string& region = program_.regions[run.region].name; !region.empty())
    event.arguments["region"] = region;
  begun_.pop_back();
  events_.push_back(std::move(event));
  const Status status = next_.after(run);
  aside_us_ += static_cast<double>(trace::now_us()) - now;
  return status;
}

ChromeTrace StepTrace::trace(std::string_view on) const {
  ChromeTrace trace = begun(program_, on, "host time, no GPU's");
  trace.events = events_;
  double first = events_.empty() ? 0 : events_.front().at_us;
  for (const ChromeEvent& event : trace.events) first = std::min(first, event.at_us);
  for (ChromeEvent& event : trace.events) event.at_us -= first;
  return trace;
}

ChromeTrace trace_of(const api::Program& program, const client::ProgramTime& time, std::string_view on) {
  const bool timed = std::ranges::all_of(time.steps, [](const auto& step) { return step.microseconds.has_value(); });
  ChromeTrace trace = begun(program, on, timed ? "the GPU's events" : "none: the emulated driver has no times");
  if (time.replay_us) trace.about["replay_us"] = *time.replay_us;
  double at = 0;
  for (const client::StepTime& step : time.steps) {
    const api::ProgramStep& of = program.regions[0].steps[step.number];
    ChromeEvent event;
    event.name = name_of(of, step.number);
    event.category = step.kind;
    event.at_us = at;
    event.took_us = step.microseconds;
    event.arguments = arguments_of(program, of);
    event.arguments["place"] = step.place;
    event.arguments["operations"] = step.operations;
    at += step.microseconds.value_or(1);  // moments stand in their order
    trace.events.push_back(std::move(event));
  }
  return trace;
}

}  // namespace stitch::cli
