#include "tuning/kernels/kernel_workshop.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <span>

#include "costmodel/analytical.h"
#include "costmodel/compiled_estimate.h"
#include "costmodel/uncertainty.h"
#include "kernel/program/legality.h"
#include "kernel/program/schedule_hash.h"
#include "kernel/program/traffic.h"
#include "search/partition/unwaited_saving.h"
#include "search/schedule/register_relief.h"
#include "tuning/kernels/equal_candidates.h"
#include "tuning/kernels/training_samples.h"

namespace stitch::tuning {
namespace {

/// How soon somebody who waits for a kernel that is worked on sees that nobody wants it any more.
constexpr std::chrono::milliseconds look_at_stop_every{20};

/// Whether a trial came to nothing only because somebody stopped it: another one would have found out more.
bool was_stopped(const Trial& trial) { return trial.failure && trial.failure->kind == ErrorKind::cancelled; }

bool is_built(const Trial& trial) { return trial.built != nullptr; }

/// Whether it may be taken where something spills in no loop.
bool is_spill_free(const Trial& trial) { return trial.built && !spills_in_loop(*trial.built); }

void drop_if_spilling(Trial& trial) {
  if (!trial.built || !spills_in_loop(*trial.built)) return;
  trial.failure = make_error(ErrorKind::constraint, "{} in a loop, and another candidate does without",
                             trial.built->compiled.resources.describe());
  trial.built = nullptr;
}

/// Drops those that spill in a loop if one does not. Whether one does not.
bool drop_spilling(std::vector<Trial>& trials) {
  if (std::ranges::none_of(trials, is_spill_free)) return false;
  std::ranges::for_each(trials, drop_if_spilling);
  return true;
}

/// How many of these are not the kernel's own candidates, but made of them (relieved_candidates).
std::ptrdiff_t count_besides(const search::ExploredKernel& kernel, const std::vector<Trial>& trials) {
  return std::ranges::count_if(
      trials, [&](const Trial& trial) { return trial.candidate.place >= std::ssize(kernel.candidates); });
}

/// The first that was built, and those before it.
Attempts up_to_first_built(const std::vector<Trial>& trials) {
  Attempts attempts;
  for (auto trial = trials.begin(); trial != trials.end() && !attempts.best; ++trial) attempts.add(*trial);
  return attempts;
}

Attempts stopped() {
  Attempts none;
  none.others.emplace_back().failure = make_error(ErrorKind::cancelled, "stopped while kernels were made");
  return none;
}

}  // namespace

KernelWorkshop::Hold KernelWorkshop::hold(Entry& entry, const std::stop_token& stop) {
  Hold lock(entry.mutex, std::defer_lock);
  while (!stop.stop_requested() && !lock.try_lock_for(look_at_stop_every)) {
  }
  return lock;
}

KernelWorkshop::Entry& KernelWorkshop::entry_of(const Hash128& key) {
  const std::lock_guard lock(mutex_);
  auto& entry = entries_[key];
  if (!entry) entry = std::make_unique<Entry>();
  return *entry;
}

Result<codegen::CompiledKernel> KernelWorkshop::compile(const codegen::GeneratedKernel& kernel,
                                                        const std::stop_token& stop) {
  codegen::CompileRequest request = compile_request(kernel.source, options_.architecture);
  request.options.insert(request.options.end(), kernel.compile_options.begin(), kernel.compile_options.end());
  request.stop = stop;
  return compiler_.compile(request);
}

Trial KernelWorkshop::build_candidate(KernelCandidate candidate, const std::stop_token& stop) {
  Trial trial;
  trial.candidate = std::move(candidate);
  const search::ExploredKernel& kernel = *trial.candidate.kernel;
  const kernel::KernelProgram& program = trial.candidate.scheduled->program;
  codegen::GenerateOptions options;
  options.name = "stitch_" + kernel.key.hex().substr(0, 12);
  options.unwaited = trial.candidate.unwaited;
  // All that there are where they wait for each other; else no more than the schedule counts on.
  const std::int64_t all = (program.blocks + device_.sm_count - 1) / device_.sm_count;
  const std::int64_t counted_on = program.blocks_wait() ? all : std::max(1, kernel::resident_blocks(program, device_));
  options.blocks_per_sm = std::min(all, counted_on);
  Result<codegen::GeneratedKernel> generated = codegen::generate(kernel.graph, program, options);
  if (!generated) {
    trial.failure = generated.error();
    return trial;
  }
  Result<codegen::CompiledKernel> compiled = compile(*generated, stop);
  // A grid of which all blocks need not be resident may take more registers than the schedule has counted.
  if (compiled && !generated->cooperative && compiled->resources.spill_store_bytes > 0) {
    options.blocks_per_sm = 0;
    Result<codegen::GeneratedKernel> unbounded = codegen::generate(kernel.graph, program, options);
    Result<codegen::CompiledKernel> roomier = unbounded ? compile(*unbounded, stop) : unbounded.error();
    if (roomier && roomier->resources.spill_store_bytes < compiled->resources.spill_store_bytes) {
      generated = std::move(unbounded);
      compiled = std::move(roomier);
    }
  }
  if (!compiled) {
    trial.failure = compiled.error();
    return trial;
  }
  // What ptxas really took decides whether a cooperative grid still fits.
  if (Status fits = check_residency(*generated, *compiled, device_); !fits) {
    trial.failure = fits.error();
  } else {
    BuiltKernel built;
    built.candidate = trial.candidate;
    built.generated = std::move(*generated);
    built.compiled = std::move(*compiled);
    if (options_.machine_code) {
      auto code = costmodel::read_machine_code(built.compiled.cubin, {}, costmodel::CodeLatencies::of(device_));
      if (code) built.machine_code = std::move(*code);
    }
    built.estimated_us = estimate(built);
    built.unwaited_saving_us = search::unwaited_saving_us(kernel.graph, program, options.unwaited, device_);
    trial.built = std::make_shared<const BuiltKernel>(std::move(built));
  }
  return trial;
}

Trial KernelWorkshop::build_unwaited(const BuiltKernel& built, kernel::UnwaitedInputs inputs,
                                     const std::stop_token& stop) {
  KernelCandidate candidate = built.candidate;
  candidate.unwaited = inputs;
  if (!may_depend(built) || kernel::unwaited_loads(candidate.scheduled->program, inputs).empty()) return {};
  Trial trial = build_candidate(std::move(candidate), stop);
  if (trial.failure) return trial;
  BuiltKernel early = *trial.built;
  early.overtaken = built.overtaken;
  early.equal_within_us = built.equal_within_us;
  early.measurement = built.measurement;  // which is of the kernel by itself
  trial.built = std::make_shared<const BuiltKernel>(std::move(early));
  if (!may_depend(*trial.built))
    trial.failure = make_error(ErrorKind::constraint, "its loads have not stayed where the wait was");
  return trial;
}

Trial KernelWorkshop::verify_candidate(Trial trial, const std::stop_token& stop) {
  const BuiltKernel& built = *trial.built;
  profiler::VerifyOptions looking = options_.verify;
  looking.stop = stop;
  Result<profiler::Verification> found = verify_undisturbed(stop, [&] {
    return profiler::verify_kernel(verifier_, trial.candidate.kernel->graph, trial.candidate.scheduled->program,
                                   built.generated, image_of(built), looking);
  });
  trial.failure = judge(trial.built, std::move(found));
  return trial;
}

double KernelWorkshop::estimate(const BuiltKernel& built) const {
  const search::StitchCandidate& candidate = *built.candidate.scheduled;
  costmodel::CompiledFacts facts = compiled_facts(built.compiled.resources, built.generated.shared_bytes);
  if (built.machine_code) facts.machine_code = &*built.machine_code;
  return costmodel::reranked_us(candidate.predicted_us,
                                costmodel::kernel_quantities(built.candidate.kernel->graph, candidate.program, device_),
                                facts, device_);
}

Attempts KernelWorkshop::build(const search::SharedKernel& kernel, const std::stop_token& stop) {
  Entry& entry = entry_of(kernel->key);
  const Hold lock = hold(entry, stop);
  if (!lock) return stopped();
  for (const auto* known : {&entry.measured, &entry.verified}) {
    // One that was found to be wrong is not built again to be served as if nobody had looked.
    if (*known) return **known;
  }
  if (entry.built.best) return entry.built;
  std::vector<Trial> trials = entry.built.all();
  while (std::ranges::none_of(trials, is_built) && trials.size() < kernel->candidates.size()) {
    trials.push_back(build_candidate({kernel, static_cast<int>(trials.size())}, stop));
    if (was_stopped(trials.back())) return stopped();
  }
  build_past_spills(kernel, trials, stop);
  if (!trials.empty() && was_stopped(trials.back())) return stopped();
  entry.spill_free = drop_spilling(trials);
  entry.built = up_to_first_built(trials);
  return entry.built;
}

Attempts KernelWorkshop::first_of(std::span<const KernelCandidate> candidates, bool verifies,
                                  const std::stop_token& stop) {
  if (candidates.empty()) return {};
  Entry& entry = entry_of(candidates.front().kernel->key);
  {
    const Hold lock = hold(entry, stop);
    if (!lock) return stopped();
    if (entry.measured && entry.measured->best) return *entry.measured;
  }
  Attempts attempts;
  for (const KernelCandidate& candidate : candidates) {
    Trial trial = build_candidate(candidate, stop);
    if (verifies && !trial.failure) trial = verify_candidate(std::move(trial), stop);
    attempts.add(std::move(trial));
    if (attempts.best || was_stopped(attempts.others.back())) break;
  }
  return attempts;
}

/// The first of these candidates that is built of this code, as made_of says; one without `built` where none is.
Trial KernelWorkshop::first_made_of(std::span<const KernelCandidate> candidates, const std::set<Sha256>& code,
                                    const std::set<kernel::UnwaitedInputs>& unwaited, const std::stop_token& stop) {
  std::vector<Trial> trials(candidates.size());
  std::atomic<std::size_t> first = trials.size();
  tbb::parallel_for(std::size_t{0}, trials.size(), [&](std::size_t c) {
    if (c > first || stop.stop_requested()) return;
    Trial trial = build_candidate(candidates[c], stop);
    if (trial.failure) return;
    const bool is_it =
        is_made_of(*trial.built, code) || std::ranges::any_of(unwaited, [&](kernel::UnwaitedInputs inputs) {
          const Trial other = build_unwaited(*trial.built, inputs, stop);
          return other.built != nullptr && is_made_of(*other.built, code);
        });
    if (!is_it) return;
    trials[c] = std::move(trial);
    for (std::size_t known = first; c < known && !first.compare_exchange_weak(known, c);) {
    }
  });
  // Of several with one code the best predicted, whoever was built first.
  const auto found = std::ranges::find_if(trials, is_built);
  return found != trials.end() ? std::move(*found) : Trial();
}

Attempts KernelWorkshop::made_of(const search::SharedKernel& kernel, const std::set<Sha256>& code,
                                 const std::set<kernel::UnwaitedInputs>& unwaited, const std::stop_token& stop) {
  std::vector<KernelCandidate> candidates;
  for (int c = 0; c < std::ssize(kernel->candidates); ++c) candidates.emplace_back(kernel, c);
  Trial found = first_made_of(candidates, code, unwaited, stop);
  if (!is_built(found)) found = first_made_of(relieved_candidates(candidates), code, unwaited, stop);
  Attempts attempts;
  if (is_built(found)) {
    attempts.best = std::move(found);
  } else if (stop.stop_requested()) {
    return stopped();
  } else {
    attempts.others.emplace_back().failure =
        make_error(ErrorKind::not_found, "none of its {} candidates has that code", candidates.size());
  }
  return attempts;
}

std::vector<Trial> KernelWorkshop::build_ahead(const search::SharedKernel& kernel, const std::stop_token& stop) {
  Entry& entry = entry_of(kernel->key);
  const Hold lock = hold(entry, stop);
  if (!lock) return stopped().others;
  build_ahead_of(kernel, entry, stop);
  return entry.verified ? entry.verified->all() : entry.ahead;
}

/// Remembers nothing if it was stopped.
void KernelWorkshop::build_ahead_of(const search::SharedKernel& kernel, Entry& entry, const std::stop_token& stop) {
  if (!entry.ahead.empty() || entry.verified) return;
  const std::size_t wanted = options_.built_ahead(timer_ != nullptr);
  std::vector<Trial> trials = entry.built.all();
  const std::size_t known = trials.size(), besides = count_besides(*kernel, trials);
  trials.resize(std::max(known, besides + std::min(wanted, kernel->candidates.size())));
  // This thread holds the kernel's lock while it waits for the others: it must not pick up another kernel meanwhile.
  tbb::this_task_arena::isolate([&] {
    tbb::parallel_for(known, trials.size(), [&](std::size_t c) {
      trials[c] = build_candidate({kernel, static_cast<int>(c - besides)}, stop);
    });
  });
  build_past_spills(kernel, trials, stop);
  if (stop.stop_requested()) return;
  entry.spill_free = drop_spilling(trials);
  entry.built = up_to_first_built(trials);
  std::stable_sort(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) {
    if (!a.built || !b.built) return !a.built && b.built;
    return a.built->estimated_us < b.built->estimated_us;
  });
  prefer_simplest(trials);
  for (auto trial = trials.begin(); trial != trials.end(); ++trial) {
    if (!trial->built) continue;
    const auto overtaken = std::count_if(
        trial + 1, trials.end(), [&](const Trial& behind) { return behind.candidate.place < trial->candidate.place; });
    if (overtaken == 0) continue;
    BuiltKernel built = *trial->built;
    built.overtaken = overtaken;
    trial->built = std::make_shared<const BuiltKernel>(std::move(built));
  }
  entry.besides = static_cast<int>(count_besides(*kernel, trials));
  entry.ahead = std::move(trials);
}

/// Builds further candidates, while all that were built spill in a loop; then what these are with more registers.
void KernelWorkshop::build_past_spills(const search::SharedKernel& kernel, std::vector<Trial>& trials,
                                       const std::stop_token& stop) {
  const auto is_done = [&] { return stop.stop_requested() || std::ranges::any_of(trials, is_spill_free); };
  if (std::ranges::none_of(trials, is_built)) return;
  const std::size_t most = std::min(kernel->candidates.size(), trials.size() + options_.beyond_spills);
  while (trials.size() < most && !is_done())
    trials.push_back(build_candidate({kernel, static_cast<int>(trials.size())}, stop));
  if (is_done()) return;
  std::vector<KernelCandidate> spilling;
  for (const Trial& trial : trials) {
    if (is_built(trial)) spilling.push_back(trial.candidate);
  }
  std::vector<KernelCandidate> relieved = relieved_candidates(spilling);
  if (std::ssize(relieved) > options_.beyond_spills) relieved.resize(options_.beyond_spills);
  for (KernelCandidate& candidate : relieved) {
    if (!is_done()) trials.push_back(build_candidate(std::move(candidate), stop));
  }
}

/// What candidates of one kernel are with more registers for a thread's turn (search/schedule/register_relief.h), best
/// prediction first: that of what each was made from, corrected by what the analytical model says of the change. Their
/// places are behind those of the kernel's own candidates. None where only what a recording has can be measured.
std::vector<KernelCandidate> KernelWorkshop::relieved_candidates(std::span<const KernelCandidate> candidates) const {
  std::vector<KernelCandidate> all;
  if (timer_ != nullptr && !timer_->has_plans()) return all;
  std::set<Hash128> known;
  for (const KernelCandidate& from : candidates) {
    const graph::Graph& graph = from.kernel->graph;
    const auto analytical_us = [&](const kernel::KernelProgram& program) {
      return costmodel::analytical_us(costmodel::kernel_quantities(graph, program, device_), device_, {});
    };
    const double share = from.scheduled->predicted_us / analytical_us(from.scheduled->program);
    for (kernel::KernelProgram& program : search::with_register_relief(from.scheduled->program, device_)) {
      if (!known.insert(kernel::schedule_hash(program.schedule)).second) continue;
      const double us = share * analytical_us(program);
      KernelCandidate& relieved = all.emplace_back();
      relieved.kernel = from.kernel;
      relieved.scheduled = std::make_shared<const search::StitchCandidate>(
          search::StitchCandidate{program.schedule, std::move(program), us});
    }
  }
  std::ranges::stable_sort(all, {}, [](const KernelCandidate& each) { return each.scheduled->predicted_us; });
  for (std::size_t i = 0; i < all.size(); ++i) all[i].place = static_cast<int>(all[i].kernel->candidates.size() + i);
  return all;
}

/// Puts the simplest of those that are equal to the best estimate before it.
void KernelWorkshop::prefer_simplest(std::vector<Trial>& trials) const {
  const auto first =
      std::find_if(trials.begin(), trials.end(), [](const Trial& trial) { return trial.built != nullptr; });
  if (first == trials.end()) return;
  std::vector<Contender> contenders;
  for (auto trial = first; trial != trials.end(); ++trial) {
    const kernel::KernelProgram& program = trial->candidate.scheduled->program;
    const double us = trial->built->estimated_us;
    contenders.push_back({us, costmodel::uncertainty_us(program, us), program.blocks_wait(),
                          static_cast<int>(program.phases.size()), program.schedule.cluster,
                          kernel::scheduled_bytes(trial->candidate.kernel->graph, program)});
  }
  const std::size_t taken = simplest_of_equals(contenders);
  if (taken == 0) return;
  const auto simplest = first + static_cast<std::ptrdiff_t>(taken);
  BuiltKernel built = *simplest->built;
  built.equal_within_us = contenders.front().uncertainty_us;
  simplest->built = std::make_shared<const BuiltKernel>(std::move(built));
  std::rotate(first, simplest, simplest + 1);
}

/// What stands at this place of all that are tried, one after the other: first those that were built ahead, then the
/// other candidates.
Trial KernelWorkshop::next_trial(const search::SharedKernel& kernel, const Entry& entry, int place,
                                 const std::stop_token& stop) {
  if (place < std::ssize(entry.ahead)) return entry.ahead[place];
  Trial trial = build_candidate({kernel, place - entry.besides}, stop);
  if (entry.spill_free) drop_if_spilling(trial);
  return trial;
}

Attempts KernelWorkshop::verify(const search::SharedKernel& kernel, const std::stop_token& stop) {
  Entry& entry = entry_of(kernel->key);
  const Hold lock = hold(entry, stop);
  if (!lock) return stopped();
  if (entry.verified) return *entry.verified;
  build_ahead_of(kernel, entry, stop);
  Attempts attempts;
  const std::ptrdiff_t all = std::ssize(kernel->candidates) + entry.besides;
  while (!attempts.best && attempts.size() < all) {
    Trial next = next_trial(kernel, entry, attempts.size(), stop);
    attempts.add(next.failure ? std::move(next) : verify_candidate(std::move(next), stop));
    if (!attempts.best && was_stopped(attempts.others.back())) return stopped();
  }
  entry.verified = std::move(attempts);
  if (timer_ == nullptr || entry.verified->size() == all) entry.ahead = {};
  return *entry.verified;
}

Trial KernelWorkshop::measure_candidate(Trial trial) {
  Result<profiler::Measurement> measurement = timer_->measure_kernel(*trial.built);
  if (!measurement) {
    // A kernel that hangs or faults only here is bad, and so is one of which a recording says that it did or was
    // wrong; one that merely could not be timed is still right.
    if (is_outcome(measurement.error().kind)) trial.failure = measurement.error();
    return trial;
  }
  BuiltKernel timed = *trial.built;
  timed.measurement = std::move(*measurement);
  trial.built = std::make_shared<const BuiltKernel>(std::move(timed));
  return trial;
}

Attempts KernelWorkshop::measure(const search::SharedKernel& kernel, const std::stop_token& stop) {
  Attempts verified = verify(kernel, stop);
  if (timer_ == nullptr || !verified.best) return verified;
  Entry& entry = entry_of(kernel->key);
  const Hold lock = hold(entry, stop);
  if (!lock) return stopped();
  if (entry.measured) return *entry.measured;
  std::vector<Trial> tried = verified.all();
  std::ptrdiff_t best = -1;
  for (int right = 1;;) {
    Trial& last = tried.back();
    if (!last.failure) last = measure_candidate(std::move(last));
    if (stop.stop_requested()) return stopped();
    if (!last.failure && (best < 0 || is_faster(*last.built, *tried[best].built))) best = std::ssize(tried) - 1;
    if (right >= options_.measured_candidates || tried.size() >= kernel->candidates.size() + entry.besides) break;
    Trial trial = next_trial(kernel, entry, std::ssize(tried), stop);
    if (!trial.failure) trial = verify_candidate(std::move(trial), stop);
    right += trial.failure ? 0 : 1;
    tried.push_back(std::move(trial));
  }
  entry.measured = Attempts::choose(std::move(tried), best);
  entry.ahead = {};
  return *entry.measured;
}

bool KernelWorkshop::promote(const Trial& trial) {
  Entry& entry = entry_of(trial.candidate.kernel->key);
  const std::lock_guard lock(entry.mutex);
  if (!entry.measured || !entry.measured->best) return false;
  if (trial.failure || !is_faster(*trial.built, *entry.measured->best->built)) return false;
  if (entry.spill_free && spills_in_loop(*trial.built)) return false;
  entry.measured->others.push_back(*std::exchange(entry.measured->best, trial));
  return true;
}

}  // namespace stitch::tuning
