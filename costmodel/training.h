#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "costmodel/ranking_quality.h"
#include "costmodel/trained_model.h"
#include "costmodel/training_sample.h"

namespace stitch::costmodel {

struct TrainingSet {
  std::string device;  ///< entry of the device table
  std::string unit = "us";
  AnalyticalConstants constants;  ///< by which analytical_us was predicted
  std::vector<TrainingSample> samples;
};

/// Names what a set holds; its order does not matter.
Hash128 hash_of(const TrainingSet& set);

/// Kernels stay whole: those of one fold are never in another's training.
enum class FoldBy : std::uint8_t { kernel, family };

struct TrainingOptions {
  TrainedCostModel::Kind kind = TrainedCostModel::Kind::combined;
  std::uint64_t seed = 1;
  int folds = 4;  ///< accuracy is that of candidates held out; 0: it is not asked for
  FoldBy fold_by = FoldBy::kernel;
  std::size_t most_samples = 40'000;  ///< of more, an even part of each kernel's is taken
  /// Learned: on the order that the analytical model predicts, measured or not. A combined model starts from its
  /// predictions themselves.
  bool pretrained = true;
  int pretraining_rounds = 60;  ///< trees for that order, before those for the measured one
  TreeOptions trees;
};

/// What held-out candidates say: the model beside the analytical one, on the same candidates.
struct ModelAccuracy {
  int folds = 0;  ///< 0: too few kernels to hold any out
  RankingQuality model, analytical;
  struct OfFamily {
    Hash128 family;
    RankingQuality model, analytical;
  };
  std::vector<OfFamily> families;  ///< by family key
  /// By what multiplies. Of a class of products that the model orders no better, `model` above has the analytical
  /// order, as whoever asks the trained model gets it.
  struct OfClass {
    KernelClass kernel_class = KernelClass::memory_intensive;
    RankingQuality model, analytical;
    /// Loses less with one trial, and correlates no worse: what products ask of a model, whose formula is fitted to
    /// measurements already. Memory-intensive kernels are decided by better().
    [[nodiscard]] bool trusted() const;
  };
  std::vector<OfClass> classes;

  /// Whether it is better to ask the model: it loses less with one trial, or as little and correlates better.
  [[nodiscard]] bool better() const;
};
nlohmann::json to_document(const ModelAccuracy& accuracy);

struct Training {
  TrainedCostModel model;  ///< trained on all samples
  ModelAccuracy accuracy;
};

/// Trains a model, and others on parts of the samples to see how good it is. The same set and options give the same
/// bytes. Errors: invalid_argument (no kernel with two measured candidates; rows of another length; values that are not
/// finite), those of the trees.
Result<Training> train_model(const TrainingSet& set, const TrainingOptions& options);

/// Predictions of one model for measured and failed samples, as groups by kernel and device, and the kernels' families
/// and classes. Products are ranked as plans try them: before compilation, and what spills comes last.
struct RankedSamples {
  std::vector<RankedGroup> groups;
  std::vector<Hash128> families;
  std::vector<KernelClass> classes;

  void append(RankedSamples other);
  [[nodiscard]] std::vector<RankedGroup> of_family(const Hash128& family) const;
  [[nodiscard]] std::vector<RankedGroup> of_class(KernelClass kernel_class) const;
};
/// `model`: null for the analytical one.
RankedSamples rank_samples(std::span<const TrainingSample> samples, const TrainedCostModel* model);

/// What is predicted of each sample before anything is compiled, in their order, by models that have seen no sample of
/// the same fold; empty where nothing can be held out. Errors: those of training.
Result<std::vector<double>> held_out_predictions(const TrainingSet& set, TrainingOptions options);

/// Which fold each kernel (or family) belongs to: as many folds as asked for or as there are of them, of equal size.
/// Empty where there are fewer than two.
std::map<Hash128, int> folds_of(std::span<const TrainingSample> samples, const TrainingOptions& options);

}  // namespace stitch::costmodel
