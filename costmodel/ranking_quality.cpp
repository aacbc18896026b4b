#include "costmodel/ranking_quality.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>

namespace stitch::costmodel {
namespace {

std::vector<std::size_t> order_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  return order;
}

/// Ranks from 0; equal values share the mean of theirs.
std::vector<double> ranks_of(std::span<const double> values) {
  const std::vector<std::size_t> order = order_of(values);
  std::vector<double> ranks(values.size());
  for (std::size_t from = 0; from < order.size();) {
    std::size_t to = from + 1;
    while (to < order.size() && values[order[to]] == values[order[from]]) ++to;
    for (std::size_t i = from; i < to; ++i) ranks[order[i]] = (from + to - 1) / 2.0;
    from = to;
  }
  return ranks;
}

/// Pairs of equal values.
double ties(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  double pairs = 0;
  for (std::size_t from = 0; from < values.size();) {
    std::size_t to = from + 1;
    while (to < values.size() && values[to] == values[from]) ++to;
    pairs += (to - from) * (to - from - 1) / 2;
    from = to;
  }
  return pairs;
}

/// Sorts `values` and counts the pairs that stood the wrong way round.
double inversions(std::span<double> values, std::span<double> room) {
  if (values.size() < 2) return 0;
  const std::size_t half = values.size() / 2;
  double count = inversions(values.first(half), room.first(half));
  count += inversions(values.subspan(half), room.subspan(half));
  std::size_t left = 0, right = half;
  for (double& place : room) {
    if (right == values.size() || (left < half && values[left] <= values[right])) {
      place = values[left++];
    } else {
      place = values[right++];
      count += half - left;
    }
  }
  std::copy(room.begin(), room.end(), values.begin());
  return count;
}

/// One group's part in the sums of `total`.
void add(const RankedGroup& group, RankingQuality& total) {
  std::vector<double> predicted, measured, all;
  for (const Ranked& each : group) {
    all.push_back(each.predicted);
    if (each.failed) continue;
    predicted.push_back(each.predicted);
    measured.push_back(each.measured);
  }
  ++total.groups;
  total.candidates += group.size();
  total.failed += group.size() - measured.size();
  total.spearman += spearman(predicted, measured);
  total.kendall += kendall(predicted, measured);

  const auto [least, worst] = std::minmax_element(measured.begin(), measured.end());
  const double best = *least;
  const std::vector<std::size_t> order = order_of(all);
  std::vector<double> sorted = measured;
  std::sort(sorted.begin(), sorted.end());
  for (std::size_t d = 0; d < RankingQuality::depths.size(); ++d) {
    const std::size_t depth = RankingQuality::depths[d];
    const std::size_t wanted = std::min(depth, sorted.size());
    // By value, so that a tie at the border does not count against the order.
    const double border = sorted[wanted - 1];
    double found = 0, reached = *worst;
    bool any = false;
    for (std::size_t i = 0; i < std::min(depth, order.size()); ++i) {
      const Ranked& each = group[order[i]];
      if (each.failed) continue;
      if (each.measured <= border) ++found;
      reached = any ? std::min(reached, each.measured) : each.measured;
      any = true;
    }
    total.recall[d] += std::min(1.0, found / static_cast<double>(wanted));
    const double regret = reached / best - 1;
    total.regret[d] += regret;
    if (d == 0) total.worst_regret = std::max(total.worst_regret, regret);
  }
  double trials = 0;
  for (const std::size_t i : order) {
    ++trials;
    if (!group[i].failed && group[i].measured <= 1.01 * best) break;
  }
  total.trials_to_99 += trials;
  total.trials_to_99_share += trials / group.size();
}

}  // namespace

double spearman(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double middle = (static_cast<double>(x.size()) - 1) / 2;
  double both = 0, first = 0, second = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    both += (x[i] - middle) * (y[i] - middle);
    first += (x[i] - middle) * (x[i] - middle);
    second += (y[i] - middle) * (y[i] - middle);
  }
  return first > 0 && second > 0 ? both / std::sqrt(first * second) : 0;
}

double kendall(std::span<const double> a, std::span<const double> b) {
  // Knight's method: sorted by a (and by b among equals), discordant pairs are b's inversions.
  std::vector<std::size_t> order(a.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t i, std::size_t j) { return a[i] < a[j] || (a[i] == a[j] && b[i] < b[j]); });
  std::vector<double> values, room(a.size());
  double both = 0;
  std::size_t run = 1;
  for (std::size_t i = 0; i < order.size(); ++i) {
    values.push_back(b[order[i]]);
    const bool same = i > 0 && a[order[i]] == a[order[i - 1]] && b[order[i]] == b[order[i - 1]];
    run = same ? run + 1 : 1;
    both += run - 1;
  }
  const double pairs = a.size() * (a.size() - 1) / 2;
  const double tied_a = ties({a.begin(), a.end()}), tied_b = ties({b.begin(), b.end()});
  const double discordant = inversions(values, room);
  const double concordant = pairs - tied_a - tied_b + both - discordant;
  const double scale = std::sqrt((pairs - tied_a) * (pairs - tied_b));
  return scale > 0 ? (concordant - discordant) / scale : 0;
}

RankingQuality ranking_quality(std::span<const RankedGroup> groups) {
  RankingQuality total;
  for (const RankedGroup& group : groups) {
    if (std::count_if(group.begin(), group.end(), [](const Ranked& each) { return !each.failed; }) >= 2)
      add(group, total);
  }
  if (total.groups == 0) return total;
  const double count = total.groups;
  for (double* sum : {&total.spearman, &total.kendall, &total.trials_to_99, &total.trials_to_99_share}) *sum /= count;
  for (double& sum : total.recall) sum /= count;
  for (double& sum : total.regret) sum /= count;
  return total;
}

nlohmann::json to_document(const RankingQuality& quality) {
  nlohmann::json recall, regret;
  for (std::size_t d = 0; d < RankingQuality::depths.size(); ++d) {
    const std::string depth = std::to_string(RankingQuality::depths[d]);
    recall[depth] = quality.recall[d];
    regret[depth] = quality.regret[d];
  }
  return {{"groups", quality.groups},
          {"candidates", quality.candidates},
          {"failed", quality.failed},
          {"spearman", quality.spearman},
          {"kendall", quality.kendall},
          {"recall", recall},
          {"regret", regret},
          {"worst_regret", quality.worst_regret},
          {"trials_to_99", quality.trials_to_99},
          {"trials_to_99_share", quality.trials_to_99_share}};
}

}  // namespace stitch::costmodel
