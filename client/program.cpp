#include "client/program.h"

#include <algorithm>
#include <cstdlib>

#include "client/host/library_call.h"
#include "client/program_frame.h"
#include "client/program_plans.h"
#include "client/program_ports.h"
#include "client/trace/plan_trace.h"

namespace stitch::client {

using api::ProgramStep;

void ProgramRunner::Aligned::operator()(std::byte* memory) const { std::free(memory); }

ProgramRunner::ProgramRunner(api::Program program, const ProgramOptions& options)
    : program_(std::move(program)), options_(options) {}
ProgramRunner::~ProgramRunner() = default;

Result<std::unique_ptr<ProgramRunner>> ProgramRunner::open(api::Program program, Executor& executor,
                                                           const ArtifactSource& artifacts,
                                                           const ProgramOptions& options) {
  STITCH_TRY(api::check_program(program));
  std::unique_ptr<ProgramRunner> runner(new ProgramRunner(std::move(program), options));
  STITCH_TRY(runner->load(executor, artifacts));
  STITCH_TRY(runner->check_steps());
  return runner;
}

Result<std::unique_ptr<ProgramRunner>> ProgramRunner::open_package(std::string_view bytes, graph::Encoding encoding,
                                                                   Executor& executor, const ArtifactSource& artifacts,
                                                                   const ProgramOptions& options) {
  STITCH_ASSIGN(api::Program program, api::decode_program(bytes, encoding));
  return open(std::move(program), executor, artifacts, options);
}

Status ProgramRunner::load(Executor& executor, const ArtifactSource& artifacts) {
  STITCH_ASSIGN(plans_, load_plans(program_, executor, artifacts));
  if (!program_.calls.empty()) {
    Result<Blas> blas = Blas::load(options_.blas);
    if (blas) {
      blas_ = *std::move(blas);
    } else {
      why_no_blas_ = blas.error().message;
    }
  }
  if (const std::int64_t bytes = arena_bytes(); bytes > 0) {
    arena_.reset(static_cast<std::byte*>(std::aligned_alloc(api::arena_alignment, bytes)));
    if (arena_ == nullptr)
      return make_error(ErrorKind::resource_exhausted, "no memory for an arena of {} bytes", bytes);
  }
  return {};
}

void ProgramRunner::note_fallback(int region, int index, std::string reason) {
  const std::string& name = program_.regions[region].steps[index].name;
  trace_fallback(name, reason, "reference evaluator", program_.model);
  fallbacks_.push_back({region, index, name, std::move(reason)});
}

Status ProgramRunner::check_steps() {
  for (const api::ProgramCall& call : program_.calls)
    covered_.push_back(blas_.has_value() && covers_library_call(call.graph).ok());
  for (int r = 0; r < std::ssize(program_.regions); ++r) {
    const auto& steps = program_.regions[r].steps;
    for (int s = 0; s < std::ssize(steps); ++s) {
      if (const auto* foreign = std::get_if<api::ForeignStep>(&steps[s].work)) {
        return make_error(ErrorKind::unsupported, "step {} of region '{}': operator '{}' is nobody's to run here", s,
                          program_.regions[r].name, foreign->target);
      }
      if (computed_by(steps[s]) != StepBy::reference) continue;
      if (const auto* fragment = std::get_if<api::FragmentStep>(&steps[s].work)) {
        const std::string& why = program_.fragments[fragment->fragment].why_none;
        note_fallback(r, s, why.empty() ? "the fragment has no plan" : why);
      } else {
        const Status covered =
            covers_library_call(program_.calls[std::get<api::LibraryStep>(steps[s].work).call].graph);
        note_fallback(r, s, covered.ok() ? why_no_blas_ : covered.error().message);
      }
    }
  }
  if (!options_.allow_reference && !fallbacks_.empty()) {
    return make_error(ErrorKind::unsupported, "{} steps need the reference evaluator; the first, {}: {}",
                      fallbacks_.size(), fallbacks_[0].step, fallbacks_[0].reason);
  }
  return {};
}

StepBy ProgramRunner::computed_by(const ProgramStep& step) const {
  if (const auto* fragment = std::get_if<api::FragmentStep>(&step.work))
    return plans_[fragment->fragment] != nullptr ? StepBy::device : StepBy::reference;
  if (const auto* call = std::get_if<api::LibraryStep>(&step.work))
    return covered_[call->call] ? StepBy::library : StepBy::reference;
  return StepBy::host;
}

std::int64_t ProgramRunner::workspace_bytes() const { return workspace_bytes_of(program_); }

std::string ProgramRunner::library() const {
  if (program_.calls.empty()) return "no library calls";
  return blas_ ? blas_->name() : why_no_blas_;
}

Status ProgramRunner::run(Inputs parameters, Outputs results, StepObserver* observer) {
  STITCH_TRY(check_ports(program_, parameters, results));
  std::vector<std::byte*> from, to;
  // Steps write no parameter of the model: check_program has seen to that.
  for (const auto& span : parameters) from.push_back(const_cast<std::byte*>(span.data()));
  for (const auto& span : results) to.push_back(span.data());
  std::vector<LoadedPlan*> plans;
  for (const auto& plan : plans_) plans.push_back(plan.get());
  ProgramFrame frame(
      program_, plans, blas_ ? &*blas_ : nullptr, options_.most_trips,
      [this](const ProgramStep& step) { return computed_by(step); }, observer);
  return frame.run_region(0, from, to, arena_.get());
}

}  // namespace stitch::client
