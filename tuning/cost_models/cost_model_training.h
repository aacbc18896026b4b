#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "costmodel/training.h"
#include "db/store.h"

// Cost models in a store: trained on what is measured there, found again when plans are made.
namespace stitch::tuning {

/// Under which name a store keeps models of a kind: "combined"; of what is no time with its unit: "combined:sectors".
std::string cost_model_name(costmodel::TrainedCostModel::Kind kind, std::string_view unit);

struct TrainedAndStored {
  costmodel::Training training;
  int version = 0;  ///< in the store
};

/// Trains on a set and stores the model as the next version of its name for the set's device. `judged` says in words
/// where the samples come from. Errors: those of training (invalid_argument: too few) and of the store.
Result<TrainedAndStored> train_and_store(db::Store& store, const costmodel::TrainingSet& set,
                                         const costmodel::TrainingOptions& options, const Clock& clock,
                                         std::string_view judged);

/// What a store says of a model's accuracy: unit, samples, kernels, and the held-out qualities of
/// costmodel::ModelAccuracy, over all and by family.
nlohmann::json accuracy_document(const costmodel::Training& training);

/// The newest combined model of a device that this program can read, that predicts times, and that was better than the
/// analytical model on kernels held out. Null when there is none; `why` then says why not, for people. Errors: those of
/// the store; a model that is damaged is passed over, and named in `why`.
Result<std::shared_ptr<const costmodel::TrainedCostModel>> newest_fit_cost_model(const db::Store& store,
                                                                                 std::string_view device,
                                                                                 std::string* why);

/// What predicts times: "auto" (the newest fit model, or the analytical one), "analytical", "combined".
/// Null: the analytical model. Errors: not_found ("combined", and no model is fit: says why), invalid_argument (another
/// word), those of the store.
Result<std::shared_ptr<const costmodel::TrainedCostModel>> choose_cost_model(const db::Store& store,
                                                                             std::string_view device,
                                                                             std::string_view scorer);

/// All models of a store with their accuracies, and how well the analytical model orders what is measured there now:
/// {"cost_models": […], "analytical": [{"device", "samples", "kernels", "quality", "families": […]}]}. Nothing is
/// trained.
Result<nlohmann::json> cost_model_report(const db::Store& store);

/// The members of a listing: name, device, version, training_set, seed, accuracy, tool, wall_us.
nlohmann::json summarise(const db::CostModelRecord& model);

struct IncrementalOptions {
  double growth = 0.25;            ///< trains anew when there are so many more measurements than last time, as a share
  std::size_t least_samples = 48;  ///< and at least so many
  std::size_t most_samples = 100'000;  ///< that are read
  costmodel::TrainingOptions training;
};

/// Keeps a store's models up with its measurements. Safe to use from several threads; one trains at a time.
class CostModelTrainer {
 public:
  /// `store` and `clock` must outlive it. `device`: entry of the device table that models are trained for.
  CostModelTrainer(db::Store& store, std::string device, const Clock& clock, IncrementalOptions options = {})
      : store_(store), device_(std::move(device)), clock_(clock), options_(std::move(options)) {}

  /// Whether measurements have grown enough since the last training, by count alone. Errors: those of the store.
  Result<bool> is_due() const;

  /// Trains a combined model if it is due; returns how many models were stored. Learned ones have not ranked better
  /// (bench/results/ranking.md). Too few samples are no error. Errors: cancelled (before it), those of the store and of
  /// training.
  Result<int> train_if_due(const std::stop_token& stop);

 private:
  [[nodiscard]] Result<std::int64_t> measured() const;

  db::Store& store_;
  const std::string device_;
  const Clock& clock_;
  const IncrementalOptions options_;
  std::mutex training_;
  std::atomic<std::int64_t> looked_at_ =
      -1;  ///< measurements in the store when it was last found that nothing can be trained
};

}  // namespace stitch::tuning
