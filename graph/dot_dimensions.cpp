#include "graph/dot_dimensions.h"

namespace stitch::graph {

Dims free_dimensions(std::size_t rank, const Dims& batch, const Dims& contracting) {
  Dims free;
  for (std::size_t d = 0; d < rank; ++d) {
    if (!contains(batch, d) && !contains(contracting, d)) free.push_back(d);
  }
  return free;
}

std::int64_t product_of(const Dims& dims, const Dims& dimensions) {
  std::int64_t product = 1;
  for (const std::int64_t d : dimensions) product *= dims[d];
  return product;
}

}  // namespace stitch::graph
