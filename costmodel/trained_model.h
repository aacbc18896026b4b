#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "costmodel/analytical_constants.h"
#include "costmodel/boosted_trees.h"
#include "costmodel/kernel_features.h"

namespace stitch::costmodel {

/// What a column held in the training samples.
struct FeatureRange {
  float low = 0, high = 0;  ///< of the values that were there
  bool seen = false;        ///< any was

  bool operator==(const FeatureRange&) const = default;
};

/// A trained cost model, as it is stored: a value.
struct TrainedCostModel {
  enum class Kind : std::uint8_t {
    learned,   ///< the trees rank a kernel's candidates by themselves
    combined,  ///< the trees correct the analytical model
  };
  Kind kind = Kind::combined;
  std::string device;       ///< entry of the device table that it is for
  std::string unit = "us";  ///< of what it was trained on: only a model of times is asked for times
  int features = 0;         ///< kernel_features_version
  Hash128 feature_set;      ///< feature_set_hash(): another one's rows mean something else
  Hash128 training_set;
  std::uint64_t seed = 0;
  std::int64_t samples = 0, kernels = 0;  ///< measured ones
  std::vector<FeatureRange> ranges;       ///< per column
  BoostedTrees trees;
  AnalyticalConstants constants;  ///< of the analytical model that it corrects
  /// learned: ln time = offset + level·ln(least time by traffic) − scale·trees; combined: ln(time / analytical) =
  /// offset + trees.
  double offset = 0, level = 1, scale = 1;

  /// Classes of kernels of whose candidates held-out ones were put in a better order than by the analytical model, as
  /// bits (KernelClass); of others that model is asked (docs/cost-model.md).
  static constexpr std::uint32_t every_class = ~0U;
  std::uint32_t trusted = every_class;
  [[nodiscard]] bool trusts(KernelClass kernel_class) const {
    return (trusted >> static_cast<unsigned>(kernel_class) & 1U) != 0;
  }

  /// The first column in which a row lies outside what the model was trained on; nothing when it lies within. The rule
  /// is in docs/cost-model.md.
  [[nodiscard]] std::optional<std::size_t> outside(std::span<const float> row) const;
  /// The same in words: "cluster is 8, trained on 1 to 2"; empty when it lies within.
  [[nodiscard]] std::string why_outside(std::span<const float> row) const;

  /// Predicted time of a candidate, µs (unit). `analytical_us` by `constants`; learned models do not look at it. A
  /// combined model leaves its trees out of it outside their range: what is left is the analytical prediction at the
  /// level of measured times (e^offset), so that it can be compared with those of candidates inside. Of a class that is
  /// not trusted it is the analytical prediction itself.
  [[nodiscard]] double predict(std::span<const float> row, double analytical_us) const;
};
std::string_view to_string(TrainedCostModel::Kind kind);
std::optional<TrainedCostModel::Kind> model_kind_of(std::string_view text);

/// What traffic alone takes: a kernel's parameters at full bandwidth, and its launch; the same for all its candidates.
double least_us(std::span<const float> row);

std::string encode(const TrainedCostModel& model);
/// Errors: corrupt (damaged, or contents that make no sense), version_mismatch (a newer format; or other features than
/// this program counts).
Result<TrainedCostModel> decode_model(std::string_view bytes);

}  // namespace stitch::costmodel
