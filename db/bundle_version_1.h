#pragma once

#include "base/result.h"
#include "db/store_types.h"

namespace stitch::db {

/// A fragment out of a portable file of version 1, whose artifacts were named by their XXH3-128: each Sha256 holds such
/// a name in its first 16 bytes. Afterwards all names and identities are those of today. A neighbour that is not in the
/// bundle keeps its old name, which nothing has any more. Error: corrupt, names what does not fit its own name.
Status rename_contents(FragmentBundle& bundle);

}  // namespace stitch::db
