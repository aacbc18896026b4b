#include "lab/spaces/t4_file.h"

#include <array>
#include <nlohmann/json.hpp>
#include <numeric>

#include "lab/spaces/configuration_table.h"

namespace stitch::lab {
namespace {

using nlohmann::json;

Result<std::optional<ErrorKind>> failure_of(const json& result, std::string_view where) {
  static constexpr std::array<std::pair<std::string_view, ErrorKind>, 5> kinds = {
      {{"timeout", ErrorKind::timeout},
       {"compile", ErrorKind::compile},
       {"runtime", ErrorKind::runtime},
       {"correctness", ErrorKind::correctness},
       {"constraints", ErrorKind::constraint}}};
  const auto field = result.find("invalidity");
  if (field == result.end() || !field->is_string()) {
    return make_error(ErrorKind::parse, "{}: it has no invalidity", where);
  }
  const std::string word = field->get<std::string>();
  if (word == "correct") return std::optional<ErrorKind>();
  for (const auto& [name, kind] : kinds) {
    if (word == name) return std::optional(kind);
  }
  return make_error(ErrorKind::parse, "{}: its invalidity is '{}', which the format does not have", where, word);
}

Result<double> us_per_unit(const std::string& unit, std::string_view where) {
  if (unit == "ns" || unit == "nanoseconds") return 1e-3;
  if (unit == "us" || unit == "microseconds") return 1.0;
  if (unit == "ms" || unit == "milliseconds") return 1e3;
  if (unit == "s" || unit == "seconds") return 1e6;
  return make_error(ErrorKind::parse, "{}: '{}' is no unit of time", where, unit);
}

/// The measurement that was optimised, if it is there.
const json* objective_of(const json& result) {
  std::string wanted = "time";
  const auto objectives = result.find("objectives");
  if (objectives != result.end() && objectives->is_array() && !objectives->empty() && objectives->front().is_string()) {
    wanted = objectives->front().get<std::string>();
  }
  const auto measurements = result.find("measurements");
  if (measurements == result.end() || !measurements->is_array()) return nullptr;
  for (const json& measurement : *measurements) {
    if (measurement.is_object() && measurement.value("name", json()) == wanted &&
        measurement.value("value", json()).is_number()) {
      return &measurement;
    }
  }
  return nullptr;
}

Result<RecordedTrial> trial_of(const json& result, const std::string& file_unit, std::string_view where) {
  RecordedTrial trial;
  STITCH_ASSIGN(trial.failure, failure_of(result, where));
  if (trial.failure) return trial;
  STITCH_ASSIGN(const double file_scale, us_per_unit(file_unit, where));
  const json times = result.value("times", json::object());
  const json runtimes = times.is_object() ? times.value("runtimes", json::array()) : json::array();
  for (const json& runtime : runtimes) {
    if (!runtime.is_number()) return make_error(ErrorKind::parse, "{}: one of its runtimes is no number", where);
    trial.samples_us.push_back(runtime.get<double>() * file_scale);
  }
  if (const json* objective = objective_of(result)) {
    const json unit = objective->value("unit", json(""));
    const std::string own = unit.is_string() ? unit.get<std::string>() : "";
    STITCH_ASSIGN(const double scale, us_per_unit(own.empty() ? file_unit : own, where));
    trial.time_us = objective->at("value").get<double>() * scale;
  } else if (!trial.samples_us.empty()) {
    trial.time_us = std::accumulate(trial.samples_us.begin(), trial.samples_us.end(), 0.0) / trial.samples_us.size();
  } else {
    return make_error(ErrorKind::parse, "{}: it is correct, and has neither a measured objective nor runtimes", where);
  }
  if (!(trial.time_us > 0)) return make_error(ErrorKind::parse, "{}: its time is {} us", where, trial.time_us);
  return trial;
}

/// The parameters with the values that occur, in the order in which they do.
Result<std::vector<std::pair<std::string, std::vector<search::ParameterValue>>>> domains_of(const json& results) {
  std::vector<std::pair<std::string, std::vector<search::ParameterValue>>> domains;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string where = fmt::format("result {}", i);
    if (!results[i].is_object() || !results[i].contains("configuration") ||
        !results[i].at("configuration").is_object()) {
      return make_error(ErrorKind::parse, "{}: it has no configuration", where);
    }
    for (const auto& [name, value] : results[i].at("configuration").items()) {
      const std::string& wanted = name;
      auto domain = std::ranges::find_if(domains, [&](const auto& one) { return one.first == wanted; });
      if (domain == domains.end()) domain = domains.insert(domain, {name, {}});
      STITCH_ASSIGN(search::ParameterValue one, parameter_value(value, where));
      if (std::ranges::find(domain->second, one) == domain->second.end()) domain->second.push_back(std::move(one));
    }
  }
  return domains;
}

}  // namespace

bool is_t4_file(const json& document) { return document.is_object() && document.contains("results"); }

Result<RecordedSpace> read_t4_file(const json& document) {
  const json& results = document.at("results");
  if (!results.is_array()) return make_error(ErrorKind::parse, "results is no list");
  std::string unit = "ms";
  if (const auto metadata = document.find("metadata"); metadata != document.end() && metadata->is_object()) {
    if (const auto field = metadata->find("timeunit"); field != metadata->end() && field->is_string()) unit = *field;
  }
  ConfigurationTable table;
  STITCH_ASSIGN(auto domains, domains_of(results));
  for (auto& [name, values] : domains) table.add_parameter(name, std::move(values));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string where = fmt::format("result {}", i);
    STITCH_ASSIGN(RecordedTrial trial, trial_of(results[i], unit, where));
    STITCH_TRY(table.add(results[i].at("configuration"), std::move(trial), where));
  }
  return std::move(table).finish();
}

}  // namespace stitch::lab
