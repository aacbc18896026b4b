#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>

// One source NAME_fuzz.cpp for each kind of foreign bytes. It defines fuzz_one, and two mains call it: replay_main.cpp,
// in every build, with the seeds and seeded mutations of them; and libFuzzer, in the preset `fuzz`, guided by coverage.
namespace stitch::fuzz {

/// Gives one input to what is under test. Returns when it was taken or refused as promised; what breaks a promise ends
/// the process (by `promise`, a sanitizer or a signal).
void fuzz_one(std::string_view bytes);

/// Ends the process when a promise does not hold.
inline void promise(bool holds, std::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace stitch::fuzz
