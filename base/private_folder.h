#pragma once

#include <filesystem>

#include "base/result.h"

namespace stitch {

/// Whether a folder is this user's alone: a place in /tmp may have been made by anybody first. One that is not there is
/// fine. Errors: unavailable, with the folder and what is wrong with it.
Status check_private_folder(const std::filesystem::path& folder);

/// Makes the folder, for this user alone, and those above it; checks it if it is there. Errors: as above; io.
Status make_private_folder(const std::filesystem::path& folder);

}  // namespace stitch
