#include "tuning/models/model_search.h"

#include <algorithm>

#include "graph/canonical.h"
#include "tuning/kernels/trial_budget.h"

namespace stitch::tuning {
namespace {

/// One kernel's search with its share; what it brought is added to `done` and kept.
Status search_one(const ModelKernel& wanted, const Tuner& tuner, TuningStore* store, std::int64_t share,
                  const ProgressSink& progress, const std::stop_token& stop, ModelSearch& done) {
  KernelHistory history;
  if (store != nullptr) {
    STITCH_ASSIGN(const graph::CanonicalForm form, graph::canonicalise(wanted.kernel->graph));
    STITCH_ASSIGN(const FragmentHistory known, store->history(wanted.fragment, wanted.family));
    history = known.of(wanted.kernel->key, form.family_key);
  }
  const auto found = tuner.search(wanted.kernel, wanted.fragment, share, history, progress, stop);
  if (!found) return found.error().kind == ErrorKind::cancelled ? Status(found.error()) : Status();
  done.trials += found->tried, done.failed += found->failed;
  done.kernels += 1, done.settled += found->settled ? 1 : 0;
  if (found->changed) {
    done.changed.insert(found->kernel);
    if (found->in_us) done.saved_us += static_cast<double>(wanted.occurrences) * (found->before - found->after);
  }
  if (store == nullptr) return {};
  STITCH_ASSIGN(const db::Fragment fragment, tuner.describe(*wanted.graph, wanted.name));
  return store->keep(fragment, *found);
}

}  // namespace

void add_kernels(const search::FusionPlan& plan, ModelKernel fragment, std::vector<ModelKernel>& kernels) {
  for (const search::PlannedKernel& planned : plan.kernels) {
    const auto known =
        std::ranges::find(kernels, planned.kernel->key, [](const ModelKernel& kernel) { return kernel.kernel->key; });
    if (known != kernels.end()) {
      known->occurrences += fragment.occurrences;
    } else {
      fragment.kernel = planned.kernel;
      kernels.push_back(fragment);
    }
  }
}

Result<ModelSearch> search_kernels(std::span<const ModelKernel> kernels, const Tuner& tuner, TuningStore* store,
                                   std::int64_t trials, const ProgressSink& progress, const std::stop_token& stop) {
  const Stopwatch watch;
  ModelSearch done;
  std::vector<double> gains;
  for (const ModelKernel& kernel : kernels) {
    if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while kernels were measured");
    gains.push_back(static_cast<double>(kernel.occurrences) * tuner.headroom_us(kernel.kernel));
  }
  while (done.trials < trials) {
    const auto largest = std::ranges::max_element(gains);
    if (largest == gains.end() || *largest <= 0) break;
    const auto shares = share_trials(gains, trials - done.trials, tuner.trials_at_once());
    const std::size_t place = largest - gains.begin();
    const std::int64_t before = done.trials;
    const ProgressSink inner = [&](const Progress& p) {
      const double tried = static_cast<double>(before) + p.share * static_cast<double>(shares[place]);
      if (progress) {
        progress({p.stage, tried / static_cast<double>(trials),
                  fmt::format("trial {:.0f} of {}, {}", tried, trials, kernels[place].name)});
      }
    };
    STITCH_TRY(search_one(kernels[place], tuner, store, shares[place], inner, stop, done));
    if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped after {} trials", done.trials);
    *largest = 0;
  }
  done.seconds = watch.seconds();
  return done;
}

}  // namespace stitch::tuning
