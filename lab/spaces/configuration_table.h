#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lab/spaces/recorded_space.h"

namespace stitch::lab {

/// Collects configurations as files list them (a value per parameter) into a candidate space with value indices.
class ConfigurationTable {
 public:
  /// Values are in the order given; of a parameter whose values are all numbers, ascending.
  void add_parameter(std::string name, std::vector<search::ParameterValue> values);
  /// A configuration with its trial. A configuration that is there already is left out: the first counts. Errors
  /// (parse): a value missing or not among the parameter's; `where` names the entry.
  Status add(const nlohmann::json& values, RecordedTrial trial, std::string_view where);
  [[nodiscard]] std::size_t size() const { return rows_.size(); }
  /// Errors (parse): nothing was added.
  Result<RecordedSpace> finish() &&;

 private:
  std::vector<search::Parameter> parameters_;
  std::vector<std::vector<std::uint16_t>> rows_;
  std::map<std::vector<std::uint16_t>, std::size_t> known_;
  std::vector<RecordedTrial> trials_;
};

/// A parameter's value: a number, a word, or a truth value (0 or 1). Errors (parse): anything else.
Result<search::ParameterValue> parameter_value(const nlohmann::json& value, std::string_view where);

}  // namespace stitch::lab
