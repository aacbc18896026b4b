#include "client/device_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace stitch::client {
namespace {

using api::ProgramRegion;
using api::ProgramStep;
using Base = DevicePlace::Base;
using Places = std::vector<DevicePlace>;
using Steps = std::vector<DeviceStep>;

/// Follows a program's regions as ProgramFrame does, and notes what is to be done where it does it.
class Unfolding {
 public:
  Unfolding(const api::Program& program, const std::vector<DeviceCall>& calls) : program_(program), calls_(calls) {}

  Result<Steps> unfold() {
    Places inputs, outputs;
    for (std::size_t i = 0; i < program_.parameters.size(); ++i)
      inputs.push_back({Base::input, static_cast<std::int64_t>(i), 0});
    for (std::size_t i = 0; i < program_.results.size(); ++i)
      outputs.push_back({Base::output, static_cast<std::int64_t>(i), 0});
    Steps steps;
    add_region(0, inputs, outputs, {}, steps);
    if (refused_ == 0 && (noted_ > most_operations || count_operations(steps, program_, calls_) > most_operations)) {
      return make_error(ErrorKind::unsupported, "one run has more than {} kernels, library calls and copies",
                        most_operations);
    }
    if (refused_ == 0) return steps;
    return make_error(ErrorKind::unsupported, "{}{}", first_, refused_ > 1 ? " (and there are others)" : "");
  }

 private:
  void add_region(int index, const Places& parameters, const Places& results, DevicePlace arena, Steps& steps) {
    const ProgramRegion& region = program_.regions[index];
    Places memory;
    for (const api::ProgramValue& value : region.values) {
      switch (value.storage) {
        case api::ProgramValue::Storage::parameter: memory.push_back(parameters[value.place]); break;
        case api::ProgramValue::Storage::result: memory.push_back(results[value.place]); break;
        case api::ProgramValue::Storage::arena: memory.push_back(arena.behind(value.place)); break;
        case api::ProgramValue::Storage::lent: memory.push_back(results[*value.lender].behind(value.place)); break;
      }
    }
    for (std::size_t s = 0; s < region.steps.size(); ++s) {
      if (++noted_ > most_operations) return;  // bodies of loops within loops, each twice
      place_ = fmt::format("{}step {} ({})", region.name.empty() ? "" : region.name + ", ", s, region.steps[s].name);
      number_ = s;
      add_step(region, region.steps[s], memory, steps);
    }
  }

  void add_step(const ProgramRegion& region, const ProgramStep& step, const Places& memory, Steps& steps) {
    if (const auto* fragment = std::get_if<api::FragmentStep>(&step.work)) {
      add_plan(*fragment, step, memory, steps);
    } else if (const auto* copied = std::get_if<api::CopyStep>(&step.work)) {
      add_copy(memory[step.results[0]], memory[step.parameters[0]], copied->bytes, steps);
    } else if (const auto* loop = std::get_if<api::LoopStep>(&step.work)) {
      add_loop(region, step, *loop, memory, steps);
    } else if (const auto* call = std::get_if<api::LibraryStep>(&step.work)) {
      add_call(*call, step, memory, steps);
    } else if (const auto* foreign = std::get_if<api::ForeignStep>(&step.work)) {
      refuse(fmt::format("operator '{}' is nobody's to run here", foreign->target));
    } else {
      refuse("which branch runs is a value in device memory, which nobody on the stream looks at");
    }
  }

  void add_plan(const api::FragmentStep& fragment, const ProgramStep& step, const Places& memory, Steps& steps) {
    const api::ProgramFragment& of = program_.fragments[fragment.fragment];
    if (!of.plan) {
      const std::string& why = of.why_none;
      return refuse(fmt::format("the fragment has no plan{}{}", why.empty() ? "" : ": ", why));
    }
    PlanStep work{fragment.fragment, {}, {}, {}, {}};
    for (const int value : step.parameters) work.parameters.push_back(memory[value]);
    for (const int value : step.results) work.results.push_back(memory[value]);
    work.from.resize(work.parameters.size());
    work.to.resize(work.results.size());
    steps.push_back({place_, number_, step.bytes + of.plan->bytes, std::move(work)});
  }

  void add_call(const api::LibraryStep& call, const ProgramStep& step, const Places& memory, Steps& steps) {
    if (const Status& covered = calls_[call.call].covered; !covered) {
      return refuse(
          fmt::format("{} is a library's call: {}", program_.calls[call.call].description, covered.error().message));
    }
    if (calls_[call.call].launches == 0) return;  // of nothing
    CallStep work{call.call, {}, memory[step.results[0]], {}};
    for (const int value : step.parameters) work.parameters.push_back(memory[value]);
    work.from.resize(work.parameters.size());
    steps.push_back({place_, number_, step.bytes, std::move(work)});
  }

  void add_copy(DevicePlace to, DevicePlace from, std::int64_t bytes, Steps& steps) {
    if (to != from && bytes > 0) steps.push_back({place_, number_, 2 * bytes, DeviceCopy{to, from, bytes}});
  }

  void add_loop(const ProgramRegion& region, const ProgramStep& step, const api::LoopStep& loop, const Places& memory,
                Steps& steps) {
    if (loop.condition >= 0)
      return refuse("the loop ends by a value in device memory, which nobody on the stream looks at");
    const std::string place = place_;
    const std::size_t number = number_;
    const auto bytes = [&](std::size_t i) { return region.values[step.results[i]].type.bytes(); };
    Places state, next;  // where the carried values are, and where their next state goes
    for (std::size_t i = 0; i < step.results.size(); ++i) {
      const DevicePlace own = memory[step.results[i]];
      const DevicePlace spare = loop.spares[i] >= 0 ? memory[loop.spares[i]] : own;
      // The last turn shall end in the step's own results.
      const bool begins_in_spare = loop.trip_count % 2 == 1;
      state.push_back(begins_in_spare ? spare : own);
      next.push_back(begins_in_spare ? own : spare);
      add_copy(state[i], memory[step.parameters[i]], bytes(i), steps);
    }
    const DevicePlace scratch = loop.scratch >= 0 ? memory[loop.scratch] : DevicePlace{};
    TurnsStep turns;
    turns.turns = loop.trip_count;
    if (loop.trip_count > 0) add_region(loop.body, state, next, scratch, turns.even);
    if (loop.trip_count > 1) add_region(loop.body, next, state, scratch, turns.odd);
    if (loop.trip_count > 0) steps.push_back({place, number, 0, std::move(turns)});
  }

  void refuse(const std::string& why) {
    if (refused_++ == 0) first_ = place_ + ": " + why;
  }

  const api::Program& program_;
  const std::vector<DeviceCall>& calls_;
  std::string place_;  ///< of the step that is looked at
  std::size_t number_ = 0;
  std::string first_;  ///< what is said of the first step that no stream can take
  int refused_ = 0;
  std::int64_t noted_ = 0;
};

}  // namespace

std::string_view kind_of(const DeviceStep& step) {
  constexpr std::array<std::string_view, 4> kinds = {"fragment", "library", "copy", "loop"};
  static_assert(std::variant_size_v<decltype(step.work)> == kinds.size());
  return kinds[step.work.index()];
}

std::int64_t bytes_of(const DeviceStep& step) {
  std::int64_t bytes = step.bytes;
  if (const auto* turns = std::get_if<TurnsStep>(&step.work)) {
    for (const DeviceStep& inner : turns->even) bytes += (turns->turns + 1) / 2 * bytes_of(inner);
    for (const DeviceStep& inner : turns->odd) bytes += turns->turns / 2 * bytes_of(inner);
  }
  return bytes;
}

Result<std::vector<DeviceStep>> device_steps(const api::Program& program, const std::vector<DeviceCall>& calls) {
  return Unfolding(program, calls).unfold();
}

std::int64_t count_operations(std::span<const DeviceStep> steps, const api::Program& program,
                              const std::vector<DeviceCall>& calls) {
  std::int64_t count = 0;
  for (const DeviceStep& step : steps) {
    if (const auto* work = std::get_if<PlanStep>(&step.work)) {
      const api::Plan& plan = *program.fragments[work->fragment].plan;
      count += std::ssize(plan.launches) + std::ssize(plan.copies);
    } else if (const auto* call = std::get_if<CallStep>(&step.work)) {
      count += calls[call->call].launches;
    } else if (const auto* turns = std::get_if<TurnsStep>(&step.work)) {
      const std::int64_t even = count_operations(turns->even, program, calls);
      const std::int64_t odd = count_operations(turns->odd, program, calls);
      // As far as anybody asks, and without overflow.
      const std::int64_t most_turns = 2 * most_operations / std::max<std::int64_t>(1, even + odd) + 2;
      const std::int64_t number = std::min(turns->turns, most_turns);
      count += (number + 1) / 2 * even + number / 2 * odd;
    } else {
      ++count;
    }
    if (count > most_operations) break;
  }
  return count;
}

}  // namespace stitch::client
