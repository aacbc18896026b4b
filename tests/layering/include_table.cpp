#include "tests/layering/include_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <regex>
#include <sstream>

namespace stitch::layering {
namespace {

/// Libraries that one layer, or few, keep from all others: the prefix of their headers, and who may include them.
struct OutsideRule {
  const char* prefix;
  std::set<std::string> folders;
};

const std::vector<OutsideRule>& outside_rules() {
  static const std::vector<OutsideRule> rules = {
      {"nvrtc.h", {"codegen"}},
      {"cupti", {"profiler"}},
      {"cuda.h", {"cuda", "driver"}},
      {"cuda_runtime", {}},
      {"seccomp.h", {"base"}},
      {"sqlite3.h", {"db"}},
      {"xgboost/", {"costmodel"}},
      {"onnx/", {"import"}},
      {"google/protobuf/", {"import"}},
      {"boost/", {"daemon", "client", "cli"}},
      {"CLI/", {"cli", "daemon", "profiler"}},
      {"spdlog/", {"daemon", "cli"}},
      {"xla/", {"python"}},
  };
  return rules;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) {
    part.erase(std::remove(part.begin(), part.end(), '`'), part.end());
    const auto first = part.find_first_not_of(" \t");
    if (first == std::string::npos) {
      part.clear();
    } else {
      part = part.substr(first, part.find_last_not_of(" \t") - first + 1);
    }
    parts.push_back(part);
  }
  return parts;
}

std::string folder_of(const std::string& header) { return header.substr(0, header.find('/')); }

Result<std::set<std::string>> parse_row(const IncludeTable& table, const std::string& folder, std::string text) {
  const auto known = [&](const std::string& name) {
    return std::find(table.folders.begin(), table.folders.end(), name) != table.folders.end();
  };
  std::set<std::string> allowed;
  const bool all = text.starts_with("all");
  if (text == "–") return allowed;
  if (all) {
    allowed.insert(table.folders.begin(), table.folders.end());
    text.erase(0, text.starts_with("all but ") ? 8 : 3);
  }
  for (const std::string& entry : split(text, ',')) {
    const bool header = entry.ends_with(".h");
    if (!known(header ? folder_of(entry) : entry)) {
      return make_error(ErrorKind::parse, "row of {}/: '{}' is no folder of the table", folder, entry);
    }
    if (all) {
      allowed.erase(entry);
    } else {
      allowed.insert(entry);
    }
  }
  allowed.erase(folder);
  return allowed;
}

}  // namespace

bool IncludeTable::may_include(const std::string& folder, const std::string& header) const {
  const std::string other = folder_of(header);
  const auto row = allowed.find(folder);
  return other == folder || (row != allowed.end() && (row->second.contains(other) || row->second.contains(header)));
}

bool IncludeTable::may_link(const std::string& folder, const std::string& other) const {
  const auto row = allowed.find(folder);
  return row != allowed.end() && std::any_of(row->second.begin(), row->second.end(),
                                             [&](const std::string& entry) { return folder_of(entry) == other; });
}

Result<IncludeTable> parse_include_table(std::string_view markdown) {
  std::istringstream lines{std::string(markdown)};
  IncludeTable table;
  std::map<std::string, std::string> rows;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| folder | holds | may include |")) {
      inside = true;
    } else if (inside && !line.starts_with("|")) {
      break;
    } else if (inside && !line.starts_with("|---")) {
      const auto cells = split(line, '|');
      if (cells.size() != 4 || !cells[1].ends_with("/")) {
        return make_error(ErrorKind::parse, "not a row of the include table: {}", line);
      }
      const std::string folder = folder_of(cells[1]);
      if (!rows.emplace(folder, cells[3]).second) return make_error(ErrorKind::parse, "two rows for {}/", folder);
      table.folders.push_back(folder);
    }
  }
  if (table.folders.empty()) return make_error(ErrorKind::parse, "no table 'folder | holds | may include'");
  for (const std::string& folder : table.folders) {
    STITCH_ASSIGN(table.allowed[folder], parse_row(table, folder, rows[folder]));
  }
  return table;
}

std::vector<std::string> find_cycle(const IncludeTable& table) {
  std::vector<std::string> path;
  std::set<std::string> finished;
  const std::function<bool(const std::string&)> visit = [&](const std::string& folder) {
    if (finished.contains(folder)) return false;
    const bool again = std::find(path.begin(), path.end(), folder) != path.end();
    path.push_back(folder);
    if (again) {
      path.erase(path.begin(), std::find(path.begin(), path.end(), folder));
      return true;
    }
    for (const std::string& entry : table.allowed.at(folder)) {
      if (visit(folder_of(entry))) return true;
    }
    path.pop_back();
    finished.insert(folder);
    return false;
  };
  for (const std::string& folder : table.folders) {
    if (visit(folder)) return path;
  }
  return {};
}

std::vector<Include> includes_of(std::string_view source) {
  static const std::regex directive(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)re");
  std::vector<Include> includes;
  std::istringstream lines{std::string(source)};
  bool commented = false;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::smatch match;
    if (!commented && std::regex_match(line, match, directive)) {
      includes.push_back({number, match[1] == "\"", match[2]});
    }
    const auto opened = line.rfind("/*");
    const auto closed = line.rfind("*/");
    if (opened != std::string::npos && (closed == std::string::npos || closed < opened)) commented = true;
    if (closed != std::string::npos && (opened == std::string::npos || opened < closed)) commented = false;
  }
  return includes;
}

std::map<std::string, std::set<std::string>> parse_layers(std::string_view cmake) {
  static const std::regex layer(R"(stitch_layer\((\w+)\s+LINKS([^)]*)\))");
  static const std::regex link(R"(stitch::(\w+))");
  const std::string text(cmake);
  std::map<std::string, std::set<std::string>> layers;
  for (std::sregex_iterator row(text.begin(), text.end(), layer), end; row != end; ++row) {
    const std::string links = (*row)[2];
    std::set<std::string>& folders = layers[(*row)[1]];
    for (std::sregex_iterator one(links.begin(), links.end(), link); one != end; ++one) folders.insert((*one)[1]);
  }
  return layers;
}

std::vector<std::string> refused_includes(const IncludeTable& table, const std::string& folder, const std::string& path,
                                          std::string_view source) {
  std::vector<std::string> refused;
  for (const Include& include : includes_of(source)) {
    if (include.quoted) {
      if (include.header.find('/') == std::string::npos) {
        refused.push_back(
            fmt::format("{}:{} includes \"{}\": name it from the top folder", path, include.line, include.header));
      } else if (!table.may_include(folder, include.header)) {
        refused.push_back(fmt::format("{}:{} includes {}; {}/ may include {{{}}}", path, include.line, include.header,
                                      folder, fmt::join(table.allowed.at(folder), ", ")));
      }
      continue;
    }
    for (const OutsideRule& rule : outside_rules()) {
      if (include.header.starts_with(rule.prefix) && !rule.folders.contains(folder)) {
        refused.push_back(fmt::format("{}:{} includes <{}>, which only {{{}}} may", path, include.line, include.header,
                                      fmt::join(rule.folders, ", ")));
      }
    }
  }
  return refused;
}

}  // namespace stitch::layering
