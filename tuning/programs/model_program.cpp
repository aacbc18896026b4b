#include "tuning/programs/model_program.h"

#include <set>

#include "graph/simplify.h"
#include "profiler/verify/input_source.h"
#include "tuning/plans/plan_record.h"
#include "tuning/programs/program_builder.h"

namespace stitch::tuning {
namespace {

/// What integers of the inputs must keep to: as the source tells it, or as the graph uses them.
void give_ranges(const import::Imported& model, api::Program& program) {
  const auto needed = profiler::integer_ranges(model.graph);
  for (std::size_t p = 0; p < program.parameters.size(); ++p) {
    api::ProgramPort& port = program.parameters[p];
    if (p < needed.size() && needed[p]) {
      port.low = needed[p]->low;
      port.high = needed[p]->high;
    }
    for (const import::ParameterRange& range : model.ranges) {
      if (range.parameter != static_cast<std::int64_t>(p)) continue;
      port.low = range.low;
      port.high = range.high;
    }
  }
}

void give_names(const std::vector<std::string>& names, std::vector<api::ProgramPort>& ports) {
  for (std::size_t i = 0; i < ports.size() && i < names.size(); ++i) ports[i].name = names[i];
}

}  // namespace

Result<api::Program> outline_program(import::Imported model, const Tuner& tuner, const ProgramRequest& request) {
  STITCH_TRY(graph::simplify(model.graph));
  const ProgramOptions options{[&](const graph::Graph& loop) { return tuner.runs_in_one_kernel(loop); },
                               model.graph.constraints};
  STITCH_ASSIGN(api::Program program, build_program(model.graph, options));
  give_names(model.parameters, program.parameters);
  give_names(model.results, program.results);
  give_ranges(model, program);
  program.model = request.name;
  program.source = request.source;
  program.target = to_wire(tuner.target());
  program.id = api::identity_of(program);
  return program;
}

Status plan_program(const Tuner& tuner, const ProgramRequest& request, api::Program& program) {
  std::set<Sha256> known;
  for (const api::ProgramArtifact& artifact : program.artifacts) known.insert(artifact.hash);
  for (std::size_t f = 0; f < program.fragments.size(); ++f) {
    api::ProgramFragment& fragment = program.fragments[f];
    const std::string title = fmt::format("fragment {} of {}", f + 1, program.fragments.size());
    if (request.progress) request.progress({"plan", 1.0 * f / program.fragments.size(), title});
    const PlanRequest wanted{.fragment = fragment.graph, .name = request.name, .stop = request.stop};
    Result<TunedFragment> tuned = request.tunes ? tuner.tune(wanted) : tuner.predict(wanted);
    if (request.stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while planning {}", title);
    if (!tuned) {
      fragment.plan.reset();
      fragment.why_none = tuned.error().message;
      continue;
    }
    fragment.plan = std::move(tuned->plan);
    fragment.why_none.clear();
    for (db::Artifact& artifact : tuned->bundle.artifacts) {
      if (known.insert(artifact.hash).second) program.artifacts.push_back({artifact.hash, std::move(artifact.bytes)});
    }
  }
  if (request.progress) request.progress({"plan", 1, ""});
  return {};
}

}  // namespace stitch::tuning
