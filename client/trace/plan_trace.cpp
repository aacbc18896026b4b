#include "client/trace/plan_trace.h"

#include <fmt/ranges.h>

#include <utility>

#include "base/tally.h"

namespace stitch::client {
namespace {

std::string why_missed(const api::LookupAnswer& answer) {
  if (!answer.closest_plan) return "nothing of its family was stored";
  return fmt::format("the nearest, plan {}, differs in {}", answer.closest_plan->hex(),
                     fmt::join(answer.differed, ", "));
}

std::string_view source_of(const api::LookupAnswer& answer) {
  switch (answer.source) {
    case api::LookupAnswer::Source::store: return answer.made_by ? "stale" : "store";
    case api::LookupAnswer::Source::predicted: return "predicted";
    case api::LookupAnswer::Source::pending: break;
  }
  return "pending";
}

}  // namespace

void note_answer(trace::Phase& phase, const Result<api::LookupAnswer>& answer, std::string_view name) {
  if (!answer) {
    tally::miss("", name, answer.error().message, "");
    phase.add({"hit", false});
    phase.add({"reason", answer.error().message});
    return;
  }
  const bool hit = answer->source == api::LookupAnswer::Source::store;
  tally::plan(source_of(*answer), answer->plan ? std::string_view(answer->plan->label) : std::string_view());
  if (!hit) tally::miss(answer->fragment.hex(), name, why_missed(*answer), source_of(*answer));
  if (!trace::enabled()) return;
  phase.add({"fragment", answer->fragment.hex()});
  phase.add({"hit", hit});
  phase.add({"source", source_of(*answer)});
  if (!hit) phase.add({"reason", why_missed(*answer)});
  if (answer->made_by)
    phase.add({"reason", fmt::format("made by another environment: {}", fmt::join(answer->differed, ", "))});
  if (answer->job) phase.add({"job", *answer->job});
  if (!answer->plan) return;
  phase.add({"plan", answer->plan->id.hex()});
  phase.add({"label", answer->plan->label});
  phase.add({"launches", answer->plan->launches.size()});
}

std::string name_in_trace(const graph::Graph& fragment, const std::string& name) {
  if (!name.empty()) return name;
  constexpr int most = 3;
  std::string text;
  int operators = 0;
  for (const graph::Node& node : fragment.nodes()) {
    if (node.op == graph::Op::parameter || node.op == graph::Op::constant) continue;
    if (++operators <= most) text += fmt::format("{}{}", text.empty() ? "" : ", ", to_string(node.op));
  }
  return operators <= most ? text : fmt::format("{} and {} more", text, operators - most);
}

void trace_plans(const api::Program& program, std::string_view source) {
  for (const api::ProgramFragment& fragment : program.fragments) {
    if (!fragment.plan) continue;
    tally::plan(source, fragment.plan->label);
    if (!trace::enabled()) continue;
    trace::event("fragment", {{"fragment", fragment.key.hex()},
                              {"name", program.model},
                              {"hit", source != "made"},
                              {"source", source},
                              {"plan", fragment.plan->id.hex()},
                              {"label", fragment.plan->label},
                              {"launches", fragment.plan->launches.size()},
                              {"occurrences", fragment.occurrences}});
  }
}

void trace_missing(const api::Program& program) {
  for (const api::ProgramFragment& fragment : program.fragments) {
    if (fragment.plan) continue;
    tally::miss(fragment.key.hex(), program.model, fragment.why_none, "");
    if (!trace::enabled()) continue;
    trace::event(
        "fragment",
        {{"fragment", fragment.key.hex()}, {"name", program.model}, {"hit", false}, {"reason", fragment.why_none}});
  }
}

void trace_fallback(std::string_view what, std::string_view reason, std::string_view to, std::string_view model) {
  tally::fell_back(what, reason, to, model);
  trace::event("fallback", {{"what", what}, {"reason", reason}, {"to", to}, {"where", model}});
}

Result<api::Submitted> traced(std::string_view name, Result<api::Submitted> submitted) {
  if (submitted) {
    tally::count("jobs");
    trace::event(
        "tuning",
        {{"name", name}, {"job", submitted->job}, {"joined", submitted->joined}, {"subject", submitted->subject}});
  } else {
    trace::event("tuning", {{"name", name}, {"error", submitted.error().message}});
  }
  return submitted;
}

std::optional<trace::Phase> first_launch(bool& launched, const Hash128& of, std::string_view on) {
  if (launched) return std::nullopt;
  launched = true;
  return std::optional<trace::Phase>(std::in_place, "first launch",
                                     std::initializer_list<trace::Field>{{"of", of.hex()}, {"on", on}});
}

}  // namespace stitch::client
