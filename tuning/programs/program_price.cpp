#include "tuning/programs/program_price.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "kernel/structure/kernel_graph.h"

namespace stitch::tuning {
namespace {

void add(ProgramPrice& to, const ProgramPrice& price, double times) {
  to.launches += times * price.launches;
  to.library_calls += times * price.library_calls;
  to.foreign_steps += times * price.foreign_steps;
  to.bytes += times * price.bytes;
  to.library_bytes += times * price.library_bytes;
  to.us += times * price.us;
  to.library_us += times * price.library_us;
  to.dependent_launches += times * price.dependent_launches;
  to.saved_us += times * price.saved_us;
  to.unpriced_calls += times * price.unpriced_calls;
  for (const auto& [fragment, runs] : price.fragment_runs) to.fragment_runs[fragment] += times * runs;
  for (const auto& [call, runs] : price.call_runs) to.call_runs[call] += times * runs;
  to.copies += times * price.copies;
}

double bytes_of(const graph::Graph& graph) { return static_cast<double>(kernel::least_bytes(graph)); }

class Pricing {
 public:
  Pricing(const api::Program& program, const Tuner& tuner, const std::stop_token& stop, const FragmentPlanned& planned,
          const KnownKernel& known)
      : program_(program),
        tuner_(tuner),
        stop_(stop),
        planned_(planned),
        known_(known),
        fragments_(program.fragments.size()),
        calls_(program.calls.size()) {}

  Result<ProgramPrice> of_region(int region) {
    STITCH_ASSIGN(const auto steps, of_steps(region));
    return sum_of(steps);
  }

  Result<std::vector<ProgramPrice>> of_steps(int region) {
    std::vector<ProgramPrice> steps;
    bool behind_kernel = false;  // what a region's first step stands behind is not looked for
    for (const api::ProgramStep& step : program_.regions[region].steps) {
      STITCH_ASSIGN(ProgramPrice price, of_step(step));
      const bool kernels = std::holds_alternative<api::FragmentStep>(step.work) && price.launches > 0;
      if (kernels && behind_kernel) depend(price, 1);
      behind_kernel = kernels || (behind_kernel && std::holds_alternative<api::FragmentStep>(step.work));
      steps.push_back(price);
    }
    return steps;
  }

 private:
  /// So many of its kernels are launched dependent.
  void depend(ProgramPrice& price, double launches) const {
    const double saving = launches * tuner_.scorer().device().dependent_saving_us();
    if (saving == 0) return;
    price.dependent_launches += launches;
    price.saved_us += saving;
    price.us -= saving;
  }

  Result<ProgramPrice> of_step(const api::ProgramStep& step) {
    if (stop_.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while pricing '{}'", step.name);
    if (const auto* fragment = std::get_if<api::FragmentStep>(&step.work)) {
      auto price = of_fragment(fragment->fragment);
      return price ? std::move(price) : price.error().within(step.name);
    }
    if (const auto* call = std::get_if<api::LibraryStep>(&step.work)) return of_call(call->call);
    if (const auto* loop = std::get_if<api::LoopStep>(&step.work)) return of_loop(*loop);
    if (const auto* branch = std::get_if<api::BranchStep>(&step.work)) return of_branch(*branch);
    ProgramPrice price;
    if (const auto* copy = std::get_if<api::CopyStep>(&step.work)) {
      price.launches = price.copies = 1;
      price.bytes = 2.0 * static_cast<double>(copy->bytes);
      price.us = tuner_.copy_us(price.bytes);
    } else {
      price.foreign_steps = 1;
    }
    return price;
  }

  Result<ProgramPrice> of_fragment(int number) {
    if (fragments_[number]) return *fragments_[number];
    const graph::Graph& graph = program_.fragments[number].graph;
    ProgramPrice price;
    if (const std::optional<double> us = kernel_us(number)) {
      price = {.launches = 1, .bytes = bytes_of(graph), .us = *us};
    } else {
      STITCH_ASSIGN(const search::FusionPlan plan, tuner_.explore(graph, stop_));
      price = {.launches = static_cast<double>(plan.kernels.size()),
               .bytes = static_cast<double>(search::plan_bytes(plan)),
               .us = plan.predicted_us};
      // They are in the plan's time.
      if (plan.dependent_saving_us > 0) price.dependent_launches = static_cast<double>(plan.dependent_launches());
      price.saved_us = price.dependent_launches * plan.dependent_saving_us + plan.unwaited_saving_us;
      if (planned_) planned_(number, plan);
    }
    price.fragment_runs[number] = 1;
    fragments_[number] = price;
    return price;
  }

  /// Of a product's.
  [[nodiscard]] std::optional<double> kernel_us(int fragment) const {
    if (const auto us = known_ ? known_(fragment) : std::nullopt) return us;
    const auto product = tuner_.product_price(program_.fragments[fragment].graph);
    return product ? std::optional(product->ours_us) : std::nullopt;
  }

  ProgramPrice of_call(int number) {
    if (calls_[number]) return *calls_[number];
    const graph::Graph& graph = program_.calls[number].graph;
    const auto product = tuner_.product_price(graph);
    ProgramPrice price;
    price.library_calls = 1;
    price.bytes = price.library_bytes = bytes_of(graph);
    price.us = price.library_us = product ? product->library_us : tuner_.copy_us(price.bytes);
    price.unpriced_calls = product ? 0 : 1;
    price.call_runs[number] = 1;
    calls_[number] = price;
    return price;
  }

  Result<ProgramPrice> of_loop(const api::LoopStep& loop) {
    ProgramPrice price;
    const double turns = loop.trip_count < 0 ? 1 : static_cast<double>(loop.trip_count);
    STITCH_ASSIGN(const ProgramPrice body, of_region(loop.body));
    add(price, body, turns);
    if (loop.condition < 0) return price;
    STITCH_ASSIGN(const ProgramPrice condition, of_region(loop.condition));
    add(price, condition, turns);
    return price;
  }

  Result<ProgramPrice> of_branch(const api::BranchStep& branch) {
    ProgramPrice most;
    for (const int region : branch.regions) {
      STITCH_ASSIGN(const ProgramPrice price, of_region(region));
      if (price.us >= most.us) most = price;
    }
    return most;
  }

  const api::Program& program_;
  const Tuner& tuner_;
  const std::stop_token& stop_;
  const FragmentPlanned& planned_;
  const KnownKernel& known_;
  std::vector<std::optional<ProgramPrice>> fragments_, calls_;  // each distinct one once
};

}  // namespace

Result<std::vector<ProgramPrice>> price_steps(const api::Program& program, const Tuner& tuner,
                                              const std::stop_token& stop, const FragmentPlanned& planned,
                                              const KnownKernel& known) {
  return Pricing(program, tuner, stop, planned, known).of_steps(0);
}

ProgramPrice sum_of(const std::vector<ProgramPrice>& steps) {
  ProgramPrice total;
  for (const ProgramPrice& step : steps) add(total, step, 1);
  return total;
}

}  // namespace stitch::tuning
