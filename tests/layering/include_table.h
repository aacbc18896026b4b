#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace stitch::layering {

/// Who may include whom: the table of docs/design.md, whose third column holds, separated by commas, folders
/// (`graph`), single headers (`api/protocol.h`), `–` (none), `all`, or `all but X, Y`.
struct IncludeTable {
  std::vector<std::string> folders;                      ///< as the table lists them
  std::map<std::string, std::set<std::string>> allowed;  ///< folder to folders and headers, itself not among them

  [[nodiscard]] bool may_include(const std::string& folder, const std::string& header) const;
  /// Whether anything at all of `other` may be included: then its library may be linked.
  [[nodiscard]] bool may_link(const std::string& folder, const std::string& other) const;
};

/// Errors: parse, naming the row (no table, an entry that is no folder of the table, a folder twice).
Result<IncludeTable> parse_include_table(std::string_view markdown);

/// The folders of a cycle, first one repeated at the end; empty when all rows point one way.
std::vector<std::string> find_cycle(const IncludeTable& table);

struct Include {
  int line = 0;
  bool quoted = false;  ///< "…" as opposed to <…>
  std::string header;
  bool operator==(const Include&) const = default;
};

/// The include directives of a source, comments left out.
std::vector<Include> includes_of(std::string_view source);

/// What CMakeLists.txt links: folder to folders, from its lines `stitch_layer(NAME LINKS stitch::OTHER …)`.
std::map<std::string, std::set<std::string>> parse_layers(std::string_view cmake);

/// One line per include in `source`, a file of `folder`, that the table or the rule for outside headers refuses.
std::vector<std::string> refused_includes(const IncludeTable& table, const std::string& folder, const std::string& path,
                                          std::string_view source);

}  // namespace stitch::layering
