#include "search/trials/candidate_space.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/hash.h"

namespace stitch::search {
namespace {

std::uint64_t hash_row(CandidateSpace::Row row) {
  std::uint64_t hash = row.size();
  for (const std::uint16_t index : row) hash = mix(hash, index);
  return hash;
}

/// Brings numbers to [0, 1]; false where they are all the same.
bool to_unit_range(std::vector<float>& values) {
  if (values.empty()) return false;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const float least = *low, range = *high - *low;
  if (!(range > 0)) return false;
  for (float& value : values) value = (value - least) / range;
  return true;
}

std::optional<std::vector<double>> numbers_of(const Parameter& parameter) {
  std::vector<double> numbers;
  for (const ParameterValue& value : parameter.values) {
    const double* number = std::get_if<double>(&value);
    if (number == nullptr) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

/// Whether two encodings say the same: their correlation is one.
bool say_the_same(const std::vector<float>& x, const std::vector<float>& y) {
  const double n = x.size();
  const double mx = std::accumulate(x.begin(), x.end(), 0.0) / n, my = std::accumulate(y.begin(), y.end(), 0.0) / n;
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mx) * (x[i] - mx);
    yy += (y[i] - my) * (y[i] - my);
    xy += (x[i] - mx) * (y[i] - my);
  }
  return xx == 0 || yy == 0 || xy * xy > 0.998 * xx * yy;
}

/// How large the values are: logarithms of positive numbers, otherwise ranks (zeros and signs are switches).
std::vector<float> magnitudes(const std::vector<double>& numbers) {
  std::vector<float> magnitudes;
  std::vector<double> sorted = numbers;
  std::sort(sorted.begin(), sorted.end());
  for (const double number : numbers) {
    const auto rank = std::lower_bound(sorted.begin(), sorted.end(), number) - sorted.begin();
    magnitudes.push_back(sorted.front() > 0 ? std::log2(number) : rank);
  }
  return magnitudes;
}

/// How often two divides a whole number, at most seven times: sizes that are multiples of a warp, a sector or a vector
/// behave alike, however far apart they are.
std::vector<float> alignments(const std::vector<double>& numbers) {
  std::vector<float> alignments;
  for (const double number : numbers) {
    int times = 0;
    for (std::int64_t whole = number; times < 7 && whole % 2 == 0; whole /= 2) ++times;
    alignments.push_back(times);
  }
  return alignments;
}

/// The features of one parameter, with a number per value of the parameter.
std::vector<Feature> encode(const Parameter& parameter) {
  std::vector<float> labels(parameter.values.size());
  std::iota(labels.begin(), labels.end(), 0.0F);
  const auto numbers = numbers_of(parameter);
  if (!numbers) return {{std::move(labels), true, false}};
  std::vector<Feature> features = {{magnitudes(*numbers), false, false}};
  const bool sizes =
      std::all_of(numbers->begin(), numbers->end(), [](double v) { return v > 0 && v < 1e15 && v == std::floor(v); });
  if (sizes && numbers->size() > 4) {
    std::vector<float> aligned = alignments(*numbers);
    if (!say_the_same(aligned, features[0].values)) features.push_back({std::move(aligned), false, false});
  }
  if (numbers->size() > 2) features.push_back({std::move(labels), true, true});
  return features;
}

}  // namespace

std::string to_string(const ParameterValue& value) {
  if (const auto* word = std::get_if<std::string>(&value)) return *word;
  return fmt::format("{}", std::get<double>(value));
}

Result<CandidateSpace> CandidateSpace::from_parameters(std::vector<Parameter> parameters,
                                                       const std::vector<std::vector<std::uint16_t>>& rows) {
  if (parameters.empty()) return make_error(ErrorKind::invalid_argument, "a space of candidates without parameters");
  CandidateSpace space;
  space.parameters_ = std::move(parameters);
  space.features_.size = rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].size() != space.parameters_.size()) {
      return make_error(ErrorKind::invalid_argument, "configuration {} has {} values for {} parameters", i,
                        rows[i].size(), space.parameters_.size());
    }
    for (std::size_t p = 0; p < rows[i].size(); ++p) {
      if (rows[i][p] < space.parameters_[p].values.size()) continue;
      return make_error(ErrorKind::invalid_argument, "configuration {}: parameter {} has no value {}", i,
                        space.parameters_[p].name, rows[i][p]);
    }
    if (space.find(rows[i])) return make_error(ErrorKind::invalid_argument, "configuration {} is there twice", i);
    space.rows_.insert(space.rows_.end(), rows[i].begin(), rows[i].end());
    space.by_row_.emplace(hash_row(rows[i]), i);
  }
  for (std::size_t p = 0; p < space.parameters_.size(); ++p) {
    for (const Feature& by_value : encode(space.parameters_[p])) {
      Feature feature{std::vector<float>(rows.size()), by_value.label, by_value.minor};
      for (std::size_t i = 0; i < rows.size(); ++i) feature.values[i] = by_value.values[rows[i][p]];
      const bool varies = std::ranges::adjacent_find(feature.values, std::not_equal_to{}) != feature.values.end();
      if (varies && (feature.label || to_unit_range(feature.values)))
        space.features_.list.push_back(std::move(feature));
    }
  }
  return space;
}

Result<CandidateSpace> CandidateSpace::from_vectors(const std::vector<std::vector<double>>& vectors) {
  CandidateSpace space;
  space.features_.size = vectors.size();
  const std::size_t width = vectors.empty() ? 0 : vectors.front().size();
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    if (vectors[i].size() != width) {
      return make_error(ErrorKind::invalid_argument, "candidate {} has {} features, candidate 0 has {}", i,
                        vectors[i].size(), width);
    }
    if (!std::all_of(vectors[i].begin(), vectors[i].end(), [](double v) { return std::isfinite(v); })) {
      return make_error(ErrorKind::invalid_argument, "candidate {} has a feature that is not finite", i);
    }
  }
  for (std::size_t c = 0; c < width; ++c) {
    Feature feature{std::vector<float>(vectors.size())};
    for (std::size_t i = 0; i < vectors.size(); ++i) feature.values[i] = vectors[i][c];
    if (to_unit_range(feature.values)) space.features_.list.push_back(std::move(feature));
  }
  return space;
}

CandidateSpace::Row CandidateSpace::row(std::size_t candidate) const {
  const std::size_t width = parameters_.size();
  return Row(rows_).subspan(candidate * width, width);
}

std::optional<std::size_t> CandidateSpace::find(Row wanted) const {
  const auto [from, to] = by_row_.equal_range(hash_row(wanted));
  for (auto at = from; at != to; ++at) {
    if (std::ranges::equal(row(at->second), wanted)) return at->second;
  }
  return std::nullopt;
}

std::vector<std::size_t> CandidateSpace::neighbours(std::size_t candidate) const {
  std::vector<std::size_t> found;
  if (parameters_.empty()) {
    std::vector<std::pair<float, std::size_t>> by_distance;
    for (std::size_t i = 0; i < size(); ++i) {
      if (i != candidate) by_distance.emplace_back(squared_distance(features_, candidate, i), i);
    }
    const std::size_t count = std::min<std::size_t>(16, by_distance.size());
    std::partial_sort(by_distance.begin(), by_distance.begin() + count, by_distance.end());
    for (std::size_t i = 0; i < count; ++i) found.push_back(by_distance[i].second);
    return found;
  }
  std::vector<std::size_t> farther;
  std::vector<std::uint16_t> changed(row(candidate).begin(), row(candidate).end());
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    const std::uint16_t own = changed[p];
    for (std::uint16_t value = 0; value < parameters_[p].values.size(); ++value) {
      if (value == own) continue;
      changed[p] = value;
      if (const auto other = find(changed)) (std::abs(value - own) == 1 ? found : farther).push_back(*other);
    }
    changed[p] = own;
  }
  found.insert(found.end(), farther.begin(), farther.end());
  return found;
}

std::vector<std::size_t> CandidateSpace::switched(std::size_t candidate) const {
  std::vector<std::size_t> others;  // than switches: parameters that have to be equal
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    if (parameters_[p].values.size() > 2 && numbers_of(parameters_[p])) others.push_back(p);
  }
  std::vector<std::size_t> found;
  if (others.size() == parameters_.size()) return found;
  const Row own = row(candidate);
  for (std::size_t i = 0; i < size(); ++i) {
    const Row at = row(i);
    if (i != candidate && std::ranges::all_of(others, [&](std::size_t p) { return at[p] == own[p]; })) {
      found.push_back(i);
    }
  }
  return found;
}

std::string CandidateSpace::describe(std::size_t candidate) const {
  if (parameters_.empty()) return fmt::format("#{}", candidate);
  std::string text;
  for (std::size_t p = 0; p < parameters_.size(); ++p) {
    if (parameters_[p].values.size() < 2) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", parameters_[p].name,
                        to_string(parameters_[p].values[row(candidate)[p]]));
  }
  return text;
}

std::vector<std::optional<std::size_t>> CandidateSpace::match(const CandidateSpace& other) const {
  std::vector<std::optional<std::size_t>> matched(size());
  const std::size_t width = other.parameters_.size();
  std::vector<std::optional<std::size_t>> own(width);  // our parameter of the other's name
  for (std::size_t p = 0; p < width; ++p) {
    const auto at = std::ranges::find(parameters_, other.parameters_[p].name, &Parameter::name);
    if (at != parameters_.end())
      own[p] = at - parameters_.begin();
    else if (other.parameters_[p].values.size() > 1)
      return matched;
  }
  for (const Parameter& parameter : parameters_) {
    const bool shared =
        std::ranges::find(other.parameters_, parameter.name, &Parameter::name) != other.parameters_.end();
    if (!shared && parameter.values.size() > 1) return matched;
  }
  std::vector<std::vector<std::optional<std::uint16_t>>> translated(width);
  for (std::size_t p = 0; p < width; ++p) {
    if (!own[p]) continue;
    for (const ParameterValue& value : parameters_[*own[p]].values) {
      const auto at = std::ranges::find(other.parameters_[p].values, value);
      if (at == other.parameters_[p].values.end())
        translated[p].emplace_back();
      else
        translated[p].emplace_back(static_cast<std::uint16_t>(at - other.parameters_[p].values.begin()));
    }
  }
  std::vector<std::uint16_t> wanted(width);
  for (std::size_t i = 0; i < size(); ++i) {
    bool known = true;
    for (std::size_t p = 0; p < width && known; ++p) {
      const auto value = own[p] ? translated[p][row(i)[*own[p]]] : std::optional<std::uint16_t>(0);
      known = value.has_value();
      if (known) wanted[p] = *value;
    }
    if (known) matched[i] = other.find(wanted);
  }
  return matched;
}

float squared_distance(const CandidateFeatures& features, std::size_t a, std::size_t b) {
  float sum = 0;
  for (const Feature& feature : features.list) {
    const float difference = feature.values[a] - feature.values[b];
    sum += feature.label ? (difference == 0 ? 0.0F : 1.0F) : difference * difference;
  }
  return sum;
}

}  // namespace stitch::search
