#include "costmodel/boosted_trees.h"

#include <xgboost/c_api.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "costmodel/envelope.h"

namespace stitch::costmodel {
namespace {

using Json = nlohmann::json;

constexpr EnvelopeKind envelope = {"STITCHT\n", "boosted trees", 1};

/// XGBoost's reason for the call that just failed in this thread.
Status done(int code, std::string_view what) {
  if (code == 0) return {};
  std::string_view said = XGBGetLastError();
  said = said.substr(0, said.find("\nStack trace"));
  return make_error(ErrorKind::invalid_argument, "XGBoost, {}: {}", what, said);
}

struct FreeMatrix {
  void operator()(DMatrixHandle handle) const { XGDMatrixFree(handle); }
};
struct FreeBooster {
  void operator()(BoosterHandle handle) const { XGBoosterFree(handle); }
};
using Matrix = std::unique_ptr<void, FreeMatrix>;
using Booster = std::unique_ptr<void, FreeBooster>;

Status check(const TreeSamples& samples) {
  const std::size_t count = samples.labels.size();
  const auto wrong = [](std::string_view what) {
    return make_error(ErrorKind::invalid_argument, "samples for trees: {}", what);
  };
  if (samples.columns == 0 || count == 0) return wrong("there are none");
  if (samples.rows.size() != samples.columns * count) return wrong("rows and labels differ in number");
  if (!samples.margins.empty() && samples.margins.size() != count) return wrong("margins and labels differ in number");
  const std::size_t weighed = samples.groups.empty() ? count : samples.groups.size();
  if (!samples.weights.empty() && samples.weights.size() != weighed) return wrong("weights of another number");
  std::size_t grouped = 0;
  for (const unsigned size : samples.groups) grouped += size;
  if (!samples.groups.empty() && grouped != count) return wrong("groups and labels differ in number");
  // XGBoost has 32-bit counts in places.
  if (samples.rows.size() > std::numeric_limits<std::int32_t>::max())
    return make_error(ErrorKind::resource_exhausted, "samples for trees: {} values are too many", samples.rows.size());
  const auto finite = [](float value) { return std::isfinite(value); };
  if (!std::all_of(samples.labels.begin(), samples.labels.end(), finite)) return wrong("a label is not finite");
  if (!std::all_of(samples.margins.begin(), samples.margins.end(), finite)) return wrong("a margin is not finite");
  if (std::any_of(samples.rows.begin(), samples.rows.end(), [](float value) { return std::isinf(value); }))
    return wrong("a feature is infinite");
  return {};
}

Result<Matrix> make_matrix(const TreeSamples& samples) {
  DMatrixHandle handle = nullptr;
  STITCH_TRY(done(XGDMatrixCreateFromMat(samples.rows.data(), samples.labels.size(), samples.columns,
                                         std::numeric_limits<float>::quiet_NaN(), &handle),
                  "reading samples"));
  Matrix matrix(handle);
  const auto put = [&](const char* field, const std::vector<float>& values) -> Status {
    if (values.empty()) return {};
    return done(XGDMatrixSetFloatInfo(handle, field, values.data(), values.size()), field);
  };
  if (!samples.groups.empty()) {
    STITCH_TRY(done(XGDMatrixSetUIntInfo(handle, "group", samples.groups.data(), samples.groups.size()), "group"));
  }
  STITCH_TRY(put("label", samples.labels));
  STITCH_TRY(put("weight", samples.weights));
  STITCH_TRY(put("base_margin", samples.margins));
  return matrix;
}

Status configure(BoosterHandle booster, const TreeOptions& options) {
  const auto set = [&](const char* name, const std::string& value) {
    return done(XGBoosterSetParam(booster, name, value.c_str()), name);
  };
  const bool ranking = options.objective == TreeOptions::Objective::ranking;
  STITCH_TRY(set("verbosity", "0"));
  STITCH_TRY(set("nthread", "1"));
  STITCH_TRY(set("objective", ranking ? "rank:pairwise" : "reg:squarederror"));
  STITCH_TRY(set("base_score", "0"));
  STITCH_TRY(set("tree_method", "hist"));
  STITCH_TRY(set("max_depth", std::to_string(options.depth)));
  STITCH_TRY(set("eta", fmt::format("{}", options.learning_rate)));
  STITCH_TRY(set("min_child_weight", fmt::format("{}", options.least_weight)));
  STITCH_TRY(set("lambda", fmt::format("{}", options.shrinkage)));
  STITCH_TRY(set("colsample_bytree", fmt::format("{}", options.column_share)));
  STITCH_TRY(set("subsample", fmt::format("{}", options.sample_share)));
  // XGBoost's seed has 32 bits; that trees go on from others must not draw the same samples again.
  return set("seed", std::to_string(options.seed & 0x7FFFFFFF));
}

}  // namespace

Result<BoostedTrees> BoostedTrees::train(const TreeSamples& samples, const TreeOptions& options,
                                         const BoostedTrees* start) {
  STITCH_TRY(check(samples));
  if (start != nullptr && start->columns_ != samples.columns)
    return make_error(ErrorKind::invalid_argument, "samples for trees: {} columns, the trees to go on from have {}",
                      samples.columns, start->columns_);
  STITCH_ASSIGN(const Matrix matrix, make_matrix(samples));
  const DMatrixHandle matrices[] = {matrix.get()};
  BoosterHandle handle = nullptr;
  STITCH_TRY(done(XGBoosterCreate(matrices, 1, &handle), "making trees"));
  const Booster booster(handle);
  if (start != nullptr)
    STITCH_TRY(done(XGBoosterLoadModelFromBuffer(handle, start->json_.data(), start->json_.size()), "going on"));
  STITCH_TRY(configure(handle, options));
  int first = 0;
  STITCH_TRY(done(XGBoosterBoostedRounds(handle, &first), "going on"));
  for (int round = 0; round < options.rounds; ++round)
    STITCH_TRY(done(XGBoosterUpdateOneIter(handle, first + round, matrix.get()), "training"));
  const char* text = nullptr;
  bst_ulong length = 0;
  STITCH_TRY(done(XGBoosterSaveModelToBuffer(handle, R"({"format":"json"})", &length, &text), "saving"));
  BoostedTrees trees;
  STITCH_TRY(trees.read({text, length}));
  return trees;
}

Status BoostedTrees::read(std::string_view json) {
  json_ = json;
  const auto wrong = [](std::string_view what) { return make_error(ErrorKind::corrupt, "boosted trees: {}", what); };
  try {
    const Json document = Json::parse(json);
    const Json& learner = document.at("learner");
    const Json& model = learner.at("gradient_booster").at("model");
    columns_ = std::stoull(learner.at("learner_model_param").at("num_feature").get<std::string>());
    if (std::stod(learner.at("learner_model_param").at("base_score").get<std::string>()) != 0)
      return wrong("they begin at another score than 0");
    for (const Json& tree : model.at("trees")) {
      const auto left = tree.at("left_children").get<std::vector<std::int32_t>>();
      const auto right = tree.at("right_children").get<std::vector<std::int32_t>>();
      const auto column = tree.at("split_indices").get<std::vector<std::int32_t>>();
      const auto value = tree.at("split_conditions").get<std::vector<float>>();
      const auto missing = tree.at("default_left").get<std::vector<int>>();
      const std::size_t size = left.size();
      if (size == 0 || right.size() != size || column.size() != size || value.size() != size || missing.size() != size)
        return wrong("a tree's columns differ in length");
      const std::int32_t base = nodes_.size();
      roots_.push_back(base);
      for (std::size_t i = 0; i < size; ++i) {
        const bool leaf = left[i] < 0;
        // Children behind their parent: no way through a tree has an end otherwise.
        const auto follows = [&](std::int32_t child) {
          return child > static_cast<std::int32_t>(i) && child < static_cast<std::int32_t>(size);
        };
        if (!leaf && (!follows(left[i]) || !follows(right[i]))) return wrong("a branch leads nowhere");
        if (!leaf && (column[i] < 0 || static_cast<std::size_t>(column[i]) >= columns_))
          return wrong("a branch asks for a column that there is not");
        if (!std::isfinite(value[i])) return wrong("a value is not finite");
        nodes_.push_back({value[i], leaf ? -1 : column[i], base + left[i], base + right[i], missing[i] != 0});
      }
    }
  } catch (const std::exception& error) {
    return wrong(error.what());
  }
  return {};
}

Result<BoostedTrees> BoostedTrees::load(std::string_view bytes) {
  STITCH_ASSIGN(const std::string_view json, open_envelope(envelope, bytes));
  BoostedTrees trees;
  STITCH_TRY(trees.read(json));
  return trees;
}

std::string BoostedTrees::bytes() const { return seal_envelope(envelope, json_); }

double BoostedTrees::evaluate(std::span<const float> row) const {
  // In single precision and in this order, as XGBoost does it.
  float sum = 0;
  for (const std::int32_t root : roots_) {
    std::int32_t at = root;
    while (true) {
      const Node& node = nodes_[at];
      if (node.column < 0) {
        sum += node.threshold;
        break;
      }
      const float value = row[node.column];
      const bool left = std::isnan(value) ? node.missing_left : value < node.threshold;
      at = left ? node.left : node.right;
    }
  }
  return sum;
}

std::vector<int> BoostedTrees::uses() const {
  std::vector<int> uses(columns_, 0);
  for (const Node& node : nodes_) {
    if (node.column >= 0) ++uses[node.column];
  }
  return uses;
}

}  // namespace stitch::costmodel
