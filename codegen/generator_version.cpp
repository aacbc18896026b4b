#include "codegen/generator_version.h"

#include <fmt/format.h>

#include "base/version.h"
#include "codegen/device_headers.h"

namespace stitch::codegen {

std::string generator_version() {
  const Hash128 hash = Hasher().text(device_headers_hash().hex()).text(emitters_hash()).finish();
  return fmt::format("{}-{}", tool_version, hash.hex().substr(0, 12));
}

}  // namespace stitch::codegen
