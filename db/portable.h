#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

#include "base/hash.h"
#include "base/result.h"
#include "db/store.h"

namespace stitch::db {

/// Writes fragments with all that belongs to them (devices, plans, kernels, artifacts, measurements, candidates) to one
/// file, published atomically. Format: db/FORMAT.md, "Portable file". Memory: one fragment at a time.
/// Errors: not_found (names the key), io, corrupt.
Status export_fragments(const Store& store, std::span<const Hash128> keys, const std::filesystem::path& path);

/// Merges such a file into a store. The whole file is checked first: a damaged, truncated or newer file changes
/// nothing. Every fragment is one transaction, so an interrupted import can simply be repeated.
/// Errors: io, not_found, parse (not such a file), corrupt (checksum, or a record that does not validate),
/// version_mismatch, resource_exhausted.
Result<MergeReport> import_fragments(Store& store, const std::filesystem::path& path);

}  // namespace stitch::db
