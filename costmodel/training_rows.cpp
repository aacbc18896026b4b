#include "costmodel/training_rows.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "costmodel/kernel_features.h"

namespace stitch::costmodel {
namespace {

using SampleSpan = std::span<const TrainingSample* const>;

/// Calls `visit` with each kernel's samples on each device.
template <class Visit>
void for_each_group(SampleSpan samples, Visit&& visit) {
  for (std::size_t from = 0; from < samples.size();) {
    std::size_t to = from + 1;
    while (to < samples.size() && samples[to]->kernel == samples[from]->kernel &&
           samples[to]->device == samples[from]->device) {
      ++to;
    }
    visit(samples.subspan(from, to - from));
    from = to;
  }
}

bool is_compiled(const TrainingSample& sample) {
  const auto columns = feature_columns();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].compiled && !std::isnan(sample.features[i])) return true;
  }
  return false;
}

void append(const std::vector<float>& row, TreeSamples& to) { to.rows.insert(to.rows.end(), row.begin(), row.end()); }

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double residual_of(const TrainingSample& sample) { return std::log(sample.measured / sample.analytical_us); }

}  // namespace

bool can_train(SampleSpan samples) {
  bool can = false;
  for_each_group(samples, [&](SampleSpan group) {
    can = can || std::count_if(group.begin(), group.end(), [](const auto* each) { return each->is_measured(); }) >= 2;
  });
  return can;
}

TreeSamples ranking_rows(SampleSpan samples, Opinion opinion) {
  TreeSamples rows;
  rows.columns = feature_columns().size();
  for_each_group(samples, [&](SampleSpan group) {
    std::vector<const TrainingSample*> known;
    for (const TrainingSample* sample : group) {
      const bool tried = sample->failed || sample->measured > 0;
      if (opinion == Opinion::analytical ? !sample->failed : tried) known.push_back(sample);
    }
    if (known.size() < 2) return;
    const auto time = [&](const TrainingSample& sample) {
      if (opinion == Opinion::analytical) return sample.analytical_us;
      return sample.failed ? std::numeric_limits<double>::infinity() : sample.measured;
    };
    std::stable_sort(known.begin(), known.end(), [&](const auto* a, const auto* b) { return time(*a) > time(*b); });
    std::vector<float> labels(known.size());
    for (std::size_t i = 1; i < known.size(); ++i)
      labels[i] = time(*known[i]) == time(*known[i - 1]) ? labels[i - 1] : i;
    const bool compiled = std::any_of(known.begin(), known.end(), [](const auto* each) { return is_compiled(*each); });
    for (int pass = 0; pass < (compiled ? 2 : 1); ++pass) {
      for (const TrainingSample* sample : known)
        append(pass == 0 ? sample->features : before_compilation(sample->features), rows);
      rows.labels.insert(rows.labels.end(), labels.begin(), labels.end());
      rows.groups.push_back(known.size());
    }
  });
  return rows;
}

KernelLevels kernel_levels(SampleSpan samples, const BoostedTrees* trees) {
  std::vector<std::pair<double, double>> known;  // median, candidates
  for_each_group(samples, [&](SampleSpan group) {
    std::vector<double> rest;
    for (const TrainingSample* sample : group) {
      if (!sample->is_measured()) continue;
      rest.push_back(residual_of(*sample) - (trees != nullptr ? trees->evaluate(sample->features) : 0));
    }
    const double count = rest.size();
    known.emplace_back(rest.empty() ? 0 : median_of(std::move(rest)), count);
  });
  KernelLevels kernels;
  std::vector<double> medians;
  for (const auto& [median, count] : known) {
    if (count > 0) medians.push_back(median);
  }
  if (!medians.empty()) kernels.middle = median_of(std::move(medians));
  // Of a kernel with `few` candidates half of its own level is believed.
  constexpr double few = 4;
  for (const auto& [median, count] : known) {
    const double believed = trees != nullptr ? count / (count + few) : 0;
    kernels.levels.push_back(kernels.middle + believed * (median - kernels.middle));
  }
  return kernels;
}

TreeSamples residual_rows(SampleSpan samples, const KernelLevels& levels) {
  TreeSamples rows;
  rows.columns = feature_columns().size();
  const auto add = [&](const std::vector<float>& row, double label, double weight) {
    append(row, rows);
    rows.labels.push_back(label);
    rows.weights.push_back(weight);
  };
  std::size_t number = 0;
  for_each_group(samples, [&](SampleSpan group) {
    const double level = levels.levels[number++];
    double best = 0;
    for (const TrainingSample* sample : group) {
      if (sample->is_measured()) best = best == 0 ? sample->measured : std::min(best, sample->measured);
    }
    for (const TrainingSample* sample : group) {
      if (!sample->is_measured()) continue;
      const double label = residual_of(*sample) - level, weight = std::max(0.05, best / sample->measured);
      add(sample->features, label, weight);
      if (is_compiled(*sample)) add(before_compilation(sample->features), label, weight);
    }
  });
  return rows;
}

}  // namespace stitch::costmodel
