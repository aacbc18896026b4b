#pragma once

#include <cstdint>
#include <span>

namespace stitch::driver {

/// Which default stream a symbol's functions mean by null.
enum class DefaultStream : std::uint8_t { legacy, per_thread };

/// A function that the library exports.
struct Symbol {
  const char* name;  ///< as cuda.h and cuGetProcAddress know it: "cuMemAlloc"
  int since;         ///< version of CUDA that brought this form of it: 3020; 0: not asked for by version
  DefaultStream stream;
  const char* exported;  ///< "cuMemAlloc_v2"
  void (*address)();
  bool supported;  ///< false: it returns CUDA_ERROR_NOT_SUPPORTED and says so in the log
};

/// All of them, by name and version (driver/api/symbols.inl, which scripts/driver_symbols writes).
std::span<const Symbol> symbols();

}  // namespace stitch::driver
