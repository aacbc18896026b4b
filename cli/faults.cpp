#include "cli/faults.h"

#include <cstdio>

namespace stitch::cli {

Status write_faults(const std::vector<std::pair<std::string, std::string>>& faults, const CommonOptions& options,
                    std::filesystem::path folder, FileSystem& files) {
  if (faults.empty()) return {};
  if (folder.empty()) folder = (options.cache.empty() ? default_cache() : options.cache) / "faults";
  STITCH_TRY(files.make_directories(folder));
  for (const auto& [fragment, document] : faults) {
    const std::filesystem::path file = folder / (fragment + ".json");
    STITCH_TRY(files.publish(file, document));
    std::fprintf(stderr, "stitch: our fault: kernels of fragment %s were wrong and are not used; please send in %s\n",
                 fragment.c_str(), file.c_str());
  }
  return {};
}

}  // namespace stitch::cli
