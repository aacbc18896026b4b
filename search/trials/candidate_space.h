#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/result.h"

namespace stitch::search {

/// A value of a tunable parameter: a number, or a word that has no order.
using ParameterValue = std::variant<double, std::string>;
std::string to_string(const ParameterValue& value);

struct Parameter {
  std::string name;
  std::vector<ParameterValue> values;  ///< distinct, in the order in which they are neighbours

  bool operator==(const Parameter&) const = default;
};

/// One thing that a surrogate sees of the candidates: a number each.
struct Feature {
  std::vector<float> values;  ///< per candidate; within [0, 1] unless they are labels
  bool label = false;         ///< equal or different is all that counts: the distance is 0 or 1
  bool minor = false;         ///< beside another feature of the same parameter; believed to matter little at first
};

struct CandidateFeatures {
  std::size_t size = 0;  ///< candidates
  std::vector<Feature> list;
};

/// The candidates that a search chooses among, as values: either configurations of named parameters (a row of value
/// indices each), or bare feature vectors for candidates that have no parameters, such as schedules.
class CandidateSpace {
 public:
  using Row = std::span<const std::uint16_t>;

  /// Configurations as rows of value indices, one index per parameter. Errors (invalid_argument): no parameters, a row
  /// of another length, an index out of range, a row twice; the message names the row.
  static Result<CandidateSpace> from_parameters(std::vector<Parameter> parameters,
                                                const std::vector<std::vector<std::uint16_t>>& rows);
  /// Candidates described by numbers alone: one vector per candidate, all of one length. Numbers are brought to unit
  /// range; constant ones are dropped. Errors (invalid_argument): vectors of different lengths, a number not finite.
  static Result<CandidateSpace> from_vectors(const std::vector<std::vector<double>>& vectors);

  [[nodiscard]] std::size_t size() const { return features_.size; }
  [[nodiscard]] const std::vector<Parameter>& parameters() const { return parameters_; }
  [[nodiscard]] const CandidateFeatures& features() const { return features_; }
  /// Value indices of a candidate; empty in a space of bare vectors.
  [[nodiscard]] Row row(std::size_t candidate) const;
  /// The candidate with these value indices, if the space has it.
  [[nodiscard]] std::optional<std::size_t> find(Row row) const;
  /// Candidates that differ in exactly one parameter; those one step away in its order come first. In a space of bare
  /// vectors: the 16 nearest.
  [[nodiscard]] std::vector<std::size_t> neighbours(std::size_t candidate) const;
  /// Candidates that differ in switches alone: parameters of two values, or of words. None in a space of bare vectors.
  [[nodiscard]] std::vector<std::size_t> switched(std::size_t candidate) const;
  /// "block_size_x=32 tile=2"; "#17" in a space of bare vectors.
  [[nodiscard]] std::string describe(std::size_t candidate) const;
  /// For each candidate, the one of `other` with the same values of the same-named parameters; parameters that only one
  /// of the spaces has must be constant there. Nothing where `other` lacks it.
  [[nodiscard]] std::vector<std::optional<std::size_t>> match(const CandidateSpace& other) const;

 private:
  std::vector<Parameter> parameters_;
  std::vector<std::uint16_t> rows_;  ///< size × parameters, row by row
  std::unordered_multimap<std::uint64_t, std::uint32_t> by_row_;
  CandidateFeatures features_;
};

/// Squared distance of two candidates over all features.
float squared_distance(const CandidateFeatures& features, std::size_t a, std::size_t b);

}  // namespace stitch::search
