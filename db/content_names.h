#pragma once

#include "base/hash.h"
#include "base/result.h"
#include "base/sha256.h"
#include "db/sqlite.h"

// Up to version 3 artifacts were named by their XXH3-128, of which anybody can make a second preimage; from version 4
// on by their SHA-256. The names are part of the identity of kernels, those of plans, and those of measurements, so
// that all of these are named anew.
namespace stitch::db {

/// What damaged bytes are called, or bytes of another kind than `kind`, once named `old`: no bytes have this name, so
/// that reading them still fails.
Sha256 name_of_damage(const Hash128& old, std::string_view kind);

/// Migration 4, between its two scripts: fills `artifact_named`, `upload` and `workload_named` out of `artifact` and
/// `workload`, and lets everything that refers to an artifact, kernel, plan or measurement refer to its new name. A row
/// that did not fit its own identity before does not fit it afterwards.
Status rename_contents(sqlite::Connection& connection);

}  // namespace stitch::db
