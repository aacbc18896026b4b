#include "search/schedule/kernel_cache.h"

#include <algorithm>
#include <numeric>

#include "kernel/rewrite/online_softmax.h"
#include "kernel/rewrite/small_selection.h"
#include "kernel/rewrite/sorted_updates.h"
#include "kernel/rewrite/tiled_scan.h"
#include "kernel/rewrite/tiled_variance.h"
#include "search/schedule/kernel_size.h"

namespace stitch::search {
namespace {

/// First `inner`, then `outer`: position i of the innermost is position outer[inner[i]] of the outermost.
std::vector<int> composed(const std::vector<int>& outer, const std::vector<int>& inner) {
  std::vector<int> order;
  for (const int i : inner) order.push_back(outer[i]);
  return order;
}

std::vector<int> in_order(std::size_t count) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

/// Which share of its time a kernel is to gain before its maxima and sums are joined: what is closer is called equal,
/// and then the one as it was written is the simpler one.
constexpr double least_gain_of_joining = 0.01;
/// The same of updates that are sorted: neither what a search takes nor what atomics that meet do has been measured
/// (docs/cost-model.md: scatters are off by a half).
constexpr double least_gain_of_sorting = 0.1;
/// The same of scans that are tiled, which cross the grid twice more and may read from L2 what another phase has read:
/// what is nearer than that the model does not tell apart (docs/cost-model.md: scans are off by a half).
constexpr double least_gain_of_tiling_scans = 0.1;

/// Whether the best schedule may read an input again because something of all of it had to be known first: in a later
/// phase, or in a later sweep that holds nothing.
bool reads_again(const ExploredKernel& kernel) {
  if (!kernel.feasible()) return true;
  const kernel::Schedule& schedule = kernel.candidates.front().schedule;
  return schedule.phases.size() > 1 || std::ranges::any_of(schedule.phases, [](const auto& groups) {
           return std::ranges::any_of(
               groups, [](const kernel::GroupMapping& group) { return group.hold == kernel::Hold::reload; });
         });
}

}  // namespace

Result<std::shared_ptr<ExploredKernel>> KernelCache::explore_form(graph::CanonicalForm& form,
                                                                  const std::stop_token& stop) const {
  StitchOptions options = options_;
  options.stop = stop;
  auto explored = std::make_shared<ExploredKernel>();
  explored->key = form.key;
  explored->graph = std::move(form.graph);
  Result<std::vector<StitchCandidate>> candidates = explore_stitches(explored->graph, scorer_, options);
  if (candidates) {
    explored->candidates = std::move(*candidates);
  } else if (candidates.error().kind == ErrorKind::constraint) {
    explored->why = candidates.error();
  } else {
    return candidates.error();
  }
  return explored;
}

/// Takes another form of `from` where it is predicted to need less than `share` of the time.
Status KernelCache::prefer(Entry& entry, const Entry& from, const std::optional<graph::Graph>& other, double share,
                           const std::stop_token& stop) const {
  if (!other) return {};
  STITCH_ASSIGN(graph::CanonicalForm form, graph::canonicalise(*other));
  STITCH_ASSIGN(const auto explored, explore_form(form, stop));
  const SharedKernel& best = entry.kernel;
  if (!explored->feasible() || (best->feasible() && explored->predicted_us() >= share * best->predicted_us()))
    return {};
  entry = Entry{explored, composed(from.parameter_order, form.parameter_order),
                composed(from.result_order, form.result_order)};
  return {};
}

Result<KernelCache::Entry> KernelCache::explore_fresh(graph::CanonicalForm& form, const std::stop_token& stop) const {
  STITCH_ASSIGN(const auto own, explore_form(form, stop));
  const Entry written{own, in_order(form.parameter_order.size()), in_order(form.result_order.size())};
  Entry entry = written;
  STITCH_TRY(prefer(entry, written, kernel::select_one_by_one(own->graph), 1, stop));
  if (options_.sort_updates) {
    for (const std::int64_t line : kernel::sorted_lines_of(own->graph))
      STITCH_TRY(prefer(entry, written, kernel::sort_updates(own->graph, line), 1 - least_gain_of_sorting, stop));
  }
  // Rows would be added in an order that depends on what else the kernel computes.
  if (own->graph.constraints.batch_invariant) return entry;
  if (options_.join_max_and_exp_sums)
    STITCH_TRY(prefer(entry, written, kernel::join_max_and_exp_sums(own->graph), 1 - least_gain_of_joining, stop));
  if (reads_again(*own)) STITCH_TRY(prefer(entry, written, kernel::tile_variances(own->graph), 1, stop));
  if (options_.tile_scans) {
    const Entry best = entry;
    STITCH_TRY(prefer(entry, best, kernel::tile_scans(best.kernel->graph), 1 - least_gain_of_tiling_scans, stop));
  }
  return entry;
}

/// What stands for a kernel that is too large to be looked at; nothing where it is not.
std::optional<KernelCache::Entry> KernelCache::too_large(const graph::Graph& kernel) {
  const double instructions = connected_instructions(kernel);
  if (instructions <= most_connected_instructions) return std::nullopt;
  auto infeasible = std::make_shared<ExploredKernel>();
  infeasible->why = make_error(
      ErrorKind::constraint, "operators that hang together take about {:.0f} instructions, at most {:.0f} fit a kernel",
      instructions, most_connected_instructions);
  return Entry{std::move(infeasible), {}, {}};
}

Result<KernelCache::Entry> KernelCache::explore(const graph::Graph& kernel, const std::stop_token& stop) {
  if (auto large = too_large(kernel)) return std::move(*large);
  STITCH_ASSIGN(graph::CanonicalForm form, graph::canonicalise(kernel));
  const auto placed = [&](const Known& known, const graph::Graph& asked) -> Result<Entry> {
    if (!graph::same_form(known.asked, asked))
      return make_error(ErrorKind::already_exists, "kernel {}: another graph has this key, as no two have by chance",
                        form.key.hex());
    return Entry{known.entry.kernel, composed(form.parameter_order, known.entry.parameter_order),
                 composed(form.result_order, known.entry.result_order)};
  };
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kernels_.find(form.key); found != kernels_.end()) return placed(found->second, form.graph);
  }
  const graph::Graph asked = form.graph;
  STITCH_ASSIGN(Entry fresh, explore_fresh(form, stop));
  const std::lock_guard lock(mutex_);
  return placed(kernels_.try_emplace(form.key, Known{std::move(fresh), asked}).first->second, asked);
}

std::size_t KernelCache::size() const {
  const std::lock_guard lock(mutex_);
  return kernels_.size();
}

}  // namespace stitch::search
