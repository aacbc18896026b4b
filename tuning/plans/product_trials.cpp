#include "tuning/plans/product_trials.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include "profiler/verify/verify.h"
#include "tuning/plans/tuning_context.h"

namespace stitch::tuning {

ProductTrials::ProductTrials(const TuningContext& context, const ProductKernels& kernels, const Hash128& key,
                             std::stop_token stop)
    : context_(context), kernels_(kernels), stop_(std::move(stop)) {
  auto explored = std::make_shared<search::ExploredKernel>();
  explored->key = key;
  explored->graph = *kernels.graph;
  kernel_ = std::move(explored);
}

ProductTrial ProductTrials::build(int place) const {
  ProductTrial trial{place, nullptr, {}};
  const Status made = [&]() -> Status {
    codegen::GenerateOptions options;
    options.name = "stitch_" + kernel_->key.hex().substr(0, 12);
    BuiltKernel built;
    built.candidate.kernel = kernel_;
    built.candidate.place = place;
    built.estimated_us = ranked(place).predicted_us;
    STITCH_ASSIGN(built.generated, ranked(place).generate(options));
    STITCH_ASSIGN(built.compiled, context_.workshop->compile(built.generated, stop_));
    STITCH_TRY(check_residency(built.generated, built.compiled, context_.device));
    trial.built = std::make_shared<const BuiltKernel>(std::move(built));
    return {};
  }();
  if (!made) trial.failure = made.error();
  return trial;
}

std::vector<ProductTrial> ProductTrials::build_all(std::span<const int> places) const {
  std::vector<ProductTrial> trials(places.size());
  tbb::this_task_arena::isolate(
      [&] { tbb::parallel_for(std::size_t{0}, trials.size(), [&](std::size_t i) { trials[i] = build(places[i]); }); });
  return trials;
}

void ProductTrials::verify(ProductTrial& trial) const {
  profiler::VerifyOptions looking = context_.options.verify;
  looking.stop = stop_;
  const BuiltKernel& built = *trial.built;
  trial.failure =
      judge(trial.built, verify_undisturbed(stop_, [&] {
              return profiler::verify_kernel(*context_.verifying, *kernels_.graph, ranked(trial.place).execution(),
                                             built.generated, image_of(built), looking);
            }));
}

void ProductTrials::measure(ProductTrial& trial) const {
  const Trial measured = context_.workshop->measure_candidate({{}, trial.built, {}});
  trial.built = measured.built;
  trial.failure = measured.failure;
}

}  // namespace stitch::tuning
