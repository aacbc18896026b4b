#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace stitch::driver::test {

/// What a program's environment says so that it finds the libraries of this folder first, the emulated driver's, and
/// those that this one was told of (an instrumented oneTBB) behind them.
inline std::string library_path(const std::filesystem::path& folder) {
  const char* others = std::getenv("LD_LIBRARY_PATH");
  return "LD_LIBRARY_PATH=" + folder.string() +
         (others != nullptr && *others != '\0' ? ":" + std::string(others) : std::string());
}

}  // namespace stitch::driver::test
