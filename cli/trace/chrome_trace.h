#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace stitch::cli {

/// Something that took place, for chrome://tracing and Perfetto.
struct ChromeEvent {
  std::string name, category;
  double at_us = 0;
  std::optional<double> took_us;  ///< nothing: a moment
  std::int64_t process = 1, thread = 1;
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
};

struct ChromeTrace {
  std::vector<ChromeEvent> events;
  std::map<std::int64_t, std::string> processes;                    ///< their names
  nlohmann::ordered_json about = nlohmann::ordered_json::object();  ///< for whoever reads the file: "otherData"
};

/// The Trace Event Format's JSON object ("Trace Event Format", Google, 2016): complete events, instant ones and names.
/// Times are written in the order of `at_us`, as Perfetto wants them.
std::string to_json(const ChromeTrace& trace);

}  // namespace stitch::cli
