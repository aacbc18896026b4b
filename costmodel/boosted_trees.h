#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stitch::costmodel {

/// What trees are trained on: a row of features per sample, all of one length.
struct TreeSamples {
  std::size_t columns = 0;
  std::vector<float> rows;     ///< columns × labels.size(), row after row; NaN: missing
  std::vector<float> labels;   ///< regression: the value; ranking: higher is better
  std::vector<float> weights;  ///< per sample (ranking: per group); empty: all 1
  std::vector<float> margins;  ///< what is known already, to which the trees add; empty: 0
  /// Ranking: sizes of the groups, which lie one after the other; only samples of one group are compared.
  std::vector<unsigned> groups;
};

struct TreeOptions {
  enum class Objective : std::uint8_t { regression, ranking };
  Objective objective = Objective::regression;
  int rounds = 150;  ///< trees that are added
  int depth = 6;
  double learning_rate = 0.08;
  double least_weight = 2;  ///< of a leaf's samples
  double shrinkage = 1;     ///< L2 on leaves
  double column_share = 0.7;
  double sample_share = 0.9;
  std::uint64_t seed = 1;
};

/// Gradient-boosted trees: trained by XGBoost, evaluated here, since a row through its interface costs tens of
/// microseconds. A value: copies share nothing, and any number of threads may evaluate one.
class BoostedTrees {
 public:
  /// Trees for these samples; with `start`, in addition to its own, which must have as many columns. The same arguments
  /// give the same trees, bit by bit: XGBoost is told to use one thread. Errors: invalid_argument (samples that do not
  /// fit together, values that are not finite; in XGBoost's words), resource_exhausted (more than 2^31 values).
  static Result<BoostedTrees> train(const TreeSamples& samples, const TreeOptions& options,
                                    const BoostedTrees* start = nullptr);

  /// What bytes() gave. Errors: corrupt (damaged, or not trees at all: nothing of it reaches XGBoost before its
  /// checksum is right and every tree makes sense), version_mismatch (written by a newer version).
  static Result<BoostedTrees> load(std::string_view bytes);
  [[nodiscard]] std::string bytes() const;

  /// Σ of the trees' leaves for a row of columns() features: the predicted value, or how good it is.
  [[nodiscard]] double evaluate(std::span<const float> row) const;

  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::size_t trees() const { return roots_.size(); }
  /// How often each column decides, over all trees.
  [[nodiscard]] std::vector<int> uses() const;

 private:
  struct Node {
    float threshold = 0;      ///< goes left below it; a leaf's value
    std::int32_t column = 0;  ///< −1: a leaf
    std::int32_t left = 0, right = 0;
    bool missing_left = false;
  };

  /// Reads XGBoost's own JSON.
  Status read(std::string_view json);

  std::size_t columns_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> roots_;
  std::string json_;  ///< XGBoost's, to go on training from
};

}  // namespace stitch::costmodel
