#include "costmodel/training.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "costmodel/kernel_features.h"
#include "costmodel/training_rows.h"

namespace stitch::costmodel {
namespace {

using Samples = std::vector<const TrainingSample*>;

/// Puts a prediction behind those that are not multiplied by it, in their order.
constexpr double behind_all = 1e6;

/// Whether the compiler kept some of a thread's values in memory; not where it was not asked.
bool spills(const std::vector<float>& row) {
  static const std::size_t column = [] {
    const auto columns = feature_columns();
    return std::ranges::find(columns, "spill_bytes", &FeatureColumn::name) - columns.begin();
  }();
  return row[column] > 0;
}

/// What must not be torn apart.
const Hash128& whole_of(const TrainingSample& sample, const TrainingOptions& options) {
  return options.fold_by == FoldBy::kernel ? sample.kernel : sample.family;
}

Status check(const TrainingSet& set) {
  const std::size_t columns = feature_columns().size();
  for (std::size_t i = 0; i < set.samples.size(); ++i) {
    const TrainingSample& sample = set.samples[i];
    const auto wrong = [&](std::string_view what) {
      return make_error(ErrorKind::invalid_argument, "training sample {}: {}", i, what);
    };
    if (sample.features.size() != columns)
      return wrong(fmt::format("{} features, not {}", sample.features.size(), columns));
    if (std::any_of(sample.features.begin(), sample.features.end(), [](float v) { return std::isinf(v); }))
      return wrong("a feature is infinite");
    if (!(std::isfinite(sample.analytical_us) && sample.analytical_us > 0)) return wrong("no analytical prediction");
    if (!(std::isfinite(sample.measured) && sample.measured >= 0)) return wrong("a measured value that is none");
  }
  return {};
}

std::uint64_t bits_of(const TrainingSample& sample) {
  std::uint64_t hash = sample.kernel.low;
  for (const float value : sample.features)
    hash = mix(hash, std::isnan(value) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(value));
  return mix(hash, std::bit_cast<std::uint64_t>(sample.measured));
}

/// In an order that does not depend on where the samples come from, at most `most`, an even part of each kernel's.
Samples chosen(const TrainingSet& set, std::size_t most) {
  struct Entry {
    std::uint64_t bits;
    const TrainingSample* sample;
  };
  std::vector<Entry> entries;
  for (const TrainingSample& sample : set.samples) entries.push_back({bits_of(sample), &sample});
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.sample->kernel, a.sample->device, a.bits, a.sample->analytical_us) <
           std::tie(b.sample->kernel, b.sample->device, b.bits, b.sample->analytical_us);
  });
  // Their order within a kernel is as good as random: every n-th of them is an even part.
  const double share = std::min(1.0, most / std::max<double>(1, entries.size()));
  Samples samples;
  double due = 0;
  for (const Entry& entry : entries) {
    due += share;
    if (due < 1 - 1e-9) continue;
    due -= 1;
    samples.push_back(entry.sample);
  }
  return samples;
}

std::vector<FeatureRange> ranges_of(const Samples& samples) {
  std::vector<FeatureRange> ranges(feature_columns().size());
  for (const TrainingSample* sample : samples) {
    // What was only predicted says nothing about where measurements were.
    if (!sample->is_measured()) continue;
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const float value = sample->features[i];
      if (std::isnan(value)) continue;
      FeatureRange& range = ranges[i];
      range.low = range.seen ? std::min(range.low, value) : value;
      range.high = range.seen ? std::max(range.high, value) : value;
      range.seen = true;
    }
  }
  return ranges;
}

/// Least squares of ln measured on a constant, ln least time and the trees' score. `level` is drawn to 1 where the
/// kernels are too alike to tell it.
void scale_learned(const Samples& samples, TrainedCostModel& model) {
  double n = 0, sl = 0, ss = 0, sy = 0;
  std::vector<std::array<double, 3>> rows;
  for (const TrainingSample* sample : samples) {
    if (!sample->is_measured()) continue;
    rows.push_back(
        {std::log(least_us(sample->features)), -model.trees.evaluate(sample->features), std::log(sample->measured)});
    n += 1;
    sl += rows.back()[0];
    ss += rows.back()[1];
    sy += rows.back()[2];
  }
  double ll = 1e-3 * n, ls = 0, s2 = 1e-9 * n, ly = ll, sy2 = 0;
  for (const auto& [l, s, y] : rows) {
    const double dl = l - sl / n, ds = s - ss / n, dy = y - sy / n;
    ll += dl * dl;
    ls += dl * ds;
    s2 += ds * ds;
    ly += dl * dy;
    sy2 += ds * dy;
  }
  const double determinant = ll * s2 - ls * ls;
  model.level = 1;
  model.scale = 0;
  if (determinant > 1e-12 * ll * s2) {
    model.level = (ly * s2 - sy2 * ls) / determinant;
    model.scale = (sy2 * ll - ly * ls) / determinant;
  }
  // Whatever the level of times, the order is the trees'.
  model.scale = std::max(model.scale, 1e-3);
  model.offset = (sy - model.level * sl - model.scale * ss) / n;
}

Result<TrainedCostModel> train_on(const TrainingSet& set, const Samples& samples, const TrainingOptions& options) {
  TrainedCostModel model;
  model.kind = options.kind;
  model.device = set.device;
  model.unit = set.unit;
  model.constants = set.constants;
  model.features = kernel_features_version;
  model.feature_set = feature_set_hash();
  model.seed = options.seed;
  std::set<Hash128> kernels;
  for (const TrainingSample* sample : samples) {
    if (!sample->is_measured()) continue;
    ++model.samples;
    kernels.insert(sample->kernel);
  }
  model.kernels = kernels.size();
  model.ranges = ranges_of(samples);
  TreeOptions trees = options.trees;
  trees.seed = options.seed;
  if (options.kind == TrainedCostModel::Kind::combined) {
    trees.objective = TreeOptions::Objective::regression;
    // First the trees explain what they can of the kernels' levels; what they leave is then taken for a property of the
    // kernel, so that the trees of the second pass tell its candidates apart undisturbed.
    KernelLevels levels = kernel_levels(samples, nullptr);
    STITCH_ASSIGN(model.trees, BoostedTrees::train(residual_rows(samples, levels), trees));
    levels = kernel_levels(samples, &model.trees);
    STITCH_ASSIGN(model.trees, BoostedTrees::train(residual_rows(samples, levels), trees));
    model.offset = levels.middle;
    return model;
  }
  trees.objective = TreeOptions::Objective::ranking;
  BoostedTrees before;
  if (options.pretrained) {
    TreeOptions early = trees;
    early.rounds = options.pretraining_rounds;
    STITCH_ASSIGN(before, BoostedTrees::train(ranking_rows(samples, Opinion::analytical), early));
  }
  trees.seed = mix(options.seed, 1);
  STITCH_ASSIGN(model.trees, BoostedTrees::train(ranking_rows(samples, Opinion::measured), trees,
                                                 options.pretrained ? &before : nullptr));
  scale_learned(samples, model);
  return model;
}

/// Memory-intensive kernels, and the classes of products that held-out candidates speak for.
std::uint32_t trusted_classes(const ModelAccuracy& accuracy) {
  const auto bit = [](KernelClass each) { return 1U << static_cast<unsigned>(each); };
  std::uint32_t trusted = bit(KernelClass::memory_intensive);
  for (const ModelAccuracy::OfClass& each : accuracy.classes) trusted |= each.trusted() ? bit(each.kernel_class) : 0;
  return trusted;
}

/// Models trained on all folds but one, judged on that one.
Result<ModelAccuracy> cross_validate(const TrainingSet& set, const Samples& samples, const TrainingOptions& options) {
  ModelAccuracy accuracy;
  RankedSamples model, analytical;
  const std::map<Hash128, int> folds = folds_of(set.samples, options);
  for (int fold = 0; fold < options.folds && !folds.empty(); ++fold) {
    Samples inside;
    std::vector<TrainingSample> outside;
    for (const TrainingSample* sample : samples) {
      // What was never measured is in no fold, and may be trained on in all.
      const auto at = folds.find(whole_of(*sample, options));
      if (at == folds.end() || at->second != fold) {
        inside.push_back(sample);
      } else {
        outside.push_back(*sample);
      }
    }
    if (outside.empty() || !can_train(inside)) continue;
    STITCH_ASSIGN(const TrainedCostModel trained, train_on(set, inside, options));
    model.append(rank_samples(outside, &trained));
    analytical.append(rank_samples(outside, nullptr));
    ++accuracy.folds;
  }
  for (const KernelClass each : std::set<KernelClass>(model.classes.begin(), model.classes.end())) {
    accuracy.classes.push_back(
        {each, ranking_quality(model.of_class(each)), ranking_quality(analytical.of_class(each))});
    const bool asked = each == KernelClass::memory_intensive || accuracy.classes.back().trusted();
    if (asked || options.kind == TrainedCostModel::Kind::learned) continue;
    for (std::size_t i = 0; i < model.groups.size(); ++i) {
      if (model.classes[i] == each) model.groups[i] = analytical.groups[i];
    }
  }
  accuracy.model = ranking_quality(model.groups);
  accuracy.analytical = ranking_quality(analytical.groups);
  for (const Hash128& family : std::set<Hash128>(model.families.begin(), model.families.end()))
    accuracy.families.push_back(
        {family, ranking_quality(model.of_family(family)), ranking_quality(analytical.of_family(family))});
  return accuracy;
}

}  // namespace

Hash128 hash_of(const TrainingSet& set) {
  Hasher hasher;
  hasher.text(set.device).text(set.unit).text(to_document(set.constants).dump()).hash(feature_set_hash());
  const Samples samples = chosen(set, set.samples.size());
  hasher.integer(samples.size());
  for (const TrainingSample* sample : samples) {
    hasher.hash(sample->kernel).hash(sample->family).text(sample->device).integer(bits_of(*sample));
    hasher.integer(std::bit_cast<std::uint64_t>(sample->analytical_us)).integer(sample->failed ? 1 : 0);
  }
  return hasher.finish();
}

std::map<Hash128, int> folds_of(std::span<const TrainingSample> samples, const TrainingOptions& options) {
  std::map<Hash128, int> folds;
  for (const TrainingSample& sample : samples) {
    if (sample.is_measured()) folds.emplace(whole_of(sample, options), 0);
  }
  if (folds.size() < 2 || options.folds < 2) return {};
  std::vector<std::pair<std::uint64_t, int*>> order;
  for (auto& [whole, fold] : folds) order.emplace_back(mix(mix(options.seed, whole.high), whole.low), &fold);
  std::sort(order.begin(), order.end());
  const int count = std::min<int>(options.folds, order.size());
  for (std::size_t i = 0; i < order.size(); ++i) *order[i].second = i % count;
  return folds;
}

bool ModelAccuracy::OfClass::trusted() const {
  return model.groups > 0 && model.regret[0] < analytical.regret[0] && model.spearman >= analytical.spearman;
}

bool ModelAccuracy::better() const {
  if (folds == 0 || model.groups == 0) return false;
  if (model.regret[0] != analytical.regret[0]) return model.regret[0] < analytical.regret[0];
  return model.spearman > analytical.spearman;
}

nlohmann::json to_document(const ModelAccuracy& accuracy) {
  nlohmann::json document = {{"folds", accuracy.folds}};
  if (accuracy.folds == 0) return document;
  document["model"] = to_document(accuracy.model);
  document["analytical"] = to_document(accuracy.analytical);
  document["better"] = accuracy.better();
  nlohmann::json& families = document["families"] = nlohmann::json::array();
  for (const ModelAccuracy::OfFamily& each : accuracy.families) {
    if (each.model.groups == 0) continue;
    families.push_back({{"family", each.family.hex()},
                        {"model", to_document(each.model)},
                        {"analytical", to_document(each.analytical)}});
  }
  nlohmann::json& classes = document["classes"] = nlohmann::json::array();
  for (const ModelAccuracy::OfClass& each : accuracy.classes) {
    classes.push_back({{"class", to_string(each.kernel_class)},
                       {"model", to_document(each.model)},
                       {"analytical", to_document(each.analytical)},
                       {"trusted", each.kernel_class == KernelClass::memory_intensive || each.trusted()}});
  }
  return document;
}

void RankedSamples::append(RankedSamples other) {
  for (RankedGroup& group : other.groups) groups.push_back(std::move(group));
  families.insert(families.end(), other.families.begin(), other.families.end());
  classes.insert(classes.end(), other.classes.begin(), other.classes.end());
}

std::vector<RankedGroup> RankedSamples::of_class(KernelClass kernel_class) const {
  std::vector<RankedGroup> some;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (classes[i] == kernel_class) some.push_back(groups[i]);
  }
  return some;
}

std::vector<RankedGroup> RankedSamples::of_family(const Hash128& family) const {
  std::vector<RankedGroup> some;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (families[i] == family) some.push_back(groups[i]);
  }
  return some;
}

RankedSamples rank_samples(std::span<const TrainingSample> samples, const TrainedCostModel* model) {
  struct Group {
    RankedGroup candidates;
    Hash128 family;
    KernelClass kernel_class = KernelClass::memory_intensive;
  };
  std::map<std::pair<Hash128, std::string>, Group> groups;
  for (const TrainingSample& sample : samples) {
    if (!sample.failed && sample.measured <= 0) continue;
    Group& group = groups[{sample.kernel, sample.device}];
    group.family = sample.family;
    group.kernel_class = class_of(sample.features);
    const bool of_products = group.kernel_class != KernelClass::memory_intensive;
    double predicted = sample.analytical_us;
    if (model != nullptr) {
      const auto row = of_products ? before_compilation(sample.features) : sample.features;
      predicted = model->predict(row, sample.analytical_us);
    }
    if (of_products && spills(sample.features)) predicted *= behind_all;
    group.candidates.push_back({predicted, sample.measured, sample.failed});
  }
  RankedSamples ranked;
  for (auto& [key, entry] : groups) {
    ranked.groups.push_back(std::move(entry.candidates));
    ranked.families.push_back(entry.family);
    ranked.classes.push_back(entry.kernel_class);
  }
  return ranked;
}

Result<std::vector<double>> held_out_predictions(const TrainingSet& set, TrainingOptions options) {
  const std::map<Hash128, int> folds = folds_of(set.samples, options);
  std::vector<double> predictions(folds.empty() ? 0 : set.samples.size());
  const auto fold_of = [&](const TrainingSample& sample) {
    const auto at = folds.find(whole_of(sample, options));
    return at == folds.end() ? -1 : at->second;
  };
  const int count = folds.empty() ? 0 : options.folds;
  options.folds = 0;
  for (int fold = 0; fold < count; ++fold) {
    TrainingSet inside = {set.device, set.unit, set.constants, {}};
    for (const TrainingSample& sample : set.samples) {
      if (fold_of(sample) != fold) inside.samples.push_back(sample);
    }
    if (inside.samples.size() == set.samples.size()) continue;  // as many folds as there are kernels, and no more
    STITCH_ASSIGN(Training trained, train_model(inside, options));
    trained.model.trusted = TrainedCostModel::every_class;  // what is trusted follows from such predictions
    for (std::size_t i = 0; i < set.samples.size(); ++i) {
      const TrainingSample& sample = set.samples[i];
      if (fold_of(sample) != fold) continue;
      predictions[i] = trained.model.predict(before_compilation(sample.features), sample.analytical_us);
    }
  }
  return predictions;
}

Result<Training> train_model(const TrainingSet& set, const TrainingOptions& options) {
  STITCH_TRY(check(set));
  const Samples samples = chosen(set, options.most_samples);
  if (!can_train(samples))
    return make_error(ErrorKind::invalid_argument, "{} samples for {}: no kernel has two measured candidates",
                      set.samples.size(), set.device);
  Training training;
  STITCH_ASSIGN(training.accuracy, cross_validate(set, samples, options));
  STITCH_ASSIGN(training.model, train_on(set, samples, options));
  training.model.training_set = hash_of(set);
  training.model.trusted = trusted_classes(training.accuracy);
  return training;
}

}  // namespace stitch::costmodel
