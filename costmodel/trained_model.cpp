#include "costmodel/trained_model.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "costmodel/envelope.h"
#include "costmodel/kernel_features.h"

namespace stitch::costmodel {
namespace {

using Json = nlohmann::json;

constexpr EnvelopeKind envelope = {"STITCHM\n", "trained cost model", 1};

/// Beyond the values that were seen by this much a row is still like them.
constexpr double margin_octaves = 1, margin_of_span = 0.1, margin_share = 0.1, margin_constant = 1e-3;

/// Whether a value is near a range, by its column's kind.
bool near(double value, double low, double high, FeatureKind kind) {
  const auto within = [&](double v, double from, double to, double margin) {
    return v >= from - margin && v <= to + margin;
  };
  switch (kind) {
    case FeatureKind::extent: {
      const auto octaves = [](double v) { return std::log2(1 + std::max(0.0, v)); };
      const double from = octaves(low), to = octaves(high);
      return within(octaves(value), from, to, std::max(margin_octaves, margin_of_span * (to - from)));
    }
    case FeatureKind::share: return within(value, low, high, margin_share);
    case FeatureKind::count: return within(value, low, high, 0);
    case FeatureKind::constant:
      return within(value, low, high, margin_constant * std::max(std::fabs(low), std::fabs(high)));
  }
  return false;
}

Json binary(std::string_view bytes) { return Json::binary(std::vector<std::uint8_t>(bytes.begin(), bytes.end())); }

std::string text_of(const Json& bytes) {
  const auto& binary = bytes.get_binary();
  return {binary.begin(), binary.end()};
}

Result<Hash128> hash_of(const Json& value) {
  const auto hash = Hash128::from_hex(value.get<std::string>());
  if (!hash) return make_error(ErrorKind::corrupt, "trained cost model: '{}' is no hash", value.dump());
  return *hash;
}

std::size_t column_named(std::string_view name) {
  const auto columns = feature_columns();
  const auto at = std::find_if(columns.begin(), columns.end(), [&](const auto& each) { return each.name == name; });
  assert(at != columns.end());
  return at - columns.begin();
}

Result<TrainedCostModel> read(const Json& document) {
  TrainedCostModel model;
  const auto kind = model_kind_of(document.at("kind").get<std::string>());
  if (!kind) return make_error(ErrorKind::corrupt, "trained cost model: a kind that there is not");
  model.kind = *kind;
  model.device = document.at("device").get<std::string>();
  model.unit = document.at("unit").get<std::string>();
  model.features = document.at("features").get<int>();
  STITCH_ASSIGN(model.feature_set, hash_of(document.at("feature_set")));
  if (model.feature_set != feature_set_hash())
    return make_error(ErrorKind::version_mismatch,
                      "trained cost model of features version {}; this program counts those of version {}: train anew",
                      model.features, kernel_features_version);
  STITCH_ASSIGN(model.training_set, hash_of(document.at("training_set")));
  model.seed = document.at("seed").get<std::uint64_t>();
  model.trusted = document.at("trusted").get<std::uint32_t>();
  model.samples = document.at("samples").get<std::int64_t>();
  model.kernels = document.at("kernels").get<std::int64_t>();
  for (const Json& row : document.at("ranges"))
    model.ranges.push_back({row.at(0).get<float>(), row.at(1).get<float>(), row.at(2).get<bool>()});
  STITCH_ASSIGN(model.trees, BoostedTrees::load(text_of(document.at("trees"))));
  const std::size_t columns = feature_columns().size();
  if (model.ranges.size() != columns || model.trees.columns() != columns)
    return make_error(ErrorKind::corrupt, "trained cost model: {} ranges and {} columns of trees for {} features",
                      model.ranges.size(), model.trees.columns(), columns);
  STITCH_ASSIGN(model.constants, constants_from(document.at("constants")));
  model.offset = document.at("offset").get<double>();
  model.level = document.at("level").get<double>();
  model.scale = document.at("scale").get<double>();
  if (!std::isfinite(model.offset) || !std::isfinite(model.level) || !std::isfinite(model.scale))
    return make_error(ErrorKind::corrupt, "trained cost model: a number is not finite");
  return model;
}

}  // namespace

std::string_view to_string(TrainedCostModel::Kind kind) {
  return kind == TrainedCostModel::Kind::learned ? "learned" : "combined";
}

std::optional<TrainedCostModel::Kind> model_kind_of(std::string_view text) {
  if (text == "learned") return TrainedCostModel::Kind::learned;
  if (text == "combined") return TrainedCostModel::Kind::combined;
  return std::nullopt;
}

double least_us(std::span<const float> row) {
  static const std::size_t bytes = column_named("parameter_bytes"), rate = column_named("dram_gbps"),
                           launch = column_named("launch_us");
  return static_cast<double>(row[launch]) + static_cast<double>(row[bytes]) / static_cast<double>(row[rate]) * 1e-3;
}

std::optional<std::size_t> TrainedCostModel::outside(std::span<const float> row) const {
  const auto columns = feature_columns();
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (!ranges[i].seen || std::isnan(row[i])) continue;
    if (near(row[i], ranges[i].low, ranges[i].high, columns[i].kind)) continue;
    return i;
  }
  return std::nullopt;
}

std::string TrainedCostModel::why_outside(std::span<const float> row) const {
  const auto column = outside(row);
  if (!column) return "";
  return fmt::format("{} is {:.6g}, trained on {:.6g} to {:.6g}", feature_columns()[*column].name, row[*column],
                     ranges[*column].low, ranges[*column].high);
}

double TrainedCostModel::predict(std::span<const float> row, double analytical_us) const {
  if (kind == Kind::combined && !trusts(class_of(row))) return analytical_us;
  if (kind == Kind::combined) return analytical_us * std::exp(outside(row) ? offset : offset + trees.evaluate(row));
  return std::exp(offset + level * std::log(least_us(row)) - scale * trees.evaluate(row));
}

std::string encode(const TrainedCostModel& model) {
  Json ranges = Json::array();
  for (const FeatureRange& range : model.ranges) ranges.push_back(Json::array({range.low, range.high, range.seen}));
  const Json document = {{"kind", to_string(model.kind)},
                         {"device", model.device},
                         {"unit", model.unit},
                         {"features", model.features},
                         {"feature_set", model.feature_set.hex()},
                         {"training_set", model.training_set.hex()},
                         {"seed", model.seed},
                         {"trusted", model.trusted},
                         {"samples", model.samples},
                         {"kernels", model.kernels},
                         {"ranges", std::move(ranges)},
                         {"trees", binary(model.trees.bytes())},
                         {"constants", to_document(model.constants)},
                         {"offset", model.offset},
                         {"level", model.level},
                         {"scale", model.scale}};
  const std::vector<std::uint8_t> cbor = Json::to_cbor(document);
  return seal_envelope(envelope, {reinterpret_cast<const char*>(cbor.data()), cbor.size()});
}

Result<TrainedCostModel> decode_model(std::string_view bytes) {
  STITCH_ASSIGN(const std::string_view payload, open_envelope(envelope, bytes));
  try {
    return read(Json::from_cbor(payload.begin(), payload.end()));
  } catch (const Json::exception& error) {
    return make_error(ErrorKind::corrupt, "trained cost model: {}", error.what());
  }
}

}  // namespace stitch::costmodel
