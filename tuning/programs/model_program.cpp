#include "tuning/programs/model_program.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "graph/canonical.h"
#include "graph/f32_products.h"
#include "graph/passes/attention/attention_gradients.h"
#include "graph/simplify.h"
#include "profiler/verify/input_source.h"
#include "tuning/plans/plan_record.h"
#include "tuning/programs/locked_plan.h"
#include "tuning/programs/product_choices.h"
#include "tuning/programs/program_builder.h"
#include "tuning/programs/winograd_choice.h"

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

Result<api::Program> outline_program(import::Imported model, const Tuner& tuner, const ProgramRequest& request,
                                     ProductChoices& choices) {
  STITCH_TRY(graph::simplify(model.graph, {.stop = request.stop}));
  STITCH_TRY(write_winograd(model.graph, tuner, request.products, request.stop));
  if (tuner.has_products(request.products)) STITCH_TRY(graph::simplify_attention_gradients(model.graph, {}));
  const ProgramOptions options{
      [&](const graph::Graph& loop) { return tuner.runs_in_one_kernel(loop, request.stop); },
      [&](const graph::Graph& call, bool rest_apart) { return choices.is_ours(call, rest_apart); },
      model.graph.constraints,
      // Kernels of ours read and write any layout for nothing.
      !tuner.has_products(request.products)};
  STITCH_ASSIGN(api::Program program, build_program(model.graph, options));
  if (request.stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while the program was outlined");
  give_names(model.parameters, program.parameters);
  give_names(model.results, program.results);
  give_ranges(model, program);
  program.model = request.name;
  program.source = request.source;
  program.target = to_wire(tuner.target());
  program.id = api::identity_of(program);
  return program;
}

Result<api::Program> outline_program(import::Imported model, const Tuner& tuner, const ProgramRequest& request,
                                     const std::set<Hash128>& left) {
  ProductChoices choices(tuner, request.memory, request.products, request.tunes, request.stop);
  for (const Hash128& product : left) choices.leave(product);
  return outline_program(std::move(model), tuner, request, choices);
}

namespace {

/// The code of a program, each once.
class CodeSet {
 public:
  explicit CodeSet(api::Program& program) : program_(program) {
    for (const api::ProgramArtifact& artifact : program.artifacts) known_.insert(artifact.hash);
  }
  void add(const Sha256& hash, std::string bytes) {
    if (known_.insert(hash).second) program_.artifacts.push_back({hash, std::move(bytes)});
  }

 private:
  api::Program& program_;
  std::set<Sha256> known_;
};

void give_plan(ServedPlan served, api::ProgramFragment& fragment, CodeSet& code) {
  for (std::size_t i = 0; i < served.images.size(); ++i) {
    const api::KernelLaunch& launch = served.plan.launches[i];
    code.add(launch.cubin, std::move(served.images[i].cubin));
    code.add(launch.ptx, std::move(served.images[i].ptx));
  }
  fragment.plan = std::move(served.plan);
  fragment.why_none.clear();
}

/// Gives the fragment the plan that the memory serves. False: it serves none that will do.
Result<bool> recall(const RememberingTuner& memory, bool settled, api::ProgramFragment& fragment, CodeSet& code) {
  STITCH_ASSIGN(std::optional<ServedPlan> served, memory.served(fragment.key));
  if (!served || (settled && !memory.is_settled(served->plan))) return false;
  give_plan(*std::move(served), fragment, code);
  return true;
}

Result<TunedFragment> make_plan(const Tuner& tuner, RememberingTuner* memory, const ProgramRequest& request,
                                const graph::Graph& fragment) {
  const PlanRequest wanted{.fragment = fragment, .name = request.name, .stop = request.stop};
  if (memory == nullptr) return request.tunes ? tuner.tune(wanted) : tuner.predict(wanted);
  return request.tunes ? memory->tune(wanted) : memory->predict(wanted);
}

/// The memory, where what it has under the fragment's key is this fragment.
Result<RememberingTuner*> memory_of(const ProgramRequest& request, const api::ProgramFragment& fragment) {
  if (request.memory == nullptr) return nullptr;
  STITCH_ASSIGN(const bool same, request.memory->is_stored_as(fragment.key, fragment.graph));
  return same ? request.memory : nullptr;
}

/// Gives the fragment the plan that is locked for it, whichever it had.
Status give_locked_plan(const Tuner& tuner, const ProgramRequest& request, const api::LockedFragment& locked,
                        api::ProgramFragment& fragment, CodeSet& code) {
  if (!locked.plan) {
    fragment.plan.reset();
    fragment.why_none = "the lock has no plan for it";
    return {};
  }
  if (fragment.plan && fragment.plan->id == *locked.plan) return {};
  STITCH_ASSIGN(RememberingTuner* const memory, memory_of(request, fragment));
  STITCH_ASSIGN(ServedPlan plan, locked_plan({tuner, memory, request.stop}, locked, fragment.graph));
  give_plan(std::move(plan), fragment, code);
  return {};
}

/// Whether a fragment is in the place of library calls: no other has a product.
bool multiplies(const graph::Graph& fragment) {
  return std::ranges::any_of(fragment.nodes(), graph::is_contraction, &graph::Node::op);
}

/// What an earlier outline of the same model has plans for keeps them; so does what has none.
void take_plans(api::Program& from, api::Program& program) {
  std::map<Hash128, api::ProgramFragment*> planned;
  for (api::ProgramFragment& fragment : from.fragments) {
    planned.emplace(fragment.key, &fragment);
  }
  std::set<Sha256> needed;
  for (api::ProgramFragment& fragment : program.fragments) {
    const auto found = planned.find(fragment.key);
    if (found == planned.end()) continue;
    fragment.plan = std::move(found->second->plan);
    fragment.why_none = std::move(found->second->why_none);
    if (!fragment.plan) continue;
    for (const api::KernelLaunch& launch : fragment.plan->launches) needed.insert({launch.cubin, launch.ptx});
  }
  for (api::ProgramArtifact& artifact : from.artifacts) {
    if (needed.contains(artifact.hash)) program.artifacts.push_back(std::move(artifact));
  }
}

}  // namespace

Status plan_program(const Tuner& tuner, const ProgramRequest& request, api::Program& program) {
  CodeSet code(program);
  const api::LockedProgram* const locked = api::locked_in(request.lock, program);
  for (std::size_t f = 0; f < program.fragments.size(); ++f) {
    api::ProgramFragment& fragment = program.fragments[f];
    const std::string title = fmt::format("fragment {} of {}", f + 1, program.fragments.size());
    if (request.progress) request.progress({"plan", 1.0 * f / program.fragments.size(), title});
    if (const auto* of = locked == nullptr ? nullptr : api::fragment_in(*locked, fragment.key)) {
      STITCH_TRY(give_locked_plan(tuner, request, *of, fragment, code));
      continue;
    }
    if (fragment.plan || !fragment.why_none.empty()) continue;
    STITCH_ASSIGN(RememberingTuner* const memory, memory_of(request, fragment));
    if (memory != nullptr) {
      STITCH_ASSIGN(const bool recalled, recall(*memory, request.tunes, fragment, code));
      if (recalled) continue;
    }
    if (!request.makes) {
      fragment.why_none = "no plan is stored for it";
      continue;
    }
    Result<TunedFragment> tuned = make_plan(tuner, memory, request, fragment.graph);
    if (request.stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while planning {}", title);
    if (!tuned) {
      fragment.plan.reset();
      fragment.why_none = tuned.error().message;
      continue;
    }
    if (memory != nullptr) {
      STITCH_TRY(memory->keep(*tuned));
      // What is served may still be an earlier plan, and has its promotion's number.
      STITCH_ASSIGN(const bool kept, recall(*memory, false, fragment, code));
      if (kept) continue;
    }
    fragment.plan = std::move(tuned->plan);
    fragment.why_none.clear();
    for (db::Artifact& artifact : tuned->bundle.artifacts) code.add(artifact.hash, std::move(artifact.bytes));
  }
  if (request.progress) request.progress({"plan", 1, ""});
  return {};
}

Result<api::Program> make_program(const import::Imported& model, const Tuner& tuner, const ProgramRequest& request) {
  const bool wants_all = request.makes && request.lock.empty();
  ProductChoices choices(tuner, request.memory, request.products, request.tunes && wants_all, request.stop);
  STITCH_ASSIGN(api::Program program, outline_program(model, tuner, request, choices));
  if (!request.lock.empty() && api::locked_in(request.lock, program) == nullptr) {
    // It may have been locked before anything was measured.
    ProductChoices predicted(tuner, nullptr, request.products, false, request.stop);
    STITCH_ASSIGN(api::Program before, outline_program(model, tuner, request, predicted));
    if (api::locked_in(request.lock, before) != nullptr) program = std::move(before);
  }
  while (true) {
    STITCH_TRY(plan_program(tuner, request, program));
    const auto is_lost = [](const auto& each) { return !each.plan && !multiplies(each.graph); };
    if (wants_all && graph::by_winograd(model.graph.constraints) && std::ranges::any_of(program.fragments, is_lost)) {
      // Perhaps a transform: whoever cannot have it does without.
      import::Imported direct = model;
      direct.graph.constraints.winograd = false;
      return make_program(direct, tuner, request);
    }
    STITCH_ASSIGN(const bool again, choices.settle(program, request.progress));
    if (!again) return program;
    STITCH_ASSIGN(api::Program next, outline_program(model, tuner, request, choices));
    take_plans(program, next);
    program = std::move(next);
  }
}

}  // namespace stitch::tuning
