#pragma once

#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/result.h"
#include "codegen/compile/compiler.h"

namespace stitch::codegen {

/// The container that docs/compilation.md describes: a header with magic, version, key and checksum, then the kernel
/// as CBOR under zstd. The same kernel always gives the same bytes.
std::string encode_artifact(const CompiledKernel& kernel);

/// Errors: corrupt (damaged, or the artifact of another key), version_mismatch (another version of the format).
Result<CompiledKernel> decode_artifact(std::string_view bytes, const Hash128& key);

}  // namespace stitch::codegen
