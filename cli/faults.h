#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/session.h"

namespace stitch::cli {

/// Writes what is to be sent in, and says where it lies: a document per fragment (tuning/plans/fault_report.h) into
/// `folder`, or `faults` in the cache folder where that is empty.
Status write_faults(const std::vector<std::pair<std::string, std::string>>& faults, const CommonOptions& options,
                    std::filesystem::path folder, FileSystem& files);

}  // namespace stitch::cli
