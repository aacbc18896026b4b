#include "daemon/kernel_workshop.h"

#include <algorithm>
#include <span>

#include "profiler/sample_comparison.h"
#include "search/legality.h"

namespace stitch::daemon {

KernelWorkshop::Entry& KernelWorkshop::entry_of(const Hash128& key) {
  const std::lock_guard lock(mutex_);
  auto& entry = entries_[key];
  if (!entry) entry = std::make_unique<Entry>();
  return *entry;
}

Trial KernelWorkshop::build_candidate(const search::ExploredKernel& kernel, int candidate) {
  Trial trial;
  trial.candidate = candidate;
  const search::KernelProgram& program = kernel.candidates[static_cast<std::size_t>(candidate)].program;
  codegen::GenerateOptions options;
  options.name = "stitch_" + kernel.key.hex().substr(0, 12);
  options.blocks_per_sm = static_cast<int>((program.blocks + device_.sm_count - 1) / device_.sm_count);
  Result<codegen::GeneratedKernel> generated = codegen::generate(kernel.graph, program, options);
  if (!generated) {
    trial.failure = generated.error();
    return trial;
  }
  codegen::CompileRequest request;
  request.source = generated->source;
  request.architecture = options_.architecture;
  request.options = {"--prec-div=false", "--prec-sqrt=false"};
  Result<codegen::CompiledKernel> compiled = compiler_.compile(request);
  if (!compiled) {
    trial.failure = compiled.error();
    return trial;
  }
  // What ptxas really took decides whether a cooperative grid still fits.
  const codegen::ResourceUsage& used = compiled->resources;
  const int resident =
      search::resident_blocks(generated->threads, used.registers, generated->shared_bytes + used.shared_bytes, device_);
  if (resident < 1) {
    trial.failure = make_error(ErrorKind::constraint, "a block of {} threads with {} does not fit an SM of {}",
                               generated->threads, used.describe(), device_.name);
  } else if (generated->cooperative && generated->blocks > std::int64_t{resident} * device_.sm_count) {
    trial.failure = make_error(ErrorKind::constraint, "{} blocks must be resident together, {} has room for {}",
                               generated->blocks, device_.name, std::int64_t{resident} * device_.sm_count);
  } else {
    trial.built = std::make_shared<const BuiltKernel>(
        BuiltKernel{candidate, std::move(*generated), std::move(*compiled), std::nullopt, std::nullopt});
  }
  return trial;
}

Trial KernelWorkshop::verify_candidate(const search::ExploredKernel& kernel, Trial trial) {
  const BuiltKernel& built = *trial.built;
  const search::KernelProgram& program = kernel.candidates[static_cast<std::size_t>(trial.candidate)].program;
  Result<profiler::Verification> verification =
      profiler::verify_kernel(verifier_, kernel.graph, program, built.generated, image_of(built), options_.verify);
  if (!verification) {
    trial.failure = verification.error();
    return trial;
  }
  if (!verification->correct) trial.failure = make_error(ErrorKind::correctness, "{}", verification->failure);
  BuiltKernel judged = built;
  judged.verification = std::move(*verification);
  trial.built = std::make_shared<const BuiltKernel>(std::move(judged));
  return trial;
}

std::vector<Trial> KernelWorkshop::build(const search::ExploredKernel& kernel) {
  Entry& entry = entry_of(kernel.key);
  const std::lock_guard lock(entry.mutex);
  if (!entry.verified.empty() && !entry.verified.back().failure) return entry.verified;
  if (entry.built.empty()) {
    for (int c = 0; c < static_cast<int>(kernel.candidates.size()); ++c) {
      entry.built.push_back(build_candidate(kernel, c));
      if (!entry.built.back().failure) break;
    }
  }
  return entry.built;
}

std::vector<Trial> KernelWorkshop::verify(const search::ExploredKernel& kernel) {
  (void)build(kernel);
  Entry& entry = entry_of(kernel.key);
  const std::lock_guard lock(entry.mutex);
  if (entry.verified.empty()) {
    std::vector<Trial> trials = entry.built;
    for (int next = static_cast<int>(trials.size()); !trials.empty();) {
      Trial& last = trials.back();
      if (!last.failure) last = verify_candidate(kernel, std::move(last));
      if (!last.failure || next >= static_cast<int>(kernel.candidates.size())) break;
      trials.push_back(build_candidate(kernel, next++));
    }
    entry.verified = std::move(trials);
  }
  return entry.verified;
}

Trial KernelWorkshop::measure_candidate(const search::ExploredKernel& kernel, Trial trial) {
  Result<profiler::Measurement> measurement = timer_->measure_kernel(kernel, *trial.built);
  if (!measurement) {
    // A kernel that hangs or faults only here is bad, and so is one of which a recording says that it did or was
    // wrong; one that merely could not be timed is still right.
    switch (measurement.error().kind) {
      case ErrorKind::constraint:
      case ErrorKind::compile:
      case ErrorKind::timeout:
      case ErrorKind::runtime:
      case ErrorKind::correctness: trial.failure = measurement.error(); break;
      default: break;
    }
    return trial;
  }
  BuiltKernel timed = *trial.built;
  timed.measurement = std::move(*measurement);
  trial.built = std::make_shared<const BuiltKernel>(std::move(timed));
  return trial;
}

std::vector<Trial> KernelWorkshop::measure(const search::ExploredKernel& kernel) {
  std::vector<Trial> trials = verify(kernel);
  if (timer_ == nullptr || trials.empty() || trials.back().failure) return trials;
  Entry& entry = entry_of(kernel.key);
  const std::lock_guard lock(entry.mutex);
  if (!entry.measured.empty()) return entry.measured;
  std::ptrdiff_t best = -1;
  for (int next = static_cast<int>(trials.size()), right = 1;; ++next) {
    Trial& last = trials.back();
    if (!last.failure) last = measure_candidate(kernel, std::move(last));
    if (!last.failure) {
      const auto samples_of = [](const Trial& trial) -> std::span<const double> {
        return trial.built->measurement ? std::span(trial.built->measurement->samples) : std::span<const double>();
      };
      const auto here = static_cast<std::ptrdiff_t>(trials.size()) - 1;
      const bool faster =
          best < 0 ||
          profiler::compare_samples(samples_of(trials[static_cast<std::size_t>(best)]), samples_of(last)).verdict ==
              profiler::Comparison::faster;
      if (faster) best = here;
    }
    if (right >= options_.measured_candidates || next >= static_cast<int>(kernel.candidates.size())) break;
    Trial trial = build_candidate(kernel, next);
    if (!trial.failure) trial = verify_candidate(kernel, std::move(trial));
    right += trial.failure ? 0 : 1;
    trials.push_back(std::move(trial));
  }
  if (best >= 0) std::rotate(trials.begin() + best, trials.begin() + best + 1, trials.end());
  entry.measured = std::move(trials);
  return entry.measured;
}

}  // namespace stitch::daemon
