#include "tests/layering/module_graph.h"

#include <algorithm>
#include <functional>

#include "tests/layering/include_table.h"

namespace stitch::layering {
namespace {

/// "kernel/structure" of "kernel/structure/items"; empty when the module lies in a top folder itself.
std::string room_of(const std::string& module) {
  const std::size_t first = module.find('/');
  const std::size_t second = first == std::string::npos ? first : module.find('/', first + 1);
  return second == std::string::npos ? std::string() : module.substr(0, second);
}

std::string top_of(const std::string& name) { return name.substr(0, name.find('/')); }

}  // namespace

std::string module_of(std::string_view path) { return std::string(path.substr(0, path.rfind('.'))); }

void add_module(IncludeGraph& modules, std::string_view path, std::string_view source) {
  const std::string module = module_of(path);
  std::set<std::string>& includes = modules[module];
  for (const Include& include : includes_of(source)) {
    if (include.quoted && module_of(include.header) != module) includes.insert(module_of(include.header));
  }
}

IncludeGraph rooms_of(const IncludeGraph& modules) {
  IncludeGraph rooms;
  for (const auto& [module, includes] : modules) {
    const std::string room = room_of(module);
    if (room.empty()) continue;
    std::set<std::string>& others = rooms[room];
    for (const std::string& include : includes) {
      const std::string other = room_of(include);
      if (!other.empty() && other != room && top_of(other) == top_of(room)) others.insert(other);
    }
  }
  return rooms;
}

std::vector<std::vector<std::string>> knots_of(const IncludeGraph& graph) {
  // Tarjan, "Depth-first search and linear graph algorithms" (1972): strongly connected components.
  std::map<std::string, std::size_t> number, lowest;
  std::vector<std::string> path;
  std::set<std::string> on_path;
  std::vector<std::vector<std::string>> knots;
  const std::function<void(const std::string&)> visit = [&](const std::string& name) {
    const std::size_t mine = number.size();
    number[name] = lowest[name] = mine;
    path.push_back(name);
    on_path.insert(name);
    for (const std::string& other : graph.at(name)) {
      if (!graph.contains(other)) continue;
      if (!number.contains(other)) visit(other);
      if (on_path.contains(other)) lowest[name] = std::min(lowest[name], lowest[other]);
    }
    if (lowest[name] != mine) return;
    const auto first = std::find(path.begin(), path.end(), name);
    std::vector<std::string> component(first, path.end());
    path.erase(first, path.end());
    for (const std::string& member : component) on_path.erase(member);
    std::sort(component.begin(), component.end());
    if (component.size() > 1) knots.push_back(std::move(component));
  };
  for (const auto& [name, includes] : graph) {
    if (!number.contains(name)) visit(name);
  }
  return knots;
}

}  // namespace stitch::layering
