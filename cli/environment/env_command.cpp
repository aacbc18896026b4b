#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/environment.h"
#include "cli/commands.h"

namespace stitch::cli {
namespace {

namespace fs = std::filesystem;

/// What the Python package's file of options says for all its front ends, by option.
struct OptionsFile {
  fs::path path;
  std::map<std::string, std::string> values;
  std::string error;  ///< why it could not be read
};

/// Where python/stitch/_settings.py has it.
fs::path options_path() {
  if (const char* named = std::getenv("STITCH_CONFIG"); named != nullptr && *named != '\0') return named;
  const char* config = std::getenv("XDG_CONFIG_HOME");
  const char* home = std::getenv("HOME");
  const fs::path folder =
      config != nullptr && *config != '\0' ? fs::path(config) : fs::path(home != nullptr ? home : "") / ".config";
  return folder / "stitch" / "config.toml";
}

OptionsFile read_options() {
  OptionsFile file{options_path(), {}, {}};
  std::ifstream text(file.path);
  if (!text) return file;
  try {
    for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(text)) {
      if (!item.parents.empty() || item.inputs.empty()) continue;  // a front end's own
      file.values[item.name] = item.inputs.front();
    }
  } catch (const CLI::Error& error) {
    file.error = error.what();
  }
  return file;
}

/// A value and who says it.
struct Setting {
  std::string value, origin;
};

/// The environment before the file, that before the default.
std::optional<Setting> setting_of(const EnvironmentVariable& variable, const OptionsFile& file) {
  if (const char* value = std::getenv(variable.name); value != nullptr && *value != '\0')
    return Setting{value, "environment"};
  if (const auto found = file.values.find(variable.option); found != file.values.end())
    return Setting{found->second, file.path.string()};
  if (*variable.otherwise != '\0') return Setting{variable.otherwise, "default"};
  return std::nullopt;
}

void print_document(const OptionsFile& file) {
  nlohmann::ordered_json listed = nlohmann::ordered_json::array();
  for (const EnvironmentVariable& each : environment_variables()) {
    const std::optional<Setting> setting = setting_of(each, file);
    listed.push_back({{"name", each.name},
                      {"reader", each.reader},
                      {"meaning", each.meaning},
                      {"value", setting ? nlohmann::ordered_json(setting->value) : nlohmann::ordered_json()},
                      {"origin", setting ? nlohmann::ordered_json(setting->origin) : nlohmann::ordered_json()}});
  }
  const nlohmann::ordered_json document = {
      {"variables", listed}, {"unknown", unknown_environment_variables()}, {"file", file.path.string()}};
  std::printf("%s\n", document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

void print_table(const OptionsFile& file) {
  for (const EnvironmentVariable& each : environment_variables()) {
    std::puts(fmt::format("{:<26} {:<16} {}", each.name, each.reader, each.meaning).c_str());
    if (const std::optional<Setting> setting = setting_of(each, file))
      std::puts(fmt::format("{:<26} = {} ({})", "", setting->value, setting->origin).c_str());
  }
  for (const std::string& name : unknown_environment_variables())
    std::puts(fmt::format("{:<26} is set and read by nobody here", name).c_str());
}

}  // namespace

void add_env_command(CLI::App& app, ExitCode& code) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("env", "The environment variables that Stitch reads, what holds here, and who says so");
  command->add_flag("--json", *json, "print one JSON object");
  command->callback([json, &code] {
    const OptionsFile file = read_options();
    if (!file.error.empty()) std::fprintf(stderr, "stitch: %s: %s\n", file.path.c_str(), file.error.c_str());
    if (*json) {
      print_document(file);
    } else {
      print_table(file);
    }
    code = ExitCode::success;
  });
}

}  // namespace stitch::cli
