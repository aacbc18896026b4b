#pragma once

#include <algorithm>
#include <cstdlib>

namespace stitch {

/// How often a test that breaks things repeats itself: `usual` in every test run, STITCH_ROUNDS where that is set
/// (bench/reliability sets it).
inline int rounds(int usual) {
  const char* wanted = std::getenv("STITCH_ROUNDS");
  return wanted != nullptr ? std::max(1, std::atoi(wanted)) : usual;
}

}  // namespace stitch
