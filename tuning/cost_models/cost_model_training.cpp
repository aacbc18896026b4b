#include "tuning/cost_models/cost_model_training.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/version.h"
#include "tuning/kernels/training_samples.h"

namespace stitch::tuning {
namespace {

using Json = nlohmann::json;
using Kind = costmodel::TrainedCostModel::Kind;

/// How many measurements a store had when a model was trained: what growth is measured against.
constexpr const char* measurements_then = "store_measurements";

/// Qualities of the analytical model, which needs no training to be judged, on what is measured now.
Json analytical_report(const costmodel::TrainingSet& set) {
  const costmodel::RankedSamples ranked = costmodel::rank_samples(set.samples, nullptr);
  Json families = Json::array();
  for (const Hash128& family : std::set<Hash128>(ranked.families.begin(), ranked.families.end())) {
    const costmodel::RankingQuality quality = costmodel::ranking_quality(ranked.of_family(family));
    if (quality.groups > 0) families.push_back({{"family", family.hex()}, {"quality", to_document(quality)}});
  }
  return {{"device", set.device},
          {"unit", set.unit},
          {"samples", set.samples.size()},
          {"kernels", ranked.groups.size()},
          {"quality", to_document(costmodel::ranking_quality(ranked.groups))},
          {"families", std::move(families)}};
}

}  // namespace

std::string cost_model_name(Kind kind, std::string_view unit) {
  return unit == "us" ? std::string(to_string(kind)) : fmt::format("{}:{}", to_string(kind), unit);
}

Json accuracy_document(const costmodel::Training& training) {
  Json document = to_document(training.accuracy);
  document["unit"] = training.model.unit;
  document["samples"] = training.model.samples;
  document["kernels"] = training.model.kernels;
  document["features"] = training.model.features;
  return document;
}

Result<TrainedAndStored> train_and_store(db::Store& store, const costmodel::TrainingSet& set,
                                         const costmodel::TrainingOptions& options, const Clock& clock,
                                         std::string_view judged) {
  STITCH_ASSIGN(const db::StoreStatistics before, store.statistics());
  TrainedAndStored done;
  STITCH_ASSIGN(done.training, costmodel::train_model(set, options));
  Json accuracy = accuracy_document(done.training);
  accuracy[measurements_then] = before.measurements;
  db::CostModelRecord record;
  record.name = cost_model_name(options.kind, set.unit);
  record.device = set.device;
  record.training_set = done.training.model.training_set;
  record.bytes = encode(done.training.model);
  record.accuracy = accuracy.dump();
  record.seed = options.seed;
  record.provenance = {std::string(tool_version), "", "", clock.wall_us(), std::string(judged)};
  STITCH_ASSIGN(done.version, store.put_model(record));
  return done;
}

Result<std::shared_ptr<const costmodel::TrainedCostModel>> newest_fit_cost_model(const db::Store& store,
                                                                                 std::string_view device,
                                                                                 std::string* why) {
  using Model = std::shared_ptr<const costmodel::TrainedCostModel>;
  STITCH_ASSIGN(std::vector<db::CostModelRecord> models, store.list_models());
  std::string reason;  // of the newest
  const std::string name = cost_model_name(Kind::combined, "us");
  std::reverse(models.begin(), models.end());  // they come by version
  for (const db::CostModelRecord& listed : models) {
    if (listed.name != name || listed.device != device) continue;
    const auto passed_over = [&](std::string_view what) {
      if (!reason.empty()) return;
      reason = fmt::format("cost model {} {}, version {}: {}", listed.name, listed.device, listed.version, what);
    };
    const Json accuracy = Json::parse(listed.accuracy, nullptr, false);
    if (!accuracy.is_object() || !accuracy.value("better", false)) {
      passed_over("not better than the analytical model on kernels held out");
      continue;
    }
    const auto stored = store.get_model(listed.name, listed.device, listed.version);
    if (!stored && stored.error().kind != ErrorKind::corrupt) return stored.error();
    auto model = stored ? costmodel::decode_model(stored->bytes) : Result<costmodel::TrainedCostModel>(stored.error());
    if (!model) {
      passed_over(model.error().message);
      continue;
    }
    if (model->kind != Kind::combined || model->unit != "us" || model->device != device) {
      passed_over("it is not what its record says");
      continue;
    }
    return Model(std::make_shared<const costmodel::TrainedCostModel>(*std::move(model)));
  }
  if (reason.empty()) reason = fmt::format("no cost model was trained for {}", device);
  if (why != nullptr) *why = reason;
  return Model();
}

Result<std::shared_ptr<const costmodel::TrainedCostModel>> choose_cost_model(const db::Store& store,
                                                                             std::string_view device,
                                                                             std::string_view scorer) {
  if (scorer == "analytical") return std::shared_ptr<const costmodel::TrainedCostModel>();
  if (scorer != "auto" && scorer != "combined")
    return make_error(ErrorKind::invalid_argument, "scorer '{}': there are auto, analytical and combined", scorer);
  std::string why;
  STITCH_ASSIGN(auto model, newest_fit_cost_model(store, device, &why));
  if (model == nullptr && scorer == "combined") return make_error(ErrorKind::not_found, "{}", why);
  return model;
}

Json summarise(const db::CostModelRecord& model) {
  Json accuracy = Json::parse(model.accuracy, nullptr, false);
  return {{"name", model.name},
          {"device", model.device},
          {"version", model.version},
          {"training_set", model.training_set.hex()},
          {"seed", model.seed},
          {"accuracy", accuracy.is_discarded() ? Json() : std::move(accuracy)},
          {"judged", model.provenance.judged},
          {"tool", model.provenance.tool},
          {"wall_us", model.provenance.wall_us}};
}

Result<Json> cost_model_report(const db::Store& store) {
  STITCH_ASSIGN(const std::vector<db::CostModelRecord> models, store.list_models());
  Json listed = Json::array(), analytical = Json::array();
  for (const db::CostModelRecord& model : models) listed.push_back(summarise(model));
  STITCH_ASSIGN(const auto sets, samples_by_device(store));
  for (const auto& [device, set] : sets) analytical.push_back(analytical_report(set));
  return Json{{"cost_models", std::move(listed)}, {"analytical", std::move(analytical)}};
}

Result<std::int64_t> CostModelTrainer::measured() const {
  STITCH_ASSIGN(const db::StoreStatistics statistics, store_.statistics());
  return statistics.measurements;
}

Result<bool> CostModelTrainer::is_due() const {
  STITCH_ASSIGN(const std::int64_t now, measured());
  if (std::cmp_less(now, options_.least_samples)) return false;
  const auto grown = [&](std::int64_t then) { return now >= (1 + options_.growth) * then && now > then; };
  if (const std::int64_t then = looked_at_; then >= 0 && !grown(then)) return false;
  STITCH_ASSIGN(const std::vector<db::CostModelRecord> models, store_.list_models());
  std::int64_t then = 0;
  for (const db::CostModelRecord& model : models) {
    if (model.device != device_) continue;
    const Json accuracy = Json::parse(model.accuracy, nullptr, false);
    if (accuracy.is_object()) then = std::max(then, accuracy.value(measurements_then, std::int64_t{0}));
  }
  return grown(then);
}

Result<int> CostModelTrainer::train_if_due(const std::stop_token& stop) {
  const std::lock_guard lock(training_);
  STITCH_ASSIGN(const bool due, is_due());
  if (!due) return 0;
  STITCH_ASSIGN(const std::int64_t now, measured());
  STITCH_ASSIGN(const costmodel::TrainingSet set, samples_of_store(store_, device_, options_.most_samples));
  looked_at_ = now;
  if (set.samples.size() < options_.least_samples) return 0;
  if (stop.stop_requested()) return make_error(ErrorKind::cancelled, "stopped before a cost model was trained");
  costmodel::TrainingOptions options = options_.training;
  options.kind = Kind::combined;
  const auto trained = train_and_store(store_, set, options, clock_, "trained on the measurements of this store");
  // No kernel has two candidates: there is nothing to order yet.
  if (!trained && trained.error().kind == ErrorKind::invalid_argument) return 0;
  if (!trained) return trained.error();
  return 1;
}

}  // namespace stitch::tuning
