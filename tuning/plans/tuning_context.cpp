#include "tuning/plans/tuning_context.h"

#include <algorithm>

#include "base/device_class.h"
#include "base/processors.h"
#include "base/version.h"
#include "codegen/generator_version.h"
#include "costmodel/analytical.h"
#include "costmodel/combined.h"

namespace stitch::tuning {
namespace {

/// "13.0" of "13.0.88": patch releases serve one another's plans.
std::string release_of(const std::string& toolkit) {
  const std::size_t first = toolkit.find('.');
  const std::size_t second = first == std::string::npos ? first : toolkit.find('.', first + 1);
  return toolkit.substr(0, second);
}

Status choose_scorer(const TunerOptions& options, TuningContext& context) {
  if (options.cost_model == nullptr) {
    context.scorer = std::make_unique<costmodel::AnalyticalScorer>(context.device);
    context.scorer_name = costmodel::AnalyticalScorer::version;
    return {};
  }
  STITCH_ASSIGN(context.scorer, costmodel::CombinedScorer::create(options.cost_model, context.device));
  context.scorer_name = "combined, trained on " + options.cost_model->training_set.hex().substr(0, 8);
  return {};
}

}  // namespace

Result<std::unique_ptr<TuningContext>> TuningContext::create(TunerOptions options, profiler::Device& device,
                                                             KernelTimer* timer, FileSystem& files,
                                                             const Clock& clock) {
  auto context = std::make_unique<TuningContext>();
  if (options.device) {
    context->device = *options.device;
  } else {
    STITCH_ASSIGN(DeviceClass named, find_device_class(options.target));
    context->device = std::move(named.spec);
  }
  if (options.architecture.empty()) options.architecture = context->device.architecture();
  if (options.compiles) {
    STITCH_ASSIGN(context->nvrtc, codegen::NvrtcCompiler::create_pool({}, options.complain));
    context->toolkit = context->nvrtc->nvrtc().toolkit();
    context->compiling = std::make_unique<CountingCompiler>(*context->nvrtc, context->work);
  }
  codegen::Compiler* compiler = context->compiling.get();
  if (options.compiles && !options.artifact_folder.empty()) {
    context->artifacts =
        std::make_unique<codegen::ArtifactCache>(files, clock, codegen::ArtifactCacheOptions{options.artifact_folder});
    context->caching = std::make_unique<codegen::CachingCompiler>(*compiler, *context->artifacts, options.complain);
    compiler = context->caching.get();
  }
  if (options.compiles && options.around_compiler) {
    context->compiler = options.around_compiler(*compiler);
    compiler = context->compiler.get();
  }
  context->faults = std::make_unique<FaultLog>(options.complain);
  context->target = {context->device.name, options.architecture, release_of(context->toolkit),
                     codegen::generator_version()};
  STITCH_TRY(choose_scorer(options, *context));
  WorkshopOptions making;
  making.architecture = options.architecture;
  making.verify = options.verify;
  making.measured_candidates = options.measured_candidates;
  making.compiled_candidates = options.compiled_candidates;
  if (timer != nullptr)
    options.stitch.keep = std::max({options.stitch.keep, making.measured_candidates, making.built_ahead(true)});
  options.search.seed = options.verify.seed;
  // A recording has the candidates of a recording's space.
  if (timer != nullptr && !timer->has_plans()) options.search.space = KernelSpaceOptions();
  context->kernels = std::make_unique<search::KernelCache>(*context->scorer, options.stitch);
  context->verifying = std::make_unique<CountingVerifier>(device, context->work);
  if (timer != nullptr) context->timer = std::make_unique<CountingTimer>(*timer, context->work);
  if (options.compiles) {
    context->workshop = std::make_unique<KernelWorkshop>(*compiler, *context->verifying, context->timer.get(),
                                                         context->device, std::move(making));
  }
  context->judges = {device.identity()};
  if (timer != nullptr && timer->identity().key != device.identity().key) context->judges.push_back(timer->identity());
  context->clock = &clock;
  const int threads = options.threads > 0 ? options.threads : usable_processors();
  context->arena.initialize(threads);
  context->predicting.initialize(threads + 1, 2);
  context->options = std::move(options);
  return context;
}

db::Provenance TuningContext::provenance(std::string judged, std::string on) const {
  return {std::string(tool_version), toolkit, std::move(on), clock->wall_us(), std::move(judged)};
}

}  // namespace stitch::tuning
