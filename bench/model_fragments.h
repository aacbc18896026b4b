#pragma once

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tuning/models/model_tuning.h"

namespace stitch::bench {

/// Visits every distinct fragment of the files in bench/models whose names contain `only`, each under the name of the
/// first model that has it: "bert_infer, level 2". Errors name the file.
inline Status for_each_model_fragment(
    const std::string& only, const std::function<void(const std::string& name, const graph::Graph& fragment)>& visit) {
  std::set<Hash128> seen;
  for (const char* folder : {"hlo", "fragments", "onnx"}) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(STITCH_SOURCE_DIR) / "bench/models" / folder)) {
      const std::string name = entry.path().filename().string();
      if ((name.ends_with(".hlo.txt.gz") || name.ends_with(".onnx")) && name.find(only) != std::string::npos)
        files.push_back(entry.path());
    }
    std::ranges::sort(files);
    for (const auto& path : files) {
      std::ifstream stream(path, std::ios::binary);
      std::ostringstream bytes;
      bytes << stream.rdbuf();
      const std::string file = path.filename().string();
      auto imported = import::import_bytes(bytes.str(), file);
      if (!imported) return imported.error().within(file);
      const auto fragments = tuning::cut_model(std::move(*imported));
      if (!fragments) return fragments.error().within(file);
      for (const auto& entry : fragments->entries) {
        if (seen.insert(entry.key).second) visit(file.substr(0, file.find('.')) + ", " + entry.name, entry.graph);
      }
      std::fprintf(stderr, "%s: %zu distinct fragments so far\n", file.c_str(), seen.size());
    }
  }
  return {};
}

}  // namespace stitch::bench
