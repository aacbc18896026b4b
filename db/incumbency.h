#pragma once

#include <optional>
#include <string_view>

#include "base/result.h"
#include "db/records.h"
#include "db/sqlite.h"
#include "db/store_types.h"

// Who is served: the status of plans and the table `promotion`. Callers hold the transaction.
namespace stitch::db::tables {

/// Makes a plan the incumbent; returns the promotion's number (that of the earlier one if it is incumbent already).
Result<std::int64_t> promote(sqlite::Connection& connection, const Hash128& id, std::string_view reason,
                             const Provenance& provenance);

/// Records one promotion more of the incumbent that a plan is; returns its number. Error: invalid_argument if it is
/// none.
Result<std::int64_t> announce(sqlite::Connection& connection, const Hash128& id, std::string_view reason,
                              const Provenance& provenance);

/// Applies an admission rule to a stored plan; returns whether it is the incumbent then. A withdrawn plan stays so.
Result<bool> admit(sqlite::Connection& connection, const Hash128& id, Admission admission,
                   const Provenance& provenance);

Status withdraw(sqlite::Connection& connection, const Hash128& id, std::string_view reason,
                const Provenance& provenance);

Result<Listing<Promotion>> select_promotions(sqlite::Connection& connection, const Page& page);

}  // namespace stitch::db::tables
