#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "db/store_types.h"

namespace stitch::db {

/// A fragment bundle as one CBOR document (db/FORMAT.md, "Portable file"). Keys are sorted: equal bundles, equal bytes.
std::string encode_bundle(const FragmentBundle& bundle);

/// Reads what encode_bundle wrote and validates every record: identities by content are computed again and must be
/// what the document says. Never throws. Errors: corrupt (names the place as "plans[2].label"), resource_exhausted.
Result<FragmentBundle> decode_bundle(std::string_view bytes);
/// The same for a document of a portable file of version 1, whose artifacts had other names (db/bundle_version_1.h).
Result<FragmentBundle> decode_bundle_1(std::string_view bytes);

}  // namespace stitch::db
