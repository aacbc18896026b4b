#include "tuning/zoo/zoo.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/clock.h"
#include "base/time_budget.h"
#include "tuning/models/entry_planning.h"
#include "tuning/models/fragment_tuning.h"
#include "tuning/models/model_tuning.h"
#include "tuning/programs/model_program.h"

namespace stitch::tuning {
namespace {

using Entry = ModelFragments::Entry;

/// Operators that one run of the graph executes, its loops' bodies as often as they turn.
std::int64_t operators_run(const graph::Graph& graph) {
  std::int64_t count = 0;
  graph::for_each_region(graph, [&](const graph::RegionSite& site) {
    for (graph::NodeId id = 0; id < site.graph.size(); ++id) {
      const graph::Op op = site.graph.node(id).op;
      if (op != graph::Op::parameter && op != graph::Op::constant) count += site.occurrences;
    }
  });
  return count;
}

/// A model that was read: its fragments are in the zoo's list.
struct ReadModel {
  std::vector<std::pair<std::size_t, std::int64_t>> parts;  ///< place in the zoo's list, occurrences
  db::Workload workload;
  ModelReport report;
};

class ZooTuning {
 public:
  ZooTuning(std::span<const ZooModel> models, const Tuner& tuner, RememberingTuner& memory, const FileSystem& files,
            const ZooOptions& options)
      : files_(models),
        tuner_(tuner),
        memory_(memory),
        disk_(files),
        options_(options),
        budget_(options.budget_seconds, options.stop) {}

  Result<Zoo> run() {
    STITCH_TRY(read_all());
    STITCH_TRY(plan());
    STITCH_TRY(tune());
    STITCH_TRY(report_all());
    zoo_.report.target = fmt::format("{} {}", tuner_.target().device, tuner_.target().architecture);
    zoo_.report.effort = to_string(options_.effort);
    return std::move(zoo_);
  }

 private:
  static constexpr double read_until = 0.1, planned_until = 0.3;

  [[nodiscard]] Error cancelled() const { return make_error(ErrorKind::cancelled, "stopped while tuning a zoo"); }
  [[nodiscard]] bool over() const { return budget_.token().stop_requested(); }

  Status read_all() {
    for (std::size_t m = 0; m < files_.size(); ++m) {
      if (options_.stop.stop_requested()) return cancelled();
      if (options_.progress) options_.progress({"import", read_until * m / files_.size(), files_[m].name});
      ZooRow row;
      row.model = files_[m].name;
      ReadModel model;
      const Status read = read_one(files_[m], row, model);
      if (!read) row.error = read.error().message;
      zoo_.report.models.push_back(std::move(row));
      models_.push_back(std::move(model));
    }
    return {};
  }

  Status read_one(const ZooModel& file, ZooRow& row, ReadModel& model) {
    STITCH_ASSIGN(const std::string bytes, disk_.read(file.path));
    STITCH_ASSIGN(import::Imported imported, import::import_bytes(bytes, file.name, options_.asked));
    const auto program =
        outline_program(imported, tuner_, {.name = file.name, .source = sha256(bytes), .stop = options_.stop});
    STITCH_ASSIGN(CutModel cut, cut_for_tuning(std::move(imported), bytes, file.name, tuner_,
                                               options_.asked.constraints, options_.stop));
    note_memory(program, row);
    row.library_calls = cut.fragments.library_calls - cut.fragments.opaque;
    row.operators = cut.fragments.opaque;
    row.fragments = std::ssize(cut.fragments.entries);
    row.opaque = cut.report.boundaries;
    model.workload = std::move(cut.workload);
    model.report = std::move(cut.report);
    for (Entry& entry : cut.fragments.entries) {
      const std::int64_t occurrences = entry.occurrences;
      const auto [place, added] = places_.emplace(entry.key, entries_.size());
      if (added) {
        entry.name = fmt::format("{}: {}", file.name, entry.name);
        entry.occurrences = 0;
        entries_.push_back(std::move(entry));
      }
      entries_[place->second].occurrences += occurrences;
      model.parts.emplace_back(place->second, occurrences);
    }
    return {};
  }

  static void note_memory(const Result<api::Program>& program, ZooRow& row) {
    if (!program) {
      row.no_program = program.error().message;
      return;
    }
    const api::ProgramRegion& region = program->regions[0];
    row.peak_before = region.eager_bytes;
    row.peak_after = region.arena_bytes;
    for (const api::ProgramPort& port : program->results) row.peak_after += api::arena_bytes_of(port.type.bytes());
  }

  /// What is searched has to be explored although it is settled.
  [[nodiscard]] bool searches() const { return options_.effort == Effort::full && tuner_.measures(); }
  [[nodiscard]] bool verifies() const { return options_.effort != Effort::none; }
  [[nodiscard]] bool is_settled(const Hash128& fragment) const {
    return verifies() ? memory_.is_settled(fragment) : memory_.has_plan(fragment);
  }

  Status plan() {
    std::set<Hash128> settled;
    for (const Entry& entry : entries_) {
      if (is_settled(entry.key)) settled.insert(entry.key);
    }
    zoo_.report.fragments = std::ssize(entries_);
    zoo_.report.tuned_before = std::ssize(settled);
    const EntryPlanning how{
        .progress = part_of(options_.progress, read_until, planned_until),
        .stop = options_.stop,
        .explores = [&](const Entry& entry) { return !over() && (searches() || !settled.contains(entry.key)); },
        .explores_until = budget_.token()};
    planned_ = plan_entries(entries_, tuner_, how);
    return options_.stop.stop_requested() ? Status(cancelled()) : Status();
  }

  Status tune() {
    FragmentTuning tuning(entries_, planned_, tuner_, &memory_,
                          {.verifies = verifies(),
                           .keeps_fragments = false,
                           .tuned = [&](const Entry& entry, const TunedFragment& tuned) { tell(entry, tuned); },
                           .progress = options_.progress,
                           .stop = budget_.token()});
    const std::int64_t trials = searches() ? full_trials_per_kernel * distinct_kernels() : 0;
    const Status tuned = tuning.tune_and_search(planned_until, trials);
    if (options_.stop.stop_requested()) return cancelled();
    // That the time is over is no error: what is there is reported.
    if (!tuned && !(tuned.error().kind == ErrorKind::cancelled && over())) return tuned;
    ModelReport all;
    tuning.finish(all);
    zoo_.report.search = all.search;
    zoo_.report.wrong_candidates = all.wrong_candidates;
    zoo_.faults = tuning.faults();
    failed_ = tuning.failed();
    return {};
  }

  void tell(const Entry& entry, const TunedFragment& tuned) {
    if (!known_.insert(entry.key).second) return;  // again, after a search
    const std::int64_t number = zoo_.report.tuned_before + ++zoo_.report.tuned_now;
    if (options_.tuned) options_.tuned(tuned, entry.name, number, zoo_.report.fragments);
  }

  [[nodiscard]] std::int64_t distinct_kernels() const {
    std::set<Hash128> kernels;
    for (const PlannedEntry& entry : planned_) {
      if (!entry.fused) continue;
      for (const search::PlannedKernel& kernel : entry.fused->kernels) kernels.insert(kernel.kernel->key);
    }
    return std::ssize(kernels);
  }

  /// What the store serves for a fragment now, or why there is nothing.
  struct Outcome {
    std::optional<api::Plan> plan;
    std::string failure;
  };

  Result<std::vector<Outcome>> outcomes() {
    std::vector<Outcome> found(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Hash128& key = entries_[i].key;
      if (is_settled(key)) {
        STITCH_ASSIGN(found[i].plan, memory_.plan_of(key));
        continue;
      }
      const auto why = failed_.find(key);
      if (why != failed_.end()) found[i].failure = fmt::format("{}: {}", entries_[i].name, why->second);
      if (!planned_[i].failure.empty()) found[i].failure = planned_[i].failure;
      ++(found[i].failure.empty() ? zoo_.report.left : zoo_.report.failed);
    }
    return found;
  }

  Status report_all() {
    STITCH_ASSIGN(const std::vector<Outcome> found, outcomes());
    for (std::size_t m = 0; m < models_.size(); ++m) {
      ZooRow& row = zoo_.report.models[m];
      if (!row.error.empty()) continue;
      for (const auto& [place, occurrences] : models_[m].parts) count(found[place], place, occurrences, row);
      if (row.tuned < row.fragments) row.measured_us.reset();
      STITCH_TRY(keep(row, models_[m]));
    }
    return {};
  }

  void count(const Outcome& outcome, std::size_t place, std::int64_t occurrences, ZooRow& row) const {
    const std::int64_t operators = occurrences * operators_run(entries_[place].graph);
    const auto add = [&](ZooFigures& sum, const ZooFigures& once) {
      sum.launches += occurrences * once.launches;
      sum.bytes += occurrences * once.bytes;
      sum.predicted_us += static_cast<double>(occurrences) * once.predicted_us;
    };
    ZooFigures before;
    if (const auto& unfused = planned_[place].unfused)
      before = {unfused->launches(), unfused->bytes(), unfused->predicted_us()};
    row.operators += operators;
    add(row.before, before);
    if (!outcome.plan) {
      add(row.after, before);
      if (outcome.failure.empty()) {
        ++row.left;
      } else {
        row.failures.push_back(outcome.failure);
      }
      return;
    }
    const api::Plan& plan = *outcome.plan;
    add(row.after, {std::ssize(plan.launches), plan.bytes, plan.predicted_us});
    row.ours += operators;
    if (verifies() && plan.verified_share <= 0) ++row.uncompared;
    const double measured = static_cast<double>(occurrences) * plan.measured_us.value_or(0);
    if (row.tuned++ == 0 && plan.measured_us) row.measured_us = 0;
    if (row.measured_us && plan.measured_us) {
      *row.measured_us += measured;
    } else {
      row.measured_us.reset();
    }
  }

  /// The model's record, as `stitch tune` leaves one.
  Status keep(const ZooRow& row, ReadModel& model) {
    ModelReport& report = model.report;
    report.launches = row.after.launches;
    report.bytes = row.after.bytes;
    report.predicted_us = row.after.predicted_us;
    report.launches_unfused = row.before.launches;
    report.bytes_unfused = row.before.bytes;
    report.predicted_unfused_us = row.before.predicted_us;
    for (const auto& [place, occurrences] : model.parts) report.fragments += occurrences;
    report.failures = row.failures;
    model.workload.report = to_json(report);
    return memory_.keep(model.workload);
  }

  const std::span<const ZooModel> files_;
  const Tuner& tuner_;
  RememberingTuner& memory_;
  const FileSystem& disk_;
  const ZooOptions& options_;
  const TimeBudget budget_;
  std::vector<ReadModel> models_;  ///< beside the report's rows
  std::vector<Entry> entries_;     ///< distinct over all models, with all their occurrences
  std::map<Hash128, std::size_t> places_;
  std::vector<PlannedEntry> planned_;
  std::map<Hash128, std::string> failed_;
  std::set<Hash128> known_;  ///< fragments that were told of
  Zoo zoo_;
};

}  // namespace

std::string_view to_string(Effort effort) {
  switch (effort) {
    case Effort::none: return "none";
    case Effort::quick: return "quick";
    default: return "full";
  }
}

Result<Effort> effort_from(std::string_view name) {
  for (const Effort effort : {Effort::none, Effort::quick, Effort::full}) {
    if (name == to_string(effort)) return effort;
  }
  return make_error(ErrorKind::invalid_argument, "{}: no effort; there are none, quick and full", name);
}

Result<Zoo> tune_zoo(std::span<const ZooModel> models, const Tuner& tuner, RememberingTuner& memory,
                     const FileSystem& files, const ZooOptions& options) {
  return ZooTuning(models, tuner, memory, files, options).run();
}

}  // namespace stitch::tuning
