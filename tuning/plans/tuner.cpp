#include "tuning/plans/tuner.h"

#include <algorithm>

#include "costmodel/contraction/contraction_time.h"
#include "costmodel/contraction/product_rates.h"
#include "graph/calls/matmul_calls.h"
#include "graph/canonical.h"
#include "graph/subgraph.h"
#include "kernel/contraction/contraction_sides.h"
#include "kernel/contraction/row_reductions.h"
#include "kernel/contraction/summed_contraction.h"
#include "search/partition/loop_choice.h"
#include "tuning/contractions/contraction_choice.h"
#include "tuning/contractions/product_kernels.h"
#include "tuning/plans/call_record.h"
#include "tuning/plans/contraction_plan.h"
#include "tuning/plans/kernel_tuning.h"
#include "tuning/plans/plan_maker.h"
#include "tuning/plans/tuning_context.h"
#include "tuning/plans/tuning_records.h"

namespace stitch::tuning {
namespace {

/// Whether a program has a product computed by a kernel of ours. `rest_apart`: as graph::OwnCall has it.
bool is_taken(const ProductKernels& kernels, const graph::Graph& call, ProductsBy by, bool rest_apart) {
  return by == ProductsBy::ours || kernels.ours_is_faster(rest_apart) ||
         (by == ProductsBy::stream && !graph::are_matmuls(call));
}

/// What a product by itself takes, µs, by whichever computes it then.
struct OwnPrice {
  double us = 0;
  bool is_ours = false;
};
Result<OwnPrice> own_price(const graph::Graph& product, ProductsBy by, const DeviceSpec& device) {
  STITCH_ASSIGN(const ProductKernels kernels, product_kernels(product, device, 1));
  const bool taken = is_taken(kernels, product, by, true);
  return OwnPrice{taken ? kernels.best.front().predicted_us : kernels.rival_us + kernels.rest_us, taken};
}

/// What two products that are gates would take one after the other, the second with the first in its epilogue, µs.
Result<double> us_of_both(const kernel::ContractionProblem& problem, ProductsBy by, const DeviceSpec& device) {
  const graph::Graph& graph = *problem.graph;
  const graph::Value first{problem.root, 0};
  std::vector<graph::Value> read = {first};
  for (const graph::NodeId parameter : graph.parameters()) read.push_back({parameter, 0});
  STITCH_ASSIGN(const graph::Graph one, graph::part_of(graph, first));
  STITCH_ASSIGN(const graph::Graph two, graph::subgraph(graph, read, {graph.results().begin(), graph.results().end()}));
  STITCH_ASSIGN(const OwnPrice before, own_price(one, by, device));
  STITCH_ASSIGN(const OwnPrice behind, own_price(two, by, device));
  return before.us + behind.us - device.dependent_saving_us();
}

/// What a product would take behind which another kernel combines rows, or makes several results, and that kernel, µs.
/// `rest_apart`: whether sums of columns alone would have that kernel.
Result<double> us_before_rows(const kernel::ContractionProblem& problem, ProductsBy by, bool rest_apart,
                              const DeviceSpec& device) {
  if (problem.other_right) return us_of_both(problem, by, device);
  STITCH_ASSIGN(const graph::Graph product, kernel::without_rows(problem));
  STITCH_ASSIGN(const ProductKernels kernels, product_kernels(product, device, 1));
  const bool taken = is_taken(kernels, product, by, false);
  // Behind a library's call sums of columns are made where the rest of its epilogue is, and may be elsewhere anyway.
  const bool sums = !problem.column_sums.empty();
  const double rest = taken || !sums ? 0 : kernels.rest_us;
  const double launch = sums && !rest_apart ? costmodel::launch_time(device, {}) : 0;
  return (taken ? kernels.best.front().predicted_us : kernels.rival_us) +
         std::max(rest, costmodel::rows_apart_us(problem, product, device)) - launch - device.dependent_saving_us();
}

/// What products that are added would take one after the other, each of which reads the sum of those before, µs.
Result<double> us_of_terms(const kernel::ContractionProblem& problem, ProductsBy by, const DeviceSpec& device) {
  STITCH_ASSIGN(const OwnPrice behind, own_price(*problem.graph, by, device));
  double us = behind.us;
  int ours = behind.is_ours ? 1 : 0;
  for (const graph::NodeId root : kernel::other_roots(problem)) {
    STITCH_ASSIGN(const graph::Graph one, graph::part_of(*problem.summed, {root, 0}));
    STITCH_ASSIGN(const OwnPrice price, own_price(one, by, device));
    us += price.us + one.type(one.results()[0]).bytes() / device.copy_bandwidth() * 1e6;
    ours += price.is_ours ? 1 : 0;
  }
  return us - std::max(0, ours - 1) * device.dependent_saving_us();
}

/// What a product of operands in memory would take, behind what writes them there, µs. `apart`: kernels of their own.
Result<double> us_behind_operands(const kernel::ContractionProblem& problem, ProductsBy by, bool apart,
                                  const DeviceSpec& device) {
  STITCH_ASSIGN(const OwnPrice price, own_price(*problem.graph, by, device));
  return price.us + costmodel::computing_apart_us(problem, apart, device) -
         (apart && price.is_ours ? device.dependent_saving_us() : 0);
}

/// What a product would take whose depth is scaled part by part, if other kernels scaled its operands, or the sums of
/// its parts, µs.
Result<double> us_unscaled(const kernel::ContractionProblem& problem, ProductsBy by, bool apart,
                           const DeviceSpec& device) {
  if (!problem.scales->of_sums) {
    STITCH_ASSIGN(const kernel::ContractionProblem dequantised, dequantised_product(*problem.scaled));
    return us_behind_operands(dequantised, by, apart, device);
  }
  const std::vector<graph::NodeId> roots = kernel::contraction_roots(*problem.scaled);
  STITCH_ASSIGN(const graph::Graph parts, graph::part_of(*problem.scaled, {roots.at(0), 0}));
  STITCH_ASSIGN(const OwnPrice price, own_price(parts, by, device));
  return price.us + costmodel::rows_apart_us(problem, parts, device) -
         (price.is_ours ? device.dependent_saving_us() : 0);
}

/// What several products that are one kernel would take one by one, each by whichever computes it then, µs. All but the
/// first of ours stand behind a kernel.
Result<double> us_apart(const kernel::ContractionProblem& problem, ProductsBy by, bool rest_apart,
                        const DeviceSpec& device) {
  if (problem.scales) return us_unscaled(problem, by, rest_apart, device);
  if (!problem.computed.empty()) return us_behind_operands(problem, by, rest_apart, device);
  if (!problem.terms.empty()) return us_of_terms(problem, by, device);
  if (problem.has_rows()) return us_before_rows(problem, by, rest_apart, device);
  double us = 0;
  int ours = 0;
  for (const graph::Value result : problem.graph->results()) {
    STITCH_ASSIGN(const graph::Graph one, graph::part_of(*problem.graph, result));
    STITCH_ASSIGN(const OwnPrice price, own_price(one, by, device));
    us += price.us;
    ours += price.is_ours ? 1 : 0;
  }
  return us - std::max(0, ours - 1) * device.dependent_saving_us();
}

Error explores_only() { return make_error(ErrorKind::unavailable, "this tuner was made to explore only"); }

Result<TunedFragment> make_plan(const TuningContext& context, const PlanRequest& request, bool verifies) {
  if (is_product(request.fragment)) return contraction_plan(context, request, verifies);
  return verifies ? tune_plan(context, request) : predict_plan(context, request);
}

}  // namespace

Tuner::Tuner(std::unique_ptr<const TuningContext> context) : context_(std::move(context)) {}
Tuner::~Tuner() = default;

Result<std::unique_ptr<Tuner>> Tuner::create(TunerOptions options, profiler::Device& device, KernelTimer* timer,
                                             FileSystem& files, const Clock& clock) {
  STITCH_ASSIGN(auto context, TuningContext::create(std::move(options), device, timer, files, clock));
  return std::unique_ptr<Tuner>(new Tuner(std::move(context)));
}

const db::Target& Tuner::target() const { return context_->target; }
const search::Scorer& Tuner::scorer() const { return *context_->scorer; }
const std::string& Tuner::scorer_name() const { return context_->scorer_name; }
const std::vector<profiler::DeviceIdentity>& Tuner::judges() const { return context_->judges; }
bool Tuner::measures() const { return context_->timer != nullptr; }
bool Tuner::measures_plans() const { return measures() && context_->timer->has_plans(); }
bool Tuner::measures_calls() const { return measures() && context_->timer->has_calls(); }
WorkCounts Tuner::work() const { return context_->work.counts(); }
std::int64_t Tuner::trials_at_once() const { return context_->options.search.batch; }

Result<db::FragmentRecord> Tuner::describe(const graph::Graph& canonical, std::string_view name) const {
  return fragment_record(*context_, canonical, name);
}

Result<search::FusionPlan> Tuner::explore(const graph::Graph& canonical, const std::stop_token& stop) const {
  search::FusionOptions looking = context_->options.fusion;
  looking.stop = stop;
  return context_->arena.execute([&] { return search::explore_fusion(canonical, *context_->kernels, looking); });
}

bool Tuner::runs_in_one_kernel(const graph::Graph& loop, const std::stop_token& stop) const {
  search::FusionOptions looking = context_->options.fusion;
  looking.stop = stop;
  return context_->arena.execute([&] { return search::runs_in_one_kernel(loop, *context_->kernels, looking); });
}

bool Tuner::is_product(const graph::Graph& canonical) const { return tuning::is_product(canonical); }

bool Tuner::has_products(std::optional<ProductsBy> by) const {
  return by.value_or(context_->options.products) != ProductsBy::library;
}

ProductsBy Tuner::products() const { return context_->options.products; }

ProductChoice Tuner::choose_product(const graph::Graph& call, std::optional<ProductsBy> asked, bool rest_apart) const {
  const ProductsBy by = asked.value_or(context_->options.products);
  if (by == ProductsBy::library) return ProductChoice::library;
  const auto kernels = product_kernels(call, context_->device, 1);
  if (!kernels) return ProductChoice::library;
  const bool taken = is_taken(*kernels, call, by, rest_apart);
  if (!taken && !kernels->ours_may_be_faster(rest_apart)) return ProductChoice::library;
  const auto problem = product_of(call);
  const auto joins = [](const kernel::ContractionProblem& p) {
    return !p.members.empty() || !p.terms.empty() || p.has_rows() || !p.computed.empty() || p.scales;
  };
  // One call, or an attention.
  if (!problem || !joins(*problem)) return taken ? ProductChoice::ours : ProductChoice::contends;
  if (!taken) return ProductChoice::library;
  const auto apart = us_apart(*problem, by, rest_apart, context_->device);
  return apart && kernels->best.front().predicted_us < *apart ? ProductChoice::ours : ProductChoice::library;
}

std::optional<Tuner::ProductPrice> Tuner::product_price(const graph::Graph& graph) const {
  const auto kernels = product_kernels(graph, context_->device, 1);
  if (!kernels) return std::nullopt;
  return ProductPrice{kernels->best.front().predicted_us, kernels->rival_us, kernels->rest_us};
}

double Tuner::copy_us(double bytes) const {
  return costmodel::launch_time(context_->device, {}) + bytes / context_->device.copy_bandwidth() * 1e6;
}

Result<search::UnfusedFragment> Tuner::unfused(const graph::Graph& canonical, const std::stop_token& stop) const {
  return context_->arena.execute([&] { return search::unfused_fragment(canonical, *context_->kernels, stop); });
}

Result<TunedFragment> Tuner::predict(const PlanRequest& request) const {
  if (context_->workshop == nullptr) return explores_only();
  context_->work.count(&WorkCounts::predicted);
  return context_->predicting.execute([&] { return make_plan(*context_, request, false); });
}

Result<TunedFragment> Tuner::tune(const PlanRequest& request) const {
  if (context_->workshop == nullptr) return explores_only();
  context_->work.count(&WorkCounts::tuned);
  return context_->arena.execute([&] { return make_plan(*context_, request, true); });
}

Status Tuner::try_product(const graph::Graph& canonical, std::span<const int> places, const ProductJudged& judged,
                          const std::stop_token& stop, search::PipelineAblation ablation) const {
  if (context_->workshop == nullptr) return explores_only();
  return context_->arena.execute([&]() -> Status {
    const int deepest = places.empty() ? 0 : *std::ranges::max_element(places);
    STITCH_ASSIGN(const ProductKernels kernels,
                  product_kernels(canonical, context_->device, deepest + 1, nullptr, ablation));
    STITCH_ASSIGN(const db::FragmentRecord fragment, fragment_record(*context_, canonical, {}));
    const ProductTrials trials(*context_, kernels, fragment.key, stop);
    std::vector<int> there(places.begin(), places.end());
    std::erase_if(there, [&](int place) { return place >= std::ssize(kernels.best); });
    for (ProductTrial& trial : trials.build_all(there)) {
      if (!trial.failure && !stop.stop_requested()) trials.verify(trial);
      if (!trial.failure && !stop.stop_requested() && context_->timer != nullptr) trials.measure(trial);
      if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped while schedules were tried");
      if (trial.failure && !is_outcome(trial.failure->kind)) return *trial.failure;
      judged(kernels, trial);
    }
    return {};
  });
}

Result<double> Tuner::measure_headroom(const search::SharedKernel& kernel, const std::stop_token& stop) const {
  if (context_->workshop == nullptr) return explores_only();
  if (!kernel->feasible()) return Attempts().why_none();
  return context_->arena.execute([&] { return tuning::measure_headroom(*context_, kernel, stop); });
}

Result<SearchedKernel> Tuner::search(const SearchRequest& request) const {
  if (!measures() || context_->workshop == nullptr)
    return make_error(ErrorKind::unavailable, "there is nothing to measure kernels on");
  return context_->arena.execute([&] { return search_candidates(*context_, request); });
}

Result<profiler::MeasuredCall> Tuner::measure_call(const graph::Graph& call) const {
  if (!measures_calls()) return make_error(ErrorKind::unavailable, "there is nothing to measure library calls on");
  auto measured = context_->timer->measure_call(call);
  if (measured) {
    if (measured->measurement.kind == profiler::Measurement::Kind::device_time) return measured;
    return make_error(ErrorKind::unsupported, "the device counts events of library calls, and tells no times");
  }
  if (!is_outcome(measured.error().kind)) return measured;
  STITCH_ASSIGN(const auto form, graph::canonicalise(call));
  const std::string& on = context_->timer->identity().key;
  const auto records = call_records({form.key, context_->target}, measured, on, context_->provenance("measured", on));
  for (const db::Candidate& candidate : records.candidates) context_->faults->note(candidate);
  return measured;
}

std::shared_ptr<const BuiltKernel> Tuner::built(const search::SharedKernel& kernel) const {
  if (context_->workshop == nullptr) return nullptr;
  const Attempts attempts = context_->workshop->build(kernel);
  return attempts.best ? attempts.best->built : nullptr;
}

}  // namespace stitch::tuning
