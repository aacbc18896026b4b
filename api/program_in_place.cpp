#include "api/program_in_place.h"

#include <algorithm>
#include <optional>

namespace stitch::api {
namespace {

/// Where the only entry of a list is that is this value.
std::optional<std::int64_t> only_place(const std::vector<int>& values, int value) {
  if (std::ranges::count(values, value) != 1) return std::nullopt;
  return std::ranges::find(values, value) - values.begin();
}

/// All that a step writes, its memory for passing on included.
std::vector<int> written_by(const ProgramStep& step) {
  std::vector<int> values = step.results;
  if (const auto* loop = std::get_if<LoopStep>(&step.work)) {
    values.insert(values.end(), loop->spares.begin(), loop->spares.end());
    values.push_back(loop->scratch);
  }
  if (const auto* branch = std::get_if<BranchStep>(&step.work)) values.push_back(branch->scratch);
  std::erase(values, -1);
  return values;
}

/// What the steps of the model's own region do to its parameters and results.
class Accesses {
 public:
  explicit Accesses(const Program& program) : program_(program), region_(program.regions[0]) {
    first_write_.assign(region_.values.size(), -1);
    last_read_.assign(region_.values.size(), -1);
    for (int step = static_cast<int>(region_.steps.size()) - 1; step >= 0; --step) {
      for (const int value : region_.steps[step].parameters) last_read_[value] = std::max(last_read_[value], step);
      for (const int value : written_by(region_.steps[step])) {
        first_write_[value] = step;
        // What lies in a result's memory before the result does is written there, too.
        const std::optional<std::int64_t>& lender = region_.values[value].lender;
        if (lender) first_write_[region_.results[*lender]] = step;
      }
    }
  }

  [[nodiscard]] bool allows(int parameter, int result) const {
    const int written = first_write_[result];
    // What the program hands on, or updates, is its own to place.
    const bool handed_on = std::ranges::count(region_.results, parameter) > 0 || first_write_[parameter] >= 0;
    if (written < 0 || handed_on || last_read_[parameter] > written) return false;
    return last_read_[parameter] < written || fragment_allows(region_.steps[written], parameter, result);
  }

 private:
  [[nodiscard]] bool fragment_allows(const ProgramStep& step, int parameter, int result) const {
    const auto* work = std::get_if<FragmentStep>(&step.work);
    if (work == nullptr || !program_.fragments[work->fragment].plan) return false;
    const std::optional<std::int64_t> from = only_place(step.parameters, parameter);
    const std::optional<std::int64_t> to = only_place(step.results, result);
    if (!from || !to) return false;
    return std::ranges::count(program_.fragments[work->fragment].plan->in_place, InPlace{*from, *to}) > 0;
  }

  const Program& program_;
  const ProgramRegion& region_;
  std::vector<int> first_write_, last_read_;  ///< steps, by value; -1: none
};

}  // namespace

std::vector<InPlace> in_place_of(const Program& program) {
  const ProgramRegion& region = program.regions[0];
  const Accesses accesses(program);
  std::vector<InPlace> pairs;
  for (std::int64_t r = 0; r < std::ssize(region.results); ++r) {
    const int result = region.results[r];
    if (region.values[result].storage != ProgramValue::Storage::result) continue;
    for (std::int64_t p = 0; p < std::ssize(region.parameters); ++p) {
      const int parameter = region.parameters[p];
      if (program.parameters[p].type != program.results[r].type) continue;
      if (accesses.allows(parameter, result)) pairs.push_back({p, r});
    }
  }
  return pairs;
}

}  // namespace stitch::api
