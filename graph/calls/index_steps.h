#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/strided_view.h"

// How several tensors step over one index space.

namespace stitch::graph {

using Digits = std::vector<StridedView::Digit>;

/// A digit of an index space, with what each tensor steps by.
struct SpaceStep {
  std::int64_t extent = 1;
  std::vector<std::int64_t> strides;
};

/// The digits that all walks through one space have in common, outermost first, those of extent 1 left out; nothing
/// where they split the space at places that do not go together.
std::optional<std::vector<SpaceStep>> common_steps(std::vector<Digits> walks);

/// Joins neighbours over which every tensor steps evenly.
std::vector<SpaceStep> collapsed_steps(const std::vector<SpaceStep>& steps);

void append_digits(Digits& to, const Digits& digits);

}  // namespace stitch::graph
