#include "tuning/plans/near_choices.h"

#include <algorithm>
#include <set>

#include "graph/canonical.h"
#include "tuning/kernels/kernel_search.h"

namespace stitch::tuning {

const std::vector<KernelCandidate>* NearChoices::of(const Hash128& kernel) const {
  const auto found = candidates.find(kernel);
  return neighbour && found != candidates.end() ? &found->second : nullptr;
}

NearChoices choose_near(const search::FusionPlan& fusion, const search::Scorer& scorer,
                        const FragmentHistory& history) {
  NearChoices near;
  std::map<Hash128, int> says;  // by plan: kernels that it has something to say of
  for (const search::PlannedKernel& planned : fusion.kernels) {
    const search::SharedKernel& kernel = planned.kernel;
    if (near.candidates.contains(kernel->key)) continue;
    const auto form = graph::canonicalise(kernel->graph);
    if (!form) return {};
    const KernelHistory known = history.of(kernel->key, form->family_key);
    auto candidates = near_candidates(kernel, scorer, known.near);
    if (!candidates || candidates->empty()) return {};
    near.candidates.emplace(kernel->key, *std::move(candidates));
    std::set<Hash128> plans;
    for (const KnownTrial& trial : known.near) plans.insert(trial.plan);
    for (const Hash128& plan : plans) ++says[plan];
  }
  const auto most = std::ranges::max_element(says, {}, [](const auto& entry) { return entry.second; });
  if (most != says.end()) near.neighbour = most->first;
  return near;
}

}  // namespace stitch::tuning
