#include "api/program_lifetimes.h"

#include <algorithm>

namespace stitch::api {

std::vector<int> values_of(const ProgramStep& step) {
  std::vector<int> values = step.parameters;
  values.insert(values.end(), step.results.begin(), step.results.end());
  if (const auto* loop = std::get_if<LoopStep>(&step.work)) {
    std::ranges::copy_if(loop->spares, std::back_inserter(values), [](int spare) { return spare >= 0; });
    if (loop->scratch >= 0) values.push_back(loop->scratch);
  }
  if (const auto* branch = std::get_if<BranchStep>(&step.work); branch != nullptr && branch->scratch >= 0) {
    values.push_back(branch->scratch);
  }
  return values;
}

std::vector<Lifetime> lifetimes_of(const ProgramRegion& region) {
  const int end = region.steps.size();
  std::vector<Lifetime> lifetimes(region.values.size());
  for (Lifetime& lifetime : lifetimes) lifetime.first = end;
  for (int s = 0; s < end; ++s) {
    for (const int value : values_of(region.steps[s])) {
      lifetimes[value].first = std::min(lifetimes[value].first, s);
      lifetimes[value].last = s;
    }
  }
  for (const int value : region.parameters) lifetimes[value].first = -1;
  for (const int value : region.results) lifetimes[value].last = end;
  return lifetimes;
}

}  // namespace stitch::api
