#include "daemon/model_tuning.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "graph/canonical.h"
#include "graph/simplify.h"

namespace stitch::daemon {
namespace {

using graph::Graph;
using graph::Op;

/// What the planning of one distinct fragment gave.
struct PlannedEntry {
  std::optional<search::FusionPlan> fused, unfused;
  std::string failure;
};

std::vector<PlannedEntry> plan_entries(const ModelFragments& model, const Tuner& tuner, const ProgressSink& progress,
                                       const std::stop_token& stop, double until) {
  std::vector<PlannedEntry> planned(model.entries.size());
  std::atomic<std::size_t> done = 0;
  std::mutex reporting;
  // Large fragments first: the last one to finish should be a small one.
  std::vector<std::size_t> order(model.entries.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return model.entries[a].graph.size() > model.entries[b].graph.size();
  });
  tbb::parallel_for(std::size_t{0}, order.size(), [&](std::size_t i) {
    if (stop.stop_requested()) return;
    const ModelFragments::Entry& entry = model.entries[order[i]];
    PlannedEntry& plan = planned[order[i]];
    const auto note = [&](std::string_view what, const Result<search::FusionPlan>& result) {
      if (!result)
        plan.failure +=
            fmt::format("{}{}: {}: {}", plan.failure.empty() ? "" : "; ", entry.name, what, result.error().message);
    };
    Result<search::FusionPlan> fused = tuner.explore(entry.graph);
    note("plan", fused);
    Result<search::FusionPlan> unfused = tuner.unfused(entry.graph);
    if (fused) plan.fused = std::move(*fused);
    if (unfused) plan.unfused = std::move(*unfused);
    const std::size_t ready = ++done;
    const std::lock_guard lock(reporting);
    if (progress) {
      progress({"plan", until * static_cast<double>(ready) / static_cast<double>(order.size()),
                fmt::format("fragment {} of {}", ready, order.size())});
    }
  });
  return planned;
}

void count(const ModelFragments& model, const std::vector<PlannedEntry>& planned, ModelReport& report) {
  std::set<Hash128> kernels;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const std::int64_t times = model.entries[i].occurrences;
    report.fragments += times;
    if (planned[i].fused) {
      for (const search::PlannedKernel& kernel : planned[i].fused->kernels) kernels.insert(kernel.kernel->key);
      report.launches += times * static_cast<std::int64_t>(planned[i].fused->kernels.size());
      report.bytes += times * search::plan_bytes(*planned[i].fused);
      report.predicted_us += static_cast<double>(times) * planned[i].fused->predicted_us;
    }
    if (planned[i].unfused) {
      report.launches_unfused += times * static_cast<std::int64_t>(planned[i].unfused->kernels.size());
      report.bytes_unfused += times * search::plan_bytes(*planned[i].unfused);
      report.predicted_unfused_us += static_cast<double>(times) * planned[i].unfused->predicted_us;
    }
    if (!planned[i].failure.empty()) report.failures.push_back(planned[i].failure);
  }
  report.kernels = static_cast<std::int64_t>(kernels.size());
}

/// Import, cut and plan: what plan_model and tune_model have in common.
struct PlannedModel {
  ModelFragments model;
  std::vector<PlannedEntry> planned;
  ModelTuning tuning;
};

Result<PlannedModel> import_and_plan(std::string_view bytes, std::string_view name, const Tuner& tuner,
                                     const ProgressSink& progress, const std::stop_token& stop, double until) {
  PlannedModel result;
  ModelReport& report = result.tuning.report;
  report.model = name;
  if (progress) progress({"import", 0, std::string(name)});
  const Stopwatch importing;
  STITCH_ASSIGN(auto imported, import::import_bytes(bytes, name));
  result.tuning.workload.format = imported.format;
  STITCH_ASSIGN(result.model, cut_model(std::move(imported)));
  report.seconds.import = importing.seconds();
  report.operators = result.model.operators;
  report.distinct_fragments = static_cast<std::int64_t>(result.model.entries.size());
  report.library_calls = result.model.library_calls;
  for (const import::Boundary& boundary : result.model.boundaries) {
    const auto known = std::find_if(report.boundaries.begin(), report.boundaries.end(),
                                    [&](const auto& entry) { return entry.first == boundary.op; });
    if (known == report.boundaries.end()) {
      report.boundaries.emplace_back(boundary.op, boundary.occurrences);
    } else {
      known->second += boundary.occurrences;
    }
  }
  const Stopwatch planning;
  result.planned = plan_entries(result.model, tuner, progress, stop, until);
  if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while planning {}", name);
  report.seconds.plan = planning.seconds();
  count(result.model, result.planned, report);
  db::Workload& workload = result.tuning.workload;
  workload.key = hash_bytes(bytes);
  workload.name = name;
  for (const ModelFragments::Entry& entry : result.model.entries) {
    workload.parts.push_back({entry.key, entry.occurrences});
  }
  return result;
}

}  // namespace

Result<ModelFragments> cut_model(import::Imported imported) {
  ModelFragments model;
  model.operators = graph::operator_count(imported.graph);
  model.boundaries = std::move(imported.boundaries);
  STITCH_TRY(graph::simplify(imported.graph));
  std::map<Hash128, std::size_t> known;
  Status status;
  graph::for_each_region(imported.graph, [&](const graph::RegionSite& site) {
    if (site.occurrences == 0 || !status) return;
    graph::CutOptions options;
    options.carried = site.is_loop_body;
    const graph::CutGraph cut = graph::cut(site.graph, options);
    model.library_calls += site.occurrences * static_cast<std::int64_t>(cut.calls.size());
    for (const graph::NodeId id : cut.others) {
      const Op op = site.graph.node(id).op;
      if (op != Op::loop && op != Op::conditional) model.library_calls += site.occurrences;
    }
    for (const graph::FragmentSite& fragment : cut.fragments) {
      Result<graph::CanonicalForm> form = graph::canonicalise(fragment.graph);
      const std::string place =
          fmt::format("{}level {}", site.path.empty() ? "" : site.path.substr(1) + ", ", fragment.level);
      if (!form) {
        status = form.error().within(place);
        return;
      }
      const auto [entry, added] = known.emplace(form->key, model.entries.size());
      if (added) model.entries.push_back({form->key, form->family_key, std::move(form->graph), 0, place});
      model.entries[entry->second].occurrences += site.occurrences;
    }
  });
  if (!status) return status.error();
  return model;
}

Result<ModelTuning> plan_model(std::string_view bytes, std::string_view name, const Tuner& tuner,
                               const ProgressSink& progress, std::stop_token stop) {
  STITCH_ASSIGN(auto planned, import_and_plan(bytes, name, tuner, progress, stop, 1.0));
  planned.tuning.workload.report = to_json(planned.tuning.report);
  return std::move(planned.tuning);
}

Result<ModelTuning> tune_model(std::string_view bytes, std::string_view name, const Tuner& tuner,
                               const ProgressSink& progress, std::stop_token stop, TuningStore* store) {
  constexpr double planning_share = 0.3;
  STITCH_ASSIGN(auto planned, import_and_plan(bytes, name, tuner, progress, stop, planning_share));
  ModelTuning& tuning = planned.tuning;
  std::vector<std::size_t> order(planned.planned.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto gain = [&](std::size_t i) {
    const PlannedEntry& plan = planned.planned[i];
    if (!plan.fused || !plan.unfused) return 0.0;
    return static_cast<double>(planned.model.entries[i].occurrences) *
           (plan.unfused->predicted_us - plan.fused->predicted_us);
  };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return gain(a) > gain(b); });
  std::set<Hash128> verified, wrong;
  for (std::size_t step = 0; step < order.size(); ++step) {
    const ModelFragments::Entry& entry = planned.model.entries[order[step]];
    const PlannedEntry& plan = planned.planned[order[step]];
    if (!plan.fused) continue;
    if (store != nullptr && store->is_settled(entry.key)) {
      for (const search::PlannedKernel& kernel : plan.fused->kernels) verified.insert(kernel.kernel->key);
      continue;
    }
    const double from =
        planning_share + (1 - planning_share) * static_cast<double>(step) / static_cast<double>(order.size());
    const double span = (1 - planning_share) / static_cast<double>(order.size());
    const ProgressSink inner = [&](const Progress& p) {
      if (progress)
        progress(
            {p.stage, from + span * p.share, fmt::format("fragment {} of {}: {}", step + 1, order.size(), p.detail)});
    };
    const std::string title = fmt::format("{}: {}", name, entry.name);
    Result<TunedFragment> tuned = store != nullptr
                                      ? store->tune(entry.graph, entry.key, title, inner, stop, &*plan.fused)
                                      : tuner.tune(entry.graph, title, inner, stop, &*plan.fused);
    if (!tuned) {
      if (tuned.error().kind == ErrorKind::cancelled) return tuned.error();
      tuning.report.failures.push_back(fmt::format("{}: {}", entry.name, tuned.error().message));
      if (tuned.error().kind == ErrorKind::correctness || tuned.error().kind == ErrorKind::runtime)
        ++tuning.report.wrong_kernels;
      continue;
    }
    tuning.report.seconds.codegen += tuned->seconds.codegen;
    tuning.report.seconds.verify += tuned->seconds.verify;
    tuning.report.seconds.measure += tuned->seconds.measure;
    for (const KernelReport& kernel : tuned->kernels) {
      if (kernel.verification && kernel.verification->correct) verified.insert(kernel.key);
    }
    if (store != nullptr) STITCH_TRY(store->keep(*tuned));
    tuning.fragments.push_back(std::move(*tuned));
  }
  tuning.report.verified_kernels = static_cast<std::int64_t>(verified.size());
  tuning.workload.report = to_json(tuning.report);
  if (store != nullptr) STITCH_TRY(store->keep(tuning.workload));
  return std::move(tuning);
}

std::string to_json(const ModelReport& report) {
  nlohmann::ordered_json json;
  json["model"] = report.model;
  json["operators"] = report.operators;
  json["fragments"] = report.fragments;
  json["distinct_fragments"] = report.distinct_fragments;
  json["kernels"] = report.kernels;
  json["launches"] = report.launches;
  json["library_calls"] = report.library_calls;
  json["bytes"] = report.bytes;
  json["launches_unfused"] = report.launches_unfused;
  json["bytes_unfused"] = report.bytes_unfused;
  json["predicted_us"] = report.predicted_us;
  json["predicted_unfused_us"] = report.predicted_unfused_us;
  json["seconds"] = {{"import", report.seconds.import},
                     {"plan", report.seconds.plan},
                     {"codegen", report.seconds.codegen},
                     {"verify", report.seconds.verify},
                     {"measure", report.seconds.measure}};
  json["boundaries"] = nlohmann::ordered_json::array();
  for (const auto& [op, times] : report.boundaries) json["boundaries"].push_back({{"operator", op}, {"count", times}});
  json["verified"] = {{"kernels", report.verified_kernels}, {"wrong", report.wrong_kernels}};
  json["failures"] = report.failures;
  return json.dump();
}

std::string to_table(const ModelReport& report) {
  std::string text;
  const auto row = [&](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<28}{}\n", name, value);
  };
  const auto ratio = [](double ours, double theirs) {
    return theirs > 0 ? fmt::format("{:.2f}", ours / theirs) : std::string("-");
  };
  text += fmt::format("{}\n", report.model);
  row("operators", fmt::format("{}", report.operators));
  row("fragments", fmt::format("{} ({} distinct)", report.fragments, report.distinct_fragments));
  row("kernels", fmt::format("{} distinct", report.kernels));
  row("launches",
      fmt::format("{} (unfused {}, ratio {})", report.launches, report.launches_unfused,
                  ratio(static_cast<double>(report.launches), static_cast<double>(report.launches_unfused))));
  row("library calls", fmt::format("{}", report.library_calls));
  row("device memory",
      fmt::format("{:.1f} MB (unfused {:.1f} MB, ratio {})", static_cast<double>(report.bytes) / 1e6,
                  static_cast<double>(report.bytes_unfused) / 1e6,
                  ratio(static_cast<double>(report.bytes), static_cast<double>(report.bytes_unfused))));
  row("predicted", fmt::format("{:.1f} us (unfused {:.1f} us)", report.predicted_us, report.predicted_unfused_us));
  row("verified kernels", fmt::format("{} right, {} wrong", report.verified_kernels, report.wrong_kernels));
  const StageSeconds& spent = report.seconds;
  row("seconds", fmt::format("import {:.2f}, plan {:.2f}, codegen {:.2f}, verify {:.2f}", spent.import, spent.plan,
                             spent.codegen, spent.verify) +
                     (spent.measure > 0 ? fmt::format(", measure {:.2f}", spent.measure) : ""));
  for (const auto& [op, times] : report.boundaries) row("boundary", fmt::format("{} x{}", op, times));
  for (const std::string& failure : report.failures) row("no plan", failure);
  return text;
}

}  // namespace stitch::daemon
