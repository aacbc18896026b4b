#include "client/program_frame.h"

#include <cstring>

#include "client/host/library_call.h"
#include "graph/literal.h"
#include "graph/reference/evaluate.h"

namespace stitch::client {
namespace {

using api::ProgramRegion;
using api::ProgramStep;

void copy_bytes(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, bytes);
}

/// Computes a graph by the float64 reference and rounds its results.
Status run_reference(const graph::Graph& graph, Inputs parameters, Outputs results) {
  std::vector<graph::Tensor> arguments;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const graph::TensorType& type = graph.node(graph.parameters()[i]).type();
    arguments.push_back(graph::tensor_from_bytes(type, graph::Box::whole(type.dims), parameters[i]));
  }
  graph::EvaluateOptions options;
  options.round = true;
  STITCH_ASSIGN(const auto values, graph::evaluate(graph, arguments, options));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::vector<std::byte> bytes = graph::to_bytes(values[i]);
    copy_bytes(results[i].data(), bytes.data(), std::ssize(bytes));
  }
  return {};
}

}  // namespace

Status ProgramFrame::run_region(int index, const std::vector<std::byte*>& parameters,
                                const std::vector<std::byte*>& results, std::byte* arena) {
  const ProgramRegion& region = program_.regions[index];
  Memory memory;
  for (const api::ProgramValue& value : region.values) {
    switch (value.storage) {
      case api::ProgramValue::Storage::parameter: memory.push_back(parameters[value.place]); break;
      case api::ProgramValue::Storage::result: memory.push_back(results[value.place]); break;
      case api::ProgramValue::Storage::arena: memory.push_back(arena + value.place); break;
      case api::ProgramValue::Storage::lent: memory.push_back(results[*value.lender] + value.place); break;
    }
  }
  for (int s = 0; s < std::ssize(region.steps); ++s) {
    const Status status = run_step(index, s, memory);
    if (!status) {
      return status.error().within(
          fmt::format("{}step {} ({})", region.name.empty() ? "" : region.name + ", ", s, region.steps[s].name));
    }
  }
  return {};
}

Status ProgramFrame::run_step(int region, int index, const Memory& memory) {
  const ProgramStep& step = program_.regions[region].steps[index];
  std::vector<std::span<const std::byte>> parameters;
  std::vector<std::span<std::byte>> results;
  const auto bytes = [&](int value) -> std::size_t { return program_.regions[region].values[value].type.bytes(); };
  for (const int value : step.parameters) parameters.emplace_back(memory[value], bytes(value));
  for (const int value : step.results) results.emplace_back(memory[value], bytes(value));
  StepRun run{region, index, step, nullptr, computed_by_(step), parameters, results};
  if (const auto* fragment = std::get_if<api::FragmentStep>(&step.work)) {
    run.graph = &program_.fragments[fragment->fragment].graph;
  } else if (const auto* call = std::get_if<api::LibraryStep>(&step.work)) {
    run.graph = &program_.calls[call->call].graph;
  }
  if (observer_ != nullptr) STITCH_TRY(observer_->before(run));
  STITCH_TRY(run_work(step, run, memory));
  return observer_ != nullptr ? observer_->after(run) : Status();
}

Status ProgramFrame::run_work(const ProgramStep& step, StepRun& run, const Memory& memory) {
  if (run.by == StepBy::reference) return run_reference(*run.graph, run.parameters, run.results);
  if (const auto* fragment = std::get_if<api::FragmentStep>(&step.work))
    return plans_[fragment->fragment]->run(run.parameters, run.results);
  if (std::holds_alternative<api::LibraryStep>(step.work))
    return run_library_call(*run.graph, *blas_, run.parameters, run.results);
  if (const auto* loop = std::get_if<api::LoopStep>(&step.work)) return run_loop(step, *loop, memory, run.region);
  if (const auto* branch = std::get_if<api::BranchStep>(&step.work))
    return run_branch(step, *branch, memory, run.region);
  if (const auto* copied = std::get_if<api::CopyStep>(&step.work)) {
    copy_bytes(run.results[0].data(), run.parameters[0].data(), copied->bytes);
    return {};
  }
  return make_error(ErrorKind::unsupported, "operator '{}'", std::get<api::ForeignStep>(step.work).target);
}

Status ProgramFrame::run_loop(const ProgramStep& step, const api::LoopStep& loop, const Memory& memory, int region) {
  const auto& values = program_.regions[region].values;
  std::byte* const scratch = loop.scratch >= 0 ? memory[loop.scratch] : nullptr;
  std::vector<std::byte*> state, next;  // where the carried values are, and where their next state goes
  for (std::size_t i = 0; i < step.results.size(); ++i) {
    std::byte* const own = memory[step.results[i]];
    std::byte* const spare = loop.spares[i] >= 0 ? memory[loop.spares[i]] : own;
    // Of a known number of turns the last one shall end in the step's own results.
    const bool begins_in_spare = loop.trip_count > 0 && loop.trip_count % 2 == 1;
    state.push_back(begins_in_spare ? spare : own);
    next.push_back(begins_in_spare ? own : spare);
    copy_bytes(state[i], memory[step.parameters[i]], values[step.results[i]].type.bytes());
  }
  for (std::int64_t turn = 0;; ++turn) {
    if (loop.condition >= 0) {
      alignas(buffer_alignment) std::byte truth[buffer_alignment] = {};
      STITCH_TRY(run_region(loop.condition, state, {truth}, scratch));
      if (truth[0] == std::byte{0}) break;
      if (turn >= most_trips_)
        return make_error(ErrorKind::resource_exhausted, "the loop runs more than {} times", most_trips_);
    } else if (turn >= loop.trip_count) {
      break;
    }
    STITCH_TRY(run_region(loop.body, state, next, scratch));
    state.swap(next);
  }
  for (std::size_t i = 0; i < step.results.size(); ++i)
    copy_bytes(memory[step.results[i]], state[i], values[step.results[i]].type.bytes());
  return {};
}

Status ProgramFrame::run_branch(const ProgramStep& step, const api::BranchStep& branch, const Memory& memory,
                                int region) {
  const graph::DType dtype = program_.regions[region].values[step.parameters[0]].type.dtype;
  const std::int64_t selector = graph::load_integer(dtype, memory[step.parameters[0]]);
  const std::int64_t last = std::ssize(branch.regions) - 1;
  std::int64_t chosen = selector >= 0 && selector <= last ? selector : last;
  if (dtype == graph::DType::pred) chosen = selector != 0 ? 0 : 1;
  if (chosen > last) return make_error(ErrorKind::invalid_argument, "there is no branch {}", chosen);
  std::vector<std::byte*> parameters, results;
  for (std::size_t i = 1; i < step.parameters.size(); ++i) parameters.push_back(memory[step.parameters[i]]);
  for (const int value : step.results) results.push_back(memory[value]);
  return run_region(branch.regions[chosen], parameters, results,
                    branch.scratch >= 0 ? memory[branch.scratch] : nullptr);
}

}  // namespace stitch::client
