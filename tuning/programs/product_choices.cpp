#include "tuning/programs/product_choices.h"

#include <algorithm>

#include "db/records.h"
#include "graph/calls/matmul_calls.h"
#include "graph/canonical.h"

namespace stitch::tuning {
namespace {

/// What the plan was measured to take.
std::optional<double> measured_us(const api::Plan& plan) {
  return plan.label == to_string(db::Label::measured) ? plan.measured_us : std::nullopt;
}

bool has_product(const graph::Graph& fragment) {
  return std::ranges::any_of(fragment.nodes(), graph::is_contraction, &graph::Node::op);
}

}  // namespace

ProductChoices::ProductChoices(const Tuner& tuner, RememberingTuner* memory, std::optional<ProductsBy> by,
                               bool measures, std::stop_token stop)
    : tuner_(tuner),
      memory_(memory),
      by_(by.value_or(tuner.products())),
      measures_(measures && tuner.measures_calls()),
      stop_(std::move(stop)) {}

bool ProductChoices::is_decided_by_times(const graph::Graph& call) const {
  return by_ == ProductsBy::faster || (by_ == ProductsBy::stream && graph::are_matmuls(call));
}

bool ProductChoices::is_ours(const graph::Graph& call, bool rest_apart) {
  if (by_ == ProductsBy::library || stop_.stop_requested()) return false;
  const bool needs_key = !left_.empty() || measures_ || memory_ != nullptr;
  const Result<graph::CanonicalForm> form =
      needs_key ? graph::canonicalise(call) : make_error(ErrorKind::unsupported, "its key decides nothing");
  if (form && left_.contains(form->key)) return false;
  const ProductChoice predicted = tuner_.choose_product(call, by_, rest_apart);
  if (predicted == ProductChoice::library) return false;
  if (!form || !is_decided_by_times(call)) return predicted == ProductChoice::ours;
  std::optional<bool> known;
  if (memory_ != nullptr) {
    const auto plan = memory_->plan_of(form->key);
    if (plan && *plan && measured_us(**plan)) {
      if (auto told = ours_is_measured_faster(form->graph, *measured_us(**plan), rest_apart, false)) known = *told;
    }
  }
  const bool taken = known ? *known : predicted == ProductChoice::ours || measures_;
  if (!taken) return false;
  const auto [asked, added] = asked_.try_emplace(form->key);
  asked->second.rest_apart = asked->second.rest_apart && rest_apart;
  asked->second.contends = predicted != ProductChoice::ours && !known;
  return true;
}

Result<bool> ProductChoices::settle(const api::Program& program, const ProgressSink& progress) {
  const std::size_t before = left_.size();
  for (std::size_t f = 0; f < program.fragments.size(); ++f) {
    const api::ProgramFragment& fragment = program.fragments[f];
    if (!has_product(fragment.graph)) continue;
    if (!fragment.plan) leave(fragment.key);
    if (!fragment.plan || !measures_ || !is_decided_by_times(fragment.graph)) continue;
    if (stop_.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while library calls were measured");
    const auto found = asked_.find(fragment.key);
    const Asked asked = found == asked_.end() ? Asked() : found->second;
    std::optional<bool> faster;
    if (const auto ours_us = measured_us(*fragment.plan)) {
      if (progress) progress({"measure", 1.0 * f / program.fragments.size(), "the library's calls"});
      STITCH_ASSIGN(faster, ours_is_measured_faster(fragment.graph, *ours_us, asked.rest_apart, true));
    }
    if (faster ? !*faster : asked.contends) leave(fragment.key);
  }
  return left_.size() > before;
}

Result<std::optional<bool>> ProductChoices::ours_is_measured_faster(const graph::Graph& product, double ours_us,
                                                                    bool rest_apart, bool measures) {
  const auto known = [&](const graph::Graph& call) { return time_of(call, measures); };
  STITCH_ASSIGN(const auto rival, library_rival(product, rest_apart, tuner_, known));
  if (!rival) return std::optional<bool>();
  return std::optional(rival->is_slower_than(ours_us));
}

Result<std::optional<CallTime>> ProductChoices::time_of(const graph::Graph& call, bool measures) {
  STITCH_ASSIGN(const auto form, graph::canonicalise(call));
  if (const auto known = times_.find(form.key); known != times_.end()) return known->second;
  if (memory_ != nullptr) {
    STITCH_ASSIGN(const auto stored, memory_->call_time(form.graph));
    if (stored || !measures) return stored;
  }
  if (!measures) return std::optional<CallTime>();
  const auto measured = tuner_.measure_call(form.graph);
  // That there is no library, or no memory, says nothing of the call; it is not asked for again here.
  std::optional<CallTime>& time = times_[form.key];
  if (!measured && !is_outcome(measured.error().kind)) return time;
  time = call_time_of(measured);
  if (memory_ != nullptr) STITCH_TRY(memory_->keep_call(form.graph, measured));
  return time;
}

}  // namespace stitch::tuning
