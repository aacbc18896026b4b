#include "lab/recording/recorder.h"

#include <fmt/ranges.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <set>

#include "base/processors.h"
#include "base/version.h"
#include "costmodel/kernel_features.h"
#include "graph/codec/codec.h"
#include "kernel/program/schedule_hash.h"
#include "tuning/kernels/training_samples.h"
#include "tuning/models/model_tuning.h"

namespace stitch::lab {

using profiler::RecordedCandidate;
using profiler::RecordedKernel;
using profiler::Recording;

/// A kernel to record.
struct Recorder::Task {
  Hash128 key;
  std::string name;
  std::int64_t occurrences = 0;
  search::SharedKernel kernel;
};

namespace {

/// An error's text for the file: a compiler's log may be long. Cut between characters.
std::string shortened_message(std::string text) {
  constexpr std::size_t most = 300;
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "…";
}

std::string describe(const profiler::VerifyOptions& options) {
  std::vector<std::string_view> names;
  for (const profiler::Distribution each : options.distributions) names.push_back(profiler::to_string(each));
  return fmt::format("{} of {} distributions ({}), seed {}", names.size(), profiler::default_distributions().size(),
                     fmt::join(names, ", "), options.seed);
}

tuning::WorkshopOptions workshop_options(const tuning::Tuner& tuner, const RecorderOptions& options) {
  tuning::WorkshopOptions workshop;
  workshop.architecture = tuner.target().architecture;
  workshop.verify = options.verify;
  return workshop;
}

/// What the figures of a recording are is known with the first one.
Status agree_on_figures(Recording& recording, const profiler::Measurement& measurement) {
  if (recording.method.empty()) {
    recording.kind = measurement.kind;
    recording.unit = measurement.unit;
    recording.method = measurement.method;
    recording.cold_l2 = measurement.cold_l2;
  }
  if (recording.kind == measurement.kind && recording.unit == measurement.unit &&
      recording.cold_l2 == measurement.cold_l2) {
    return {};
  }
  return make_error(ErrorKind::invalid_argument, "it holds {} by {}, the device gives {} by {}", recording.unit,
                    recording.method, measurement.unit, measurement.method);
}

/// Where a kernel is in the recording; it is added if it is not there.
std::size_t place_of(Recording& recording, const Hash128& key) {
  for (std::size_t i = 0; i < recording.kernels.size(); ++i) {
    if (recording.kernels[i].key == key) return i;
  }
  recording.kernels.emplace_back().key = key;
  return recording.kernels.size() - 1;
}

/// The candidates whose schedules are not known.
std::vector<int> missing_of(const search::SharedKernel& kernel, const std::set<Hash128>& known) {
  std::vector<int> missing;
  for (int c = 0; c < std::ssize(kernel->candidates); ++c) {
    if (!known.contains(kernel::schedule_hash(kernel->candidates[c].schedule))) missing.push_back(c);
  }
  return missing;
}

void summarise(const RecordedKernel& kernel, KernelRecord& done) {
  done.recorded = std::ssize(kernel.candidates);
  done.right = 0;
  done.best = 0;
  for (const RecordedCandidate& candidate : kernel.candidates) {
    if (candidate.failure) {
      ++done.failed[std::string(to_string(candidate.failure->kind))];
      if (done.why_failed.empty()) done.why_failed = candidate.failure->message;
      continue;
    }
    ++done.right;
    if (done.best == 0 || candidate.median < done.best) done.best = candidate.median;
  }
}

}  // namespace

profiler::VerifyOptions RecorderOptions::verification() {
  profiler::VerifyOptions options;
  std::erase(options.distributions, profiler::Distribution::small);
  return options;
}

Recorder::Recorder(const tuning::Tuner& tuner, codegen::Compiler& compiler, profiler::Device& verifier,
                   tuning::KernelTimer& timer, FileSystem& files, const Clock& clock, RecorderOptions options)
    : tuner_(tuner),
      timer_(timer),
      files_(files),
      clock_(clock),
      options_(std::move(options)),
      device_(tuner.scorer().device()),
      workshop_(compiler, verifier, &timer, device_, workshop_options(tuner, options_)) {}

Result<Recording> Recorder::open(const std::filesystem::path& path) const {
  const db::Target& target = tuner_.target();
  if (!files_.exists(path)) {
    Recording recording;
    recording.generator = target.version;
    recording.target = target.device;
    recording.architecture = target.architecture;
    recording.toolkit = target.toolkit;
    recording.scorer = tuner_.scorer_name();
    recording.feature_names = costmodel::feature_names();
    recording.verification = describe(options_.verify);
    recording.device = timer_.identity();
    return recording;
  }
  STITCH_ASSIGN(Recording recording, profiler::read_recording(files_, path));
  const auto check = [&](std::string_view what, const std::string& there, const std::string& here) -> Status {
    if (there == here) return {};
    return make_error(ErrorKind::invalid_argument, "{}: recorded with {} {}, this is {}; take another file",
                      path.string(), what, there, here);
  };
  STITCH_TRY(check("device", recording.device.key, timer_.identity().key));
  STITCH_TRY(check("target", recording.target, target.device));
  STITCH_TRY(check("architecture", recording.architecture, target.architecture));
  STITCH_TRY(check("toolkit", recording.toolkit, target.toolkit));
  STITCH_TRY(check("code generator", recording.generator, target.version));
  return recording;
}

/// The kernels of the model's plan, each once.
Result<std::vector<Recorder::Task>> Recorder::kernels_of(std::string_view bytes, std::string_view name) const {
  STITCH_ASSIGN(auto imported, import::import_bytes(bytes, name));
  STITCH_ASSIGN(const tuning::ModelFragments model, tuning::cut_model(std::move(imported), tuner_));
  std::vector<Task> tasks;
  std::map<Hash128, std::size_t> known;
  for (const tuning::ModelFragments::Entry& entry : model.entries) {
    STITCH_ASSIGN(const search::FusionPlan plan, tuner_.explore(entry.graph));
    for (std::size_t launch = 0; launch < plan.kernels.size(); ++launch) {
      const auto& kernel = plan.kernels[launch].kernel;
      const auto [found, fresh] = known.try_emplace(kernel->key, tasks.size());
      if (fresh) tasks.push_back({kernel->key, fmt::format("{}, {}, launch {}", name, entry.name, launch), 0, kernel});
      tasks[found->second].occurrences += entry.occurrences;
    }
  }
  return tasks;
}

Status Recorder::record(std::string_view bytes, std::string_view name, const std::filesystem::path& path,
                        const tuning::ProgressSink& progress, const std::stop_token& stop, RecordingReport& report) {
  STITCH_ASSIGN(Recording recording, open(path));
  STITCH_ASSIGN(const std::vector<Task> tasks, kernels_of(bytes, name));
  report.device = recording.device.name;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (stop.stop_requested() || out_of_time()) break;
    const double share = 1.0 * i / tasks.size();
    if (progress) progress({"record", share, fmt::format("kernel {} of {}", i + 1, tasks.size())});
    KernelRecord done;
    const Status recorded = record_kernel(tasks[i], recording, done, stop);
    report.unit = recording.unit;
    if (done.recorded > done.before) {
      recording.tool = tool_version;
      recording.when_us = clock_.wall_us();
      STITCH_TRY(profiler::write_recording(files_, path, recording));
    }
    report.kernels.push_back(std::move(done));
    if (!recorded) return recorded.error().within(tasks[i].name);
  }
  return {};
}

Status Recorder::record_kernel(const Task& task, Recording& recording, KernelRecord& done,
                               const std::stop_token& stop) {
  const Stopwatch watch;
  done.key = task.key;
  done.name = task.name;
  STITCH_ASSIGN(const tuning::KernelSpace space,
                tuning::kernel_space(task.kernel->graph, task.key, tuner_.scorer(), options_.space));
  const auto& candidates = space.kernel->candidates;
  const std::size_t at = place_of(recording, task.key);
  RecordedKernel* const into = &recording.kernels[at];
  if (into->graph.empty()) {
    into->name = task.name;
    into->occurrences = task.occurrences;
    into->graph = graph::encode(task.kernel->graph, graph::Encoding::cbor);
  }
  into->legal = done.legal = space.legal;
  into->whole = space.whole;
  into->wanted = done.wanted = std::ssize(candidates);
  std::set<Hash128> known;
  for (const RecordedCandidate& candidate : into->candidates) known.insert(candidate.schedule);
  done.before = std::ssize(known);
  const std::vector<int> missing = missing_of(space.kernel, known);
  const auto late = [&] {
    const bool enough = options_.seconds_of_kernel > 0 && watch.seconds() > options_.seconds_of_kernel;
    return enough || out_of_time() || stop.stop_requested();
  };
  constexpr std::size_t batch = 16;
  Status judged;
  for (std::size_t from = 0; from < missing.size() && judged && (from == 0 || !late()); from += batch) {
    const auto some = std::span(missing).subspan(from, std::min(batch, missing.size() - from));
    judged = record_batch(space.kernel, some, recording, at, done, late);
  }
  summarise(*into, done);
  const profiler::RecordingIndex index(recording);
  const RecordedCandidate* first = index.candidate(task.key, kernel::schedule_hash(candidates.front().schedule));
  if (first != nullptr && !first->failure) done.first = first->median;
  done.seconds = watch.seconds();
  return judged;
}

Status Recorder::record_batch(const search::SharedKernel& kernel, std::span<const int> batch, Recording& recording,
                              std::size_t at, KernelRecord& done, const std::function<bool()>& late) {
  std::vector<tuning::Trial> trials(batch.size());
  tbb::task_arena arena(options_.threads > 0 ? options_.threads : usable_processors());
  arena.execute([&] {
    tbb::parallel_for(std::size_t{0}, batch.size(), [&](std::size_t i) {
      trials[i] = workshop_.build_candidate({kernel, batch[i]});
    });
  });
  // A device does one thing at a time, and nothing else runs here while it measures. Every call judges one candidate
  // at least, so that however little time it has, the next one finds less to do.
  for (std::size_t i = 0; i < trials.size() && (i == 0 || !late()); ++i)
    STITCH_TRY(judge(std::move(trials[i]), recording, at, done));
  return {};
}

/// The row of a candidate, with as much as is known of its code.
Result<std::vector<double>> Recorder::features_of(const tuning::Trial& trial) const {
  costmodel::CompiledFacts compiled;
  if (trial.built) {
    compiled = tuning::compiled_facts(trial.built->compiled.resources, trial.built->generated.shared_bytes);
    if (trial.built->machine_code) compiled.machine_code = &*trial.built->machine_code;
  }
  const search::StitchCandidate& candidate = *trial.candidate.scheduled;
  return tuning::features_for_record(
      tuning::candidate_row(trial.candidate.kernel->graph, candidate, device_, trial.built ? &compiled : nullptr)
          .features);
}

/// Verifies and measures a candidate, and writes down what became of it.
Status Recorder::judge(tuning::Trial trial, Recording& recording, std::size_t at, KernelRecord& done) {
  if (!trial.failure) trial = workshop_.verify_candidate(std::move(trial));
  if (!trial.failure) trial = workshop_.measure_candidate(std::move(trial));
  const bool judged = trial.failure ? tuning::is_outcome(trial.failure->kind) : trial.built->measurement.has_value();
  if (!judged) {
    if (trial.failure && trial.failure->kind == ErrorKind::unavailable) return *trial.failure;
    if (done.untimed++ == 0) done.why_untimed = trial.failure ? trial.failure->message : "the device gave no time";
    return {};
  }
  const search::StitchCandidate& candidate = *trial.candidate.scheduled;
  RecordedCandidate record;
  record.schedule = kernel::schedule_hash(candidate.schedule);
  record.predicted_us = candidate.predicted_us;
  if (trial.failure) record.failure = Error{trial.failure->kind, shortened_message(trial.failure->message)};
  if (trial.built) {
    const codegen::ResourceUsage& used = trial.built->compiled.resources;
    record.registers = used.registers;
    record.shared_bytes = used.shared_bytes + trial.built->generated.shared_bytes;
    record.spill_bytes = used.spill_store_bytes + used.spill_load_bytes;
  }
  if (!trial.failure) {
    STITCH_TRY(agree_on_figures(recording, *trial.built->measurement));
    profiler::keep_samples(*trial.built->measurement, record);
  }
  // A file that was begun by another version has other columns, or none; it goes on without.
  if (recording.feature_names == costmodel::feature_names()) {
    STITCH_ASSIGN(record.features, features_of(trial));
  }
  recording.kernels[at].candidates.push_back(std::move(record));
  return {};
}

}  // namespace stitch::lab
