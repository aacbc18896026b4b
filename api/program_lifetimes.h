#pragma once

#include <vector>

#include "api/program_document.h"

namespace stitch::api {

/// The steps of its region at which a value's memory is in use, both ends included. Memory that is handed in is in use
/// from before the first step (-1), or until after the last one (their number).
struct Lifetime {
  int first = 0, last = -1;

  [[nodiscard]] bool empty() const { return first > last; }
  [[nodiscard]] bool meets(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

/// The values of the region that a step touches: what it reads and writes, its spares and its scratch.
std::vector<int> values_of(const ProgramStep& step);

/// Per value of the region. A value that no step touches has an empty one. Steps must name values that are there.
std::vector<Lifetime> lifetimes_of(const ProgramRegion& region);

}  // namespace stitch::api
