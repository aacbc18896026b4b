#include "profiler/measure/measurement.h"

#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace stitch::profiler {
namespace {

using Json = nlohmann::json;

void put(Json& document, const char* name, const std::optional<double>& value) {
  if (value) document[name] = *value;
}

void take(const Json& document, const char* name, std::optional<double>& value) {
  if (document.contains(name)) value = document.at(name).get<double>();
}

Json document_of(const DeviceState& state) {
  Json document = {{"throttled", state.throttled}};
  put(document, "sm_clock_mhz", state.sm_clock_mhz);
  put(document, "memory_clock_mhz", state.memory_clock_mhz);
  put(document, "temperature_c", state.temperature_c);
  put(document, "power_w", state.power_w);
  return document;
}

DeviceState state_from(const Json& document) {
  DeviceState state;
  document.at("throttled").get_to(state.throttled);
  take(document, "sm_clock_mhz", state.sm_clock_mhz);
  take(document, "memory_clock_mhz", state.memory_clock_mhz);
  take(document, "temperature_c", state.temperature_c);
  take(document, "power_w", state.power_w);
  return state;
}

Json document_of(const HardwareCounters& counters) {
  return {{"dram_read_bytes", counters.dram_read_bytes},
          {"dram_write_bytes", counters.dram_write_bytes},
          {"achieved_occupancy", counters.achieved_occupancy}};
}

HardwareCounters counters_from(const Json& document) {
  return {document.at("dram_read_bytes").get<double>(), document.at("dram_write_bytes").get<double>(),
          document.at("achieved_occupancy").get<double>()};
}

Json document_of(const StoppingOptions& stopping) {
  return {{"min_samples", stopping.min_samples},
          {"max_samples", stopping.max_samples},
          {"min_time_us", stopping.min_time_us},
          {"max_time_us", stopping.max_time_us},
          {"relative_deviation", stopping.relative_deviation},
          {"stable_window", stopping.stable_window},
          {"stable_noise", stopping.stable_noise},
          {"stable_median", stopping.stable_median}};
}

StoppingOptions stopping_from(const Json& document) {
  StoppingOptions stopping;
  document.at("min_samples").get_to(stopping.min_samples);
  document.at("max_samples").get_to(stopping.max_samples);
  document.at("min_time_us").get_to(stopping.min_time_us);
  document.at("max_time_us").get_to(stopping.max_time_us);
  document.at("relative_deviation").get_to(stopping.relative_deviation);
  document.at("stable_window").get_to(stopping.stable_window);
  document.at("stable_noise").get_to(stopping.stable_noise);
  document.at("stable_median").get_to(stopping.stable_median);
  return stopping;
}

Measurement read_measurement(const Json& document) {
  Measurement m;
  m.kind = document.at("kind").get<std::string>() == to_string(Measurement::Kind::event_count)
               ? Measurement::Kind::event_count
               : Measurement::Kind::device_time;
  document.at("unit").get_to(m.unit);
  document.at("samples").get_to(m.samples);
  document.at("dropped_samples").get_to(m.dropped_samples);
  document.at("dropped_reasons").get_to(m.dropped_reasons);
  document.at("median").get_to(m.median);
  document.at("mean").get_to(m.mean);
  document.at("noise").get_to(m.noise);
  document.at("stopped").get_to(m.stopped);
  document.at("method").get_to(m.method);
  document.at("cold_l2").get_to(m.cold_l2);
  document.at("cuda_graph").get_to(m.cuda_graph);
  document.at("launches").get_to(m.launches);
  document.at("rotation").get_to(m.rotation);
  m.before = state_from(document.at("before"));
  m.after = state_from(document.at("after"));
  document.at("driver").get_to(m.driver);
  document.at("toolkit").get_to(m.toolkit);
  document.at("no_counters").get_to(m.no_counters);
  if (document.contains("counters")) m.counters = counters_from(document.at("counters"));
  return m;
}

}  // namespace

std::string_view to_string(Measurement::Kind kind) {
  return kind == Measurement::Kind::event_count ? "event_count" : "device_time";
}

void summarise(Measurement& measurement, Verdict verdict) {
  const auto& samples = measurement.samples;
  measurement.median = median_of(samples);
  measurement.noise = trimmed_deviation(samples);
  measurement.mean = 0;
  for (const double sample : samples) measurement.mean += sample / samples.size();
  measurement.stopped = fmt::format("{} (noise {:.2f} %)", to_string(verdict), 100 * measurement.noise);
}

std::optional<double> mean_of(const std::optional<double>& before, const std::optional<double>& after) {
  if (before && after) return (*before + *after) / 2;
  return before ? before : after;
}

std::string conditions(const Measurement& measurement) {
  Json document = {{"cuda_graph", measurement.cuda_graph}, {"launches", measurement.launches},
                   {"rotation", measurement.rotation},     {"toolkit", measurement.toolkit},
                   {"noise", measurement.noise},           {"unit", measurement.unit}};
  put(document, "power_w", mean_of(measurement.before.power_w, measurement.after.power_w));
  if (!measurement.dropped_samples.empty()) {
    document["dropped_samples"] = measurement.dropped_samples;
    document["dropped_reasons"] = measurement.dropped_reasons;
  }
  if (measurement.counters) document["counters"] = document_of(*measurement.counters);
  if (!measurement.no_counters.empty()) document["no_counters"] = measurement.no_counters;
  return document.dump();
}

std::string to_text(const Measurement& measurement) {
  std::string dropped;
  if (!measurement.dropped_samples.empty()) {
    dropped = fmt::format(", {} dropped: {}", measurement.dropped_samples.size(),
                          fmt::join(measurement.dropped_reasons, ", "));
  }
  return fmt::format("{:.2f} {} (noise {:.2f} %, {} samples{}), {} L2, {}", measurement.median, measurement.unit,
                     100 * measurement.noise, measurement.samples.size(), dropped,
                     measurement.cold_l2 ? "cold" : "warm", measurement.stopped);
}

Json to_document(const Measurement& m) {
  Json document = {{"kind", to_string(m.kind)},
                   {"unit", m.unit},
                   {"samples", m.samples},
                   {"dropped_samples", m.dropped_samples},
                   {"dropped_reasons", m.dropped_reasons},
                   {"median", m.median},
                   {"mean", m.mean},
                   {"noise", m.noise},
                   {"stopped", m.stopped},
                   {"method", m.method},
                   {"cold_l2", m.cold_l2},
                   {"cuda_graph", m.cuda_graph},
                   {"launches", m.launches},
                   {"rotation", m.rotation},
                   {"before", document_of(m.before)},
                   {"after", document_of(m.after)},
                   {"driver", m.driver},
                   {"toolkit", m.toolkit},
                   {"no_counters", m.no_counters}};
  if (m.counters) document["counters"] = document_of(*m.counters);
  return document;
}

Json to_document(const MeasureOptions& options) {
  return {{"stopping", document_of(options.stopping)},
          {"cold_l2", options.cold_l2},
          {"warm_up_us", options.warm_up_us},
          {"cool_down_us", options.cool_down_us},
          {"counters", options.counters}};
}

Result<Measurement> measurement_from(const Json& document) {
  try {
    Measurement measurement = read_measurement(document);
    for (const auto* samples : {&measurement.samples, &measurement.dropped_samples}) {
      for (const double sample : *samples) {
        if (std::isfinite(sample) && sample >= 0) continue;
        return make_error(ErrorKind::invalid_argument, "measurement: a sample of {} {}", sample, measurement.unit);
      }
    }
    return measurement;
  } catch (const Json::exception& exception) {
    return make_error(ErrorKind::parse, "measurement: {}", exception.what());
  }
}

Result<MeasureOptions> measure_options_from(const Json& document) {
  try {
    MeasureOptions options;
    options.stopping = stopping_from(document.at("stopping"));
    document.at("cold_l2").get_to(options.cold_l2);
    document.at("warm_up_us").get_to(options.warm_up_us);
    document.at("cool_down_us").get_to(options.cool_down_us);
    document.at("counters").get_to(options.counters);
    return options;
  } catch (const Json::exception& exception) {
    return make_error(ErrorKind::parse, "measure options: {}", exception.what());
  }
}

}  // namespace stitch::profiler
