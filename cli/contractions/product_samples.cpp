#include "cli/contractions/product_samples.h"

#include <map>

#include "cli/contractions/priced_products.h"
#include "costmodel/kernel_features.h"
#include "graph/canonical.h"

namespace stitch::cli {
namespace {

using costmodel::TrainedCostModel;
using costmodel::TrainingSample;
using costmodel::TrainingSet;
using nlohmann::json;

/// Predictions under their names; none of a model that cannot hold anything out.
struct Scored {
  std::vector<std::pair<const char*, std::vector<double>>> scorers;

  Status add(const char* name, const TrainingSet& set, costmodel::TrainingOptions options, TrainedCostModel::Kind kind,
             std::size_t count) {
    options.kind = kind;
    STITCH_ASSIGN(std::vector<double> predictions, costmodel::held_out_predictions(set, options));
    if (predictions.size() < count) return {};
    predictions.resize(count);
    scorers.emplace_back(name, std::move(predictions));
    return {};
  }
  [[nodiscard]] json candidate(std::size_t i, const TrainingSample& sample) const {
    json one = {{"measured_us", sample.measured}, {"failed", sample.failed}, {"analytical", sample.analytical_us}};
    for (const auto& [name, predictions] : scorers) one[name] = predictions[i];
    return one;
  }
};

TrainingSet joined(const TrainingSet& first, const TrainingSet& second) {
  TrainingSet both = first;
  both.samples.insert(both.samples.end(), second.samples.begin(), second.samples.end());
  return both;
}

/// Memory-intensive kernels, by models of their own and by those of both kinds.
Result<json> scored_others(const TrainingSet& others, const TrainingSet& products,
                           const costmodel::TrainingOptions& training) {
  using enum TrainedCostModel::Kind;
  Scored scored;
  const std::size_t count = others.samples.size();
  STITCH_TRY(scored.add("combined", others, training, combined, count));
  STITCH_TRY(scored.add("combined, both kinds", joined(others, products), training, combined, count));
  std::map<Hash128, json> kernels;
  for (std::size_t i = 0; i < count; ++i) {
    json& kernel = kernels[others.samples[i].kernel];
    kernel["kind"] = to_string(costmodel::class_of(others.samples[i].features));
    kernel["candidates"].push_back(scored.candidate(i, others.samples[i]));
  }
  json document = json::array();
  for (auto& [key, kernel] : kernels) document.push_back(std::move(kernel));
  return document;
}

}  // namespace

Result<ProductSamples> product_samples(const std::vector<NamedProblem>& problems, const DeviceSpec& device,
                                       const std::vector<std::filesystem::path>& measured) {
  ProductSamples samples;
  samples.set.device = device.name;
  for (const std::filesystem::path& path : measured) {
    STITCH_ASSIGN(auto lines, price_lines(problems, device, path));
    const std::string call = path.parent_path().filename().string();
    for (const NamedProblem& problem : problems) {
      const auto found = lines.find(problem.name);
      if (found == lines.end()) continue;
      const graph::Graph& graph =
          std::visit([](const auto& one) -> const graph::Graph& { return *one.graph; }, problem.problem);
      STITCH_ASSIGN(const graph::CanonicalForm form, graph::canonicalise(graph));
      for (const PricedLine& priced : found->second) {
        const double us = priced.line.value("measured_us", 0.0);
        const bool failed = priced.line.contains("failure");
        if (priced.analytical_us == 0 || (us <= 0 && !failed)) continue;
        samples.set.samples.push_back({priced.features, priced.analytical_us, failed ? 0 : us, failed, form.key,
                                       form.family_key, fmt::format("{} of {}", device.name, call)});
        samples.about.push_back({problem.name, call, priced.line["schedule"].get<std::string>(),
                                 priced.line.value("noise", 0.0), priced.spills});
      }
    }
  }
  return samples;
}

Result<json> scored_products(const ProductSamples& samples, const TrainingSet& others,
                             const costmodel::TrainingOptions& training) {
  using enum TrainedCostModel::Kind;
  Scored scored;
  const TrainingSet& set = samples.set;
  const std::size_t count = set.samples.size();
  STITCH_TRY(scored.add("learned", set, training, learned, count));
  STITCH_TRY(scored.add("combined", set, training, combined, count));
  json document = {{"kernels", json::array()}};
  if (!others.samples.empty()) {
    STITCH_TRY(scored.add("combined, both kinds", joined(set, others), training, combined, count));
    STITCH_ASSIGN(document["others"], scored_others(others, set, training));
  }
  std::map<std::pair<std::string, std::string>, json> kernels;
  for (std::size_t i = 0; i < count; ++i) {
    const ProductSample& about = samples.about[i];
    json& kernel = kernels[{about.call, about.name}];
    kernel["name"] = about.name;
    kernel["call"] = about.call;
    kernel["kind"] = to_string(costmodel::class_of(set.samples[i].features));
    json one = scored.candidate(i, set.samples[i]);
    one["schedule"] = about.schedule;
    one["noise"] = about.noise;
    one["spills"] = about.spills;
    kernel["candidates"].push_back(std::move(one));
  }
  for (auto& [key, kernel] : kernels) document["kernels"].push_back(std::move(kernel));
  return document;
}

}  // namespace stitch::cli
