#include "graph/infer_checks.h"

namespace stitch::graph {

Dims joined(const Dims& a, const Dims& b) {
  Dims both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

Dims without(const Dims& dims, const Dims& removed) {
  Dims rest;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (!contains(removed, d)) rest.push_back(dims[d]);
  }
  return rest;
}

Status check_dimensions(std::string_view attribute, const Dims& list, int rank) {
  std::vector<bool> seen(rank, false);
  for (const std::int64_t d : list) {
    if (d < 0 || d >= rank) return bad("attribute '{}': {} is not a dimension of rank {}", attribute, d, rank);
    if (seen[d]) return bad("attribute '{}': dimension {} appears twice", attribute, d);
    seen[d] = true;
  }
  return {};
}

Status check_sorted(std::string_view attribute, const Dims& list) {
  if (std::is_sorted(list.begin(), list.end())) return {};
  return bad("attribute '{}': {} is not sorted", attribute, to_string(list));
}

Status check_length(std::string_view attribute, const Dims& list, std::int64_t rank) {
  if (std::ssize(list) == rank) return {};
  return bad("attribute '{}' has {} entries for rank {}", attribute, list.size(), rank);
}

Status check_magnitude(std::string_view attribute, const Dims& list) {
  for (const std::int64_t value : list) {
    if (value > most_elements || value < -most_elements) {
      return bad("attribute '{}': {} is out of range", attribute, value);
    }
  }
  return {};
}

Status check_extents(std::string_view what, const Dims& dims) {
  if (dims.size() > most_dimensions) return bad("{}: {} dimensions are too many", what, dims.size());
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) {
    if (extent < 0) return bad("{}: negative extent in {}", what, to_string(dims));
    if (!multiply_extent(count, extent)) return bad("{}: {} has too many elements", what, to_string(dims));
  }
  return {};
}

Status check_combiner(std::string_view attribute, ReduceKind kind, DType dtype) {
  const auto refuse = [&] {
    return bad("attribute '{}': {} does not combine {}", attribute, to_string(kind), to_string(dtype));
  };
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::product: return dtype == DType::pred ? refuse() : Status{};
    case ReduceKind::bit_and:
    case ReduceKind::bit_or:
    case ReduceKind::bit_xor: return is_floating(dtype) ? refuse() : Status{};
    case ReduceKind::max:
    case ReduceKind::min:
    case ReduceKind::replace: return {};
  }
  return refuse();
}

}  // namespace stitch::graph
