#include "tuning/plans/plan_builder.h"

#include <algorithm>
#include <map>
#include <set>

#include "costmodel/uncertainty.h"
#include "graph/in_place.h"
#include "kernel/program/traffic.h"
#include "tuning/plans/workspace.h"

namespace stitch::tuning {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Op;
using graph::Value;

/// Where every value of a fragment lives while its plan runs.
class ValuePlaces {
 public:
  ValuePlaces(const Graph& fragment, const std::vector<PlannedLaunch>& launches) : fragment_(fragment) {
    for (std::size_t p = 0; p < fragment.parameters().size(); ++p) {
      places_[{fragment.parameters()[p], 0}] = {api::LaunchArgument::Kind::parameter, static_cast<std::int64_t>(p)};
    }
    for (std::size_t r = 0; r < fragment.results().size(); ++r) {
      places_.try_emplace(fragment.results()[r],
                          api::LaunchArgument{api::LaunchArgument::Kind::result, static_cast<std::int64_t>(r)});
    }
    for (int launch = 0; launch < std::ssize(launches); ++launch) {
      for (const Value value : launches[launch].results) intermediate(value, launch);
      for (const Value value : launches[launch].arguments) {
        if (const auto known = requests_.find(value); known != requests_.end()) known->second.last = launch;
      }
    }
  }

  /// Adds scratch memory of one launch; zeroed scratch keeps its place in all of them.
  void add_scratch(int launch, int number, const codegen::ScratchBuffer& scratch, int launches) {
    WorkspaceRequest request{scratch.bytes, launch, launch};
    if (scratch.zeroed) request = {scratch.bytes, 0, launches - 1};
    scratch_[{launch, number}] = request;
  }

  /// Decides all offsets; call once, after the last add_scratch.
  void lay_out() {
    std::vector<WorkspaceRequest> requests;
    for (const auto& [value, request] : requests_) requests.push_back(request);
    for (const auto& [place, request] : scratch_) requests.push_back(request);
    const WorkspaceLayout layout = lay_out_workspace(requests);
    std::size_t at = 0;
    for (const auto& [value, request] : requests_)
      places_[value] = {api::LaunchArgument::Kind::workspace, layout.offsets[at++]};
    for (const auto& [place, request] : scratch_) scratch_offset_[place] = layout.offsets[at++];
    bytes_ = layout.bytes;
  }

  /// Where a kernel writes a value: never a parameter, which the caller keeps. A parameter that is a result has a
  /// kernel that copies it.
  [[nodiscard]] api::LaunchArgument written_place(Value value) const {
    const api::LaunchArgument known = places_.at(value);
    if (known.kind != api::LaunchArgument::Kind::parameter) return known;
    const auto at = std::find(fragment_.results().begin(), fragment_.results().end(), value);
    return {api::LaunchArgument::Kind::result, at - fragment_.results().begin()};
  }

  [[nodiscard]] bool knows(Value value) const { return places_.contains(value); }
  [[nodiscard]] api::LaunchArgument place(Value value) const { return places_.at(value); }
  [[nodiscard]] std::int64_t scratch_offset(int launch, int number) const {
    return scratch_offset_.at({launch, number});
  }
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  void intermediate(Value value, int launch) {
    if (places_.contains(value) || requests_.contains(value)) return;
    requests_[value] = {fragment_.type(value).bytes(), launch, launch};
  }

  const Graph& fragment_;
  std::map<Value, api::LaunchArgument> places_;
  std::map<Value, WorkspaceRequest> requests_;
  std::map<std::pair<int, int>, WorkspaceRequest> scratch_;
  std::map<std::pair<int, int>, std::int64_t> scratch_offset_;
  std::int64_t bytes_ = 0;
};

api::KernelLaunch launch_of(const PlannedLaunch& planned, int launch, const ValuePlaces& places) {
  const codegen::GeneratedKernel& generated = planned.built->generated;
  api::KernelLaunch result;
  result.cubin = sha256(planned.built->compiled.cubin);
  result.ptx = sha256(planned.built->compiled.ptx);
  result.name = generated.name;
  result.description = planned.description;
  result.blocks = generated.blocks;
  result.threads = generated.threads;
  result.cluster = generated.cluster;
  result.shared_bytes = generated.shared_bytes;
  result.cooperative = generated.cooperative;
  result.dependent = may_depend(*planned.built);
  result.bytes = planned.bytes;
  result.predicted_us = planned.predicted_us;
  result.uncertainty_us = planned.uncertainty_us;
  for (const codegen::Argument& argument : generated.arguments) {
    const std::size_t number = argument.buffer.number;
    if (argument.kind == codegen::Argument::Kind::integer) {
      result.arguments.push_back({api::LaunchArgument::Kind::integer, argument.integer});
    } else if (argument.buffer.kind == kernel::Buffer::Kind::input) {
      result.arguments.push_back(places.place(planned.arguments[number]));
    } else if (argument.buffer.kind == kernel::Buffer::Kind::output) {
      result.arguments.push_back(places.written_place(planned.results[number]));
    } else {
      result.arguments.push_back(
          {api::LaunchArgument::Kind::workspace, places.scratch_offset(launch, argument.buffer.number)});
    }
  }
  return result;
}

/// Whether a launch, or a copy behind all launches, reads a parameter behind launch `at`.
bool is_read_behind(const api::Plan& plan, std::size_t at, std::int64_t parameter) {
  const api::LaunchArgument place{api::LaunchArgument::Kind::parameter, parameter};
  for (std::size_t i = at + 1; i < plan.launches.size(); ++i) {
    if (std::ranges::count(plan.launches[i].arguments, place) > 0) return true;
  }
  return std::ranges::any_of(plan.copies, [&](const api::ResultCopy& copy) { return copy.from == place; });
}

/// What one of the plan's kernels may write where a parameter lies, and nobody reads there any more.
std::vector<api::InPlace> pairs_in_place(const api::Plan& plan, const std::vector<PlannedLaunch>& planned,
                                         const ValuePlaces& places) {
  std::vector<api::InPlace> pairs;
  for (std::size_t at = 0; at < planned.size(); ++at) {
    for (const kernel::InPlace& pair : planned[at].built->generated.in_place) {
      const api::LaunchArgument from = places.place(planned[at].arguments[pair.input]);
      const api::LaunchArgument to = places.written_place(planned[at].results[pair.output]);
      const bool both =
          from.kind == api::LaunchArgument::Kind::parameter && to.kind == api::LaunchArgument::Kind::result;
      if (both && !is_read_behind(plan, at, from.value)) pairs.push_back({from.value, to.value});
    }
  }
  return pairs;
}

}  // namespace

std::string describe_kernel(const Graph& kernel, const kernel::KernelProgram& program) {
  std::map<std::string_view, int> counts;
  for (const graph::Node& node : program.computes(kernel).nodes()) {
    switch (node.op) {
      case Op::parameter:
      case Op::constant:
      case Op::broadcast:
      case Op::reshape:
      case Op::convert: break;
      default: ++counts[graph::to_string(node.op)];
    }
  }
  std::vector<std::pair<int, std::string_view>> frequent;
  for (const auto& [name, count] : counts) frequent.emplace_back(-count, name);
  std::sort(frequent.begin(), frequent.end());
  std::string text;
  for (std::size_t i = 0; i < std::min<std::size_t>(4, frequent.size()); ++i) {
    text += fmt::format("{}{} x{}", i == 0 ? "" : ", ", frequent[i].second, -frequent[i].first);
  }
  if (frequent.size() > 4) text += ", …";
  if (text.empty()) text = "layout change";
  if (program.recurrent != nullptr) text = fmt::format("{} turns of {}", program.recurrent->turns, text);
  const std::int64_t slabs = program.schedule.slabs.count;
  return fmt::format("{} ({} phase{}{})", text, program.phases.size(), program.phases.size() == 1 ? "" : "s",
                     slabs == 1 ? "" : fmt::format(", {} slabs", slabs));
}

Result<api::Plan> build_plan(const Graph& fragment, const search::FusionPlan& fusion,
                             const std::vector<std::shared_ptr<const BuiltKernel>>& kernels) {
  std::vector<PlannedLaunch> launches;
  for (std::size_t at = 0; at < fusion.kernels.size(); ++at) {
    const search::PlannedKernel& planned = fusion.kernels[at];
    const graph::Graph& graph = planned.kernel->graph;
    const search::StitchCandidate& candidate = *kernels[at]->candidate.scheduled;
    launches.push_back(
        {kernels[at].get(), planned.arguments, planned.results, describe_kernel(graph, candidate.program),
         kernel::scheduled_bytes(graph, candidate.program),
         candidate.predicted_us - (at == 0 ? 0 : fusion.dependent_saving_us) - kernels[at]->unwaited_saving_us,
         costmodel::uncertainty_us(candidate.program, candidate.predicted_us)});
  }
  return build_plan(fragment, launches);
}

Result<api::Plan> build_plan(const Graph& fragment, const std::vector<PlannedLaunch>& planned) {
  api::Plan plan;
  for (const NodeId id : fragment.parameters()) plan.parameters.push_back(fragment.node(id).type());
  for (const Value value : fragment.results()) plan.results.push_back(fragment.type(value));
  ValuePlaces places(fragment, planned);
  const int launches = planned.size();
  for (int launch = 0; launch < launches; ++launch) {
    const auto& scratch = planned[launch].built->generated.scratch;
    for (int s = 0; s < std::ssize(scratch); ++s) {
      places.add_scratch(launch, s, scratch[s], launches);
    }
  }
  places.lay_out();
  std::set<Value> written;
  for (int launch = 0; launch < launches; ++launch) {
    const std::size_t at = launch;
    for (const Value value : planned[at].arguments) {
      if (!places.knows(value)) {
        return make_error(ErrorKind::internal, "launch {} reads node {} of the fragment, which no kernel computes",
                          launch, value.node);
      }
    }
    const kernel::UnwaitedInputs unwaited = search::unwaited_inputs(fragment, planned[at].arguments, at);
    if ((planned[at].built->generated.unwaited & ~unwaited) != 0) {
      return make_error(ErrorKind::internal, "launch {} loads before it waits what others may still be writing",
                        launch);
    }
    plan.launches.push_back(launch_of(planned[at], launch, places));
    plan.bytes += plan.launches.back().bytes;
    plan.predicted_us += plan.launches.back().predicted_us;
    plan.uncertainty_us += plan.launches.back().uncertainty_us;
    written.insert(planned[at].results.begin(), planned[at].results.end());
    const auto& scratch = planned[at].built->generated.scratch;
    for (int s = 0; s < std::ssize(scratch); ++s) {
      const codegen::ScratchBuffer& buffer = scratch[s];
      if (buffer.zeroed) plan.zeroed.push_back({places.scratch_offset(launch, s), buffer.bytes});
    }
  }
  for (std::size_t r = 0; r < fragment.results().size(); ++r) {
    const Value value = fragment.results()[r];
    const api::LaunchArgument place = written.contains(value) ? places.written_place(value) : places.place(value);
    const std::int64_t own = r;
    if (fragment.type(value).elements() == 0) continue;  // nothing to write
    if (const auto updated = graph::updated_parameter(fragment, value)) {
      const api::LaunchArgument parameter{api::LaunchArgument::Kind::parameter, static_cast<std::int64_t>(*updated)};
      plan.copies.push_back({parameter, own, fragment.type(value).bytes(), true});
    }
    if (place == api::LaunchArgument{api::LaunchArgument::Kind::result, own}) {
      if (!written.contains(value)) {
        return make_error(ErrorKind::internal, "no kernel of the plan computes result {} (node {})", r, value.node);
      }
      continue;
    }
    plan.copies.push_back({place, own, fragment.type(value).bytes(), false});
  }
  plan.workspace_bytes = places.bytes();
  plan.in_place = pairs_in_place(plan, planned, places);
  return plan;
}

}  // namespace stitch::tuning
