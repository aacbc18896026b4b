#include "lab/spaces/kernel_tuner_file.h"

#include <nlohmann/json.hpp>

#include "lab/spaces/configuration_table.h"

namespace stitch::lab {
namespace {

using nlohmann::json;

constexpr double us_per_ms = 1000;
constexpr double failed_before_words = 1e19;  ///< ms: old versions wrote 1e20 for a configuration that failed

Result<ErrorKind> failure_of(const std::string& word, std::string_view where) {
  if (word == "InvalidConfig") return ErrorKind::constraint;
  if (word == "CompilationFailedConfig") return ErrorKind::compile;
  if (word == "RuntimeFailedConfig") return ErrorKind::runtime;
  return make_error(ErrorKind::parse, "{}: its time is the word '{}', which is no failure that is known", where, word);
}

Result<RecordedTrial> trial_of(const json& entry, std::string_view where) {
  RecordedTrial trial;
  const auto time = entry.find("time");
  if (time == entry.end()) return make_error(ErrorKind::parse, "{}: it has no time", where);
  if (time->is_string()) {
    STITCH_ASSIGN(trial.failure, failure_of(time->get<std::string>(), where));
    return trial;
  }
  if (!time->is_number()) {
    return make_error(ErrorKind::parse, "{}: its time is neither a number nor a word", where);
  }
  if (time->get<double>() > failed_before_words) {
    trial.failure = ErrorKind::runtime;
    return trial;
  }
  trial.time_us = time->get<double>() * us_per_ms;
  if (!(trial.time_us > 0)) return make_error(ErrorKind::parse, "{}: its time is {} ms", where, time->dump());
  const auto samples = entry.find("times");
  if (samples == entry.end()) return trial;
  if (!samples->is_array()) return make_error(ErrorKind::parse, "{}: its times are no list", where);
  for (const json& sample : *samples) {
    if (!sample.is_number()) return make_error(ErrorKind::parse, "{}: one of its times is no number", where);
    trial.samples_us.push_back(sample.get<double>() * us_per_ms);
  }
  return trial;
}

Status add_parameters(const json& document, ConfigurationTable& table) {
  const json& keys = document.at("tune_params_keys");
  const json& values = document.at("tune_params");
  if (!keys.is_array() || !values.is_object()) {
    return make_error(ErrorKind::parse, "tune_params_keys is no list, or tune_params no object");
  }
  for (const json& key : keys) {
    const std::string name = key.is_string() ? key.get<std::string>() : "";
    if (!values.contains(name) || !values.at(name).is_array()) {
      return make_error(ErrorKind::parse, "tune_params lists no values of parameter {}", key.dump());
    }
    std::vector<search::ParameterValue> domain;
    for (const json& value : values.at(name)) {
      STITCH_ASSIGN(search::ParameterValue one, parameter_value(value, "tune_params, " + name));
      domain.push_back(std::move(one));
    }
    table.add_parameter(name, std::move(domain));
  }
  return {};
}

std::string text_of(const json& document, const char* name) {
  const auto field = document.find(name);
  return field != document.end() && field->is_string() ? field->get<std::string>() : "";
}

}  // namespace

bool is_kernel_tuner_file(const json& document) {
  return document.is_object() && document.contains("tune_params") && document.contains("tune_params_keys") &&
         document.contains("cache");
}

Result<RecordedSpace> read_kernel_tuner_file(const json& document) {
  ConfigurationTable table;
  STITCH_TRY(add_parameters(document, table));
  const json& cache = document.at("cache");
  if (!cache.is_object()) return make_error(ErrorKind::parse, "cache is no object");
  for (const auto& [key, entry] : cache.items()) {
    const std::string where = "cache entry '" + key + "'";
    if (!entry.is_object()) return make_error(ErrorKind::parse, "{} is no object", where);
    STITCH_ASSIGN(RecordedTrial trial, trial_of(entry, where));
    STITCH_TRY(table.add(entry, std::move(trial), where));
  }
  STITCH_ASSIGN(RecordedSpace recorded, std::move(table).finish());
  recorded.device = text_of(document, "device_name");
  recorded.kernel = text_of(document, "kernel_name");
  return recorded;
}

}  // namespace stitch::lab
