#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

/// Golden files of kernels: a folder of tests/golden/kernels holds a graph and what Stitch makes of it for an H100.
namespace stitch::golden {

/// One file of a folder that is made, not written by hand.
struct GoldenFile {
  std::string name;
  std::string contents;
};

struct Golden {
  std::vector<GoldenFile> files;  ///< kernel.cu, explanation.txt, counts.txt
  std::string toolkit;            ///< that compiled what counts.txt counts: "13.0.88"
};

/// The folder's one input: graph.hlo.txt or graph.json. Error: not_found.
Result<std::filesystem::path> graph_file(const std::filesystem::path& folder);

/// Imports, plans, generates, compiles and verifies; the same text on every machine that has the same toolkit, with any
/// number of threads (0: one per hardware thread).
/// Errors: those of the stages; unsupported (a part of the graph is left to a library), correctness (a candidate was
/// wrong, even if another one was right).
Result<Golden> make_golden(const std::filesystem::path& graph, int threads);

/// The version in the first line of a counts.txt; empty when there is none.
std::string toolkit_of(const std::string& counts);

/// The first line that differs, with its number, as a hint for people.
std::string first_difference(const std::string& recorded, const std::string& made);

}  // namespace stitch::golden
