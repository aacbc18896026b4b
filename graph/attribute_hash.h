#pragma once

#include <cstdint>

#include "base/hash.h"
#include "graph/attributes.h"

namespace stitch::graph {

/// What of an attribute enters a hash.
enum class HashDetail : std::uint8_t {
  exact,   ///< everything
  family,  ///< without extents: see hash_attributes
};

/// Adds an operator's attributes to `hasher`, field by field, by name (never by an enum's number, so that stored keys
/// survive a reordering).
///
/// HashDetail::family leaves out what follows from extents: a tensor type is its dtype and rank; a constant's data, a
/// loop's trip count and an opaque operator's config vanish; slice and pad bounds are their signs; slice sizes are
/// whether they are 1. Permutations, mappings, windows, strides and contraction dimensions stay.
void hash_attributes(Hasher& hasher, const Attributes& attributes, HashDetail detail = HashDetail::exact);

void hash_type(Hasher& hasher, const TensorType& type, HashDetail detail = HashDetail::exact);

}  // namespace stitch::graph
