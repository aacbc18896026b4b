#include "tuning/models/model_search.h"

#include <algorithm>

#include "graph/canonical.h"
#include "tuning/kernels/trial_budget.h"

namespace stitch::tuning {
namespace {

/// One kernel's search with its share; what it brought is added to `done` and kept.
Status search_one(const ModelKernel& wanted, const Tuner& tuner, RememberingTuner* memory, SearchRequest request,
                  ModelSearch& done) {
  if (memory != nullptr) {
    STITCH_ASSIGN(const graph::CanonicalForm form, graph::canonicalise(wanted.kernel->graph));
    STITCH_ASSIGN(const FragmentHistory known, memory->history(wanted.fragment, wanted.family));
    request.history = known.of(wanted.kernel->key, form.family_key);
  }
  const auto searched = tuner.search(request);
  if (!searched) return searched.error().kind == ErrorKind::cancelled ? Status(searched.error()) : Status();
  const SearchOutcome& found = searched->found;
  done.trials += std::ssize(found.trials);
  done.failed += found.failed;
  done.kernels += 1;
  done.settled += found.settled ? 1 : 0;
  if (found.changed) {
    done.changed.insert(wanted.kernel->key);
    if (found.in_us) done.saved_us += wanted.occurrences * (found.before - found.after);
  }
  if (memory == nullptr) return {};
  STITCH_ASSIGN(const db::FragmentRecord fragment, tuner.describe(*wanted.graph, wanted.name));
  return memory->keep(fragment, searched->records);
}

/// What each kernel may gain in one run of the model, µs. One that cannot be made right gains nothing.
Result<std::vector<double>> measure_gains(std::span<const ModelKernel> kernels, const Tuner& tuner,
                                          const std::stop_token& stop) {
  std::vector<double> gains;
  for (const ModelKernel& kernel : kernels) {
    if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while kernels were measured");
    const Result<double> headroom = tuner.measure_headroom(kernel.kernel, stop);
    gains.push_back(headroom ? kernel.occurrences * *headroom : 0);
  }
  return gains;
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

Result<ModelSearch> search_kernels(std::span<const ModelKernel> kernels, const Tuner& tuner, RememberingTuner* memory,
                                   std::int64_t trials, const ProgressSink& progress, const std::stop_token& stop) {
  const Stopwatch watch;
  ModelSearch done;
  STITCH_ASSIGN(std::vector<double> gains, measure_gains(kernels, tuner, stop));
  while (done.trials < trials) {
    const auto largest = std::ranges::max_element(gains);
    if (largest == gains.end() || *largest <= 0) break;
    const auto shares = share_trials(gains, trials - done.trials, tuner.trials_at_once());
    const std::size_t place = largest - gains.begin();
    const double before = done.trials;
    const ProgressSink inner = [&](const Progress& p) {
      const double tried = before + p.share * shares[place];
      if (progress) {
        progress({p.stage, tried / trials, fmt::format("trial {:.0f} of {}, {}", tried, trials, kernels[place].name)});
      }
    };
    const ModelKernel& kernel = kernels[place];
    STITCH_TRY(search_one(kernel, tuner, memory,
                          {.kernel = kernel.kernel,
                           .fragment = kernel.fragment,
                           .trials = shares[place],
                           .progress = inner,
                           .stop = stop},
                          done));
    if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped after {} trials", done.trials);
    *largest = 0;
  }
  done.seconds = watch.seconds();
  return done;
}

}  // namespace stitch::tuning
