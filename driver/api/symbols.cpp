// Every function of the driver by name and version. cuda.h is not included here: a function is nothing but an address.
#include "driver/api/symbols.h"

extern "C" {
#define STITCH_SYMBOL(name, since, stream, exported, supported) void exported();
#include "driver/api/symbols.inl"
#undef STITCH_SYMBOL
}

namespace stitch::driver {

std::span<const Symbol> symbols() {
  static const Symbol table[] = {
#define STITCH_SYMBOL(name, since, stream, exported, supported) \
  {#name, since, DefaultStream::stream, #exported, exported, supported},
#include "driver/api/symbols.inl"
#undef STITCH_SYMBOL
  };
  return table;
}

}  // namespace stitch::driver
