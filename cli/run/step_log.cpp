#include "cli/run/step_log.h"

#include <chrono>
#include <cmath>

#include "client/host/library_call.h"
#include "graph/literal.h"
#include "graph/reference/evaluate.h"
#include "kernel/contraction/contraction_schedule.h"

namespace stitch::cli {
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// How near an error comes to its tolerance; beyond 1 it is too large.
double share(double error, double tolerance) {
  if (error == 0) return 0;
  return tolerance == 0 ? HUGE_VAL : error / tolerance;
}

void note(Accuracy& accuracy, double wanted, double value, double eager) {
  if (!std::isfinite(wanted) || !std::isfinite(value) || !std::isfinite(eager)) return;
  accuracy.values += wanted * wanted;
  accuracy.ours += (value - wanted) * (value - wanted);
  accuracy.eager += (eager - wanted) * (eager - wanted);
}

}  // namespace

Status StepLog::before(const client::StepRun& run) {
  given_.clear();
  if (check_ != Check::none && run.graph != nullptr && run.by != client::StepBy::reference) {
    for (const auto& span : run.parameters) given_.emplace_back(span.begin(), span.end());
  }
  begun_ = now();
  return {};
}

StepRow& StepLog::row_of(const client::StepRun& run) {
  const std::string kind(api::kind_of(run.step));
  std::int64_t index = 0;
  if (const auto* fragment = std::get_if<api::FragmentStep>(&run.step.work)) index = fragment->fragment;
  if (const auto* call = std::get_if<api::LibraryStep>(&run.step.work)) index = call->call;
  const auto [place, added] = places_.emplace(std::pair(kind, index), rows_.size());
  if (added) {
    StepRow row;
    row.kind = kind;
    row.by = run.by;
    row.name = run.step.name;
    if (const auto* fragment = std::get_if<api::FragmentStep>(&run.step.work)) {
      row.name = fmt::format("{}, {}", program_.fragments[fragment->fragment].key.hex().substr(0, 12), run.step.name);
    }
    rows_.push_back(std::move(row));
  }
  return rows_[place->second];
}

Status StepLog::after(const client::StepRun& run) {
  const double seconds = now() - begun_;
  StepRow& row = row_of(run);
  ++row.runs;
  row.bytes += run.step.bytes;
  if (const auto* fragment = std::get_if<api::FragmentStep>(&run.step.work)) {
    if (const auto& plan = program_.fragments[fragment->fragment].plan) {
      row.launches += std::ssize(plan->launches);
      row.bytes += plan->bytes;
    }
  }
  if (run.graph != nullptr) row.seconds += seconds;  // of loops and branches the steps inside say it
  if (check_ == Check::none || run.graph == nullptr || run.by == client::StepBy::reference) return {};
  return compare(run, row);
}

Status StepLog::compare(const client::StepRun& run, StepRow& row) {
  const std::vector<std::span<const std::byte>> results(run.results.begin(), run.results.end());
  return compare_with_reference(*run.graph, given_, results, client::longest_contraction(*run.graph),
                                program_.target.architecture, check_, row);
}

std::int64_t StepLog::wrong() const {
  std::int64_t wrong = 0;
  for (const StepRow& row : rows_) wrong += row.wrong;
  return wrong;
}

Status compare_with_reference(const graph::Graph& graph, const std::vector<std::vector<std::byte>>& parameters,
                              std::span<const std::span<const std::byte>> results, std::int64_t serial,
                              std::string_view architecture, Check check, StepRow& row) {
  std::vector<graph::Tensor> arguments;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const graph::TensorType& type = graph.node(graph.parameters()[i]).type();
    arguments.push_back(graph::tensor_from_bytes(type, graph::Box::whole(type.dims), parameters[i]));
  }
  graph::EvaluateOptions options;
  options.bounds = true;
  options.error_model.serial_additions = std::max(options.error_model.serial_additions, serial);
  options.error_model.flush_denormals = true;  // as verification allows it
  if (architecture.starts_with("sm_90")) options.error_model.narrow_part = kernel::promoted_depth;
  STITCH_ASSIGN(const auto reference, graph::evaluate(graph, arguments, options));
  std::vector<graph::Tensor> eager;
  if (check == Check::reference_and_eager) {
    graph::EvaluateOptions one_at_a_time;
    one_at_a_time.round = true;
    STITCH_ASSIGN(eager, graph::evaluate(graph, arguments, one_at_a_time));
    if (!row.accuracy) row.accuracy.emplace();
  }
  for (std::size_t r = 0; r < results.size(); ++r) {
    const graph::TensorType& type = graph.type(graph.results()[r]);
    const graph::Tensor found = graph::tensor_from_bytes(type, graph::Box::whole(type.dims), results[r]);
    for (std::int64_t i = 0; i < type.elements(); ++i) {
      const double value = found.at(i), wanted = reference[r].at(i), bound = reference[r].bound(i);
      ++row.compared;
      if (std::isinf(bound)) {
        ++row.unchecked;
        continue;
      }
      const bool accepted = graph::accepts(wanted, bound, value);
      const bool same = value == wanted || (std::isnan(value) && std::isnan(wanted));
      const double error = same ? 0 : std::isfinite(value - wanted) ? std::fabs(value - wanted) : HUGE_VAL;
      if (share(error, bound) > share(row.error, row.tolerance) || (row.error == 0 && row.tolerance == 0)) {
        row.error = error;
        row.tolerance = bound;
      }
      if (!eager.empty()) note(*row.accuracy, wanted, value, eager[r].at(i));
      if (accepted) continue;
      if (row.wrong++ == 0) {
        row.first_wrong =
            fmt::format("result {}, element {}: {}, the reference has {} ± {}", r, i, value, wanted, bound);
      }
    }
  }
  return {};
}

}  // namespace stitch::cli
