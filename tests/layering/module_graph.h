#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace stitch::layering {

/// Who includes whom among names: modules ("kernel/structure/items"), or the rooms that they lie in.
using IncludeGraph = std::map<std::string, std::set<std::string>>;

/// A header and its source are one module: "kernel/structure/items.cpp" is of "kernel/structure/items".
std::string module_of(std::string_view path);

/// Adds the quoted includes of one source to a graph of modules. `path` and includes are relative to the repository.
void add_module(IncludeGraph& modules, std::string_view path, std::string_view source);

/// The rooms of a graph of modules: a subfolder of a top folder is a room, whatever lies deeper belongs to it, and
/// modules that lie in a top folder itself are in no room. Holds only the includes between rooms of one folder.
IncludeGraph rooms_of(const IncludeGraph& modules);

/// Members that reach one another by includes, each knot sorted; empty when every include points one way.
std::vector<std::vector<std::string>> knots_of(const IncludeGraph& graph);

}  // namespace stitch::layering
