#pragma once

#include "base/result.h"
#include "db/sqlite.h"
#include "db/store_types.h"

// Whole fragments, taken from one store and merged into another. Callers hold the transaction.
namespace stitch::db::tables {

Result<FragmentBundle> select_fragment_bundle(sqlite::Connection& connection, const Hash128& key);

/// Stores what is new. Plans come as challengers; an incumbent takes its place if that is vacant, a withdrawn plan that
/// was unknown stays withdrawn. Errors: invalid_argument when the bundle is not complete or claims too much.
Result<MergeReport> merge_fragment(sqlite::Connection& connection, const FragmentBundle& bundle);

}  // namespace stitch::db::tables
