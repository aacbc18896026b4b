#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  stitch::fuzz::fuzz_one({reinterpret_cast<const char*>(data), size});
  return 0;
}
