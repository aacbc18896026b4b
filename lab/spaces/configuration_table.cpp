#include "lab/spaces/configuration_table.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

namespace stitch::lab {

Result<search::ParameterValue> parameter_value(const nlohmann::json& value, std::string_view where) {
  if (value.is_number()) return search::ParameterValue(value.get<double>());
  if (value.is_boolean()) return search::ParameterValue(value.get<bool>() ? 1.0 : 0.0);
  if (value.is_string()) return search::ParameterValue(value.get<std::string>());
  return make_error(ErrorKind::parse, "{}: a value is neither a number nor a word but {}", where, value.type_name());
}

void ConfigurationTable::add_parameter(std::string name, std::vector<search::ParameterValue> values) {
  const auto is_number = [](const search::ParameterValue& value) { return std::holds_alternative<double>(value); };
  std::vector<search::ParameterValue> distinct;
  for (search::ParameterValue& value : values) {
    if (std::ranges::find(distinct, value) == distinct.end()) distinct.push_back(std::move(value));
  }
  if (std::ranges::all_of(distinct, is_number)) std::ranges::sort(distinct);
  parameters_.push_back({std::move(name), std::move(distinct)});
}

Status ConfigurationTable::add(const nlohmann::json& values, RecordedTrial trial, std::string_view where) {
  std::vector<std::uint16_t> row;
  for (const search::Parameter& parameter : parameters_) {
    const auto field = values.find(parameter.name);
    if (field == values.end()) {
      return make_error(ErrorKind::parse, "{}: it has no value of parameter {}", where, parameter.name);
    }
    STITCH_ASSIGN(const search::ParameterValue value, parameter_value(*field, where));
    const auto at = std::ranges::find(parameter.values, value);
    if (at == parameter.values.end()) {
      return make_error(ErrorKind::parse, "{}: {} is not among the values of parameter {}", where,
                        search::to_string(value), parameter.name);
    }
    row.push_back(at - parameter.values.begin());
  }
  if (!known_.emplace(row, rows_.size()).second) return {};
  rows_.push_back(std::move(row));
  trials_.push_back(std::move(trial));
  return {};
}

Result<RecordedSpace> ConfigurationTable::finish() && {
  if (rows_.empty()) return make_error(ErrorKind::parse, "it holds no configuration");
  for (const search::Parameter& parameter : parameters_) {
    if (parameter.values.size() > std::numeric_limits<std::uint16_t>::max()) {
      return make_error(ErrorKind::resource_exhausted, "parameter {} has {} values", parameter.name,
                        parameter.values.size());
    }
  }
  RecordedSpace recorded;
  STITCH_ASSIGN(recorded.space, search::CandidateSpace::from_parameters(std::move(parameters_), rows_));
  recorded.trials = std::move(trials_);
  return recorded;
}

}  // namespace stitch::lab
