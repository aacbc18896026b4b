#include "kernel/structure/structure.h"

#include <algorithm>

namespace stitch::kernel {

bool GroupStructure::has_partials() const {
  return std::any_of(anchors.begin(), anchors.end(), [](const Anchor& a) { return a.kind == Anchor::Kind::partial; });
}

}  // namespace stitch::kernel
