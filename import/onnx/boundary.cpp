// Operators that are left to others but whose results' types follow from their inputs, whatever the file states.
#include <fmt/format.h>

#include "graph/sorting.h"
#include "import/onnx/families.h"

namespace stitch::import::onnx {
namespace {

constexpr std::string_view reason = "left to a library";

}  // namespace

/// Where there are NaN the standard says nothing; they are the greatest, as everywhere here.
Result<Values> top_k(Call& c) {
  STITCH_TRY(c.need_rank(0, 1));
  std::int64_t k = 0;
  if (c.has(1)) {
    STITCH_ASSIGN(k, c.need_integer(1));
  } else {
    STITCH_ASSIGN(k, c.node.integer("k", 0));
  }
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", -1, c.rank(c.in(0))));
  STITCH_ASSIGN(const std::int64_t largest, c.node.integer("largest", 1));
  Dims dims = c.dims(c.in(0));
  const std::int64_t length = dims[axis];
  if (k < 0 || k > length) return Call::wrong("the {} largest of {}", k, graph::to_string(dims));
  if (const std::int64_t most = graph::longest_sorted_line(c.dtype(c.in(0))); length > most) {
    dims[axis] = k;
    return c.opaque({{c.dtype(c.in(0)), dims}, {DType::s64, dims}},
                    fmt::format("lines of {} elements: a block sorts at most {}", length, most));
  }
  const Value sorted = c.b.add(graph::Op::sort, {c.in(0), c.b.iota(DType::s64, dims, axis)},
                               graph::SortAttributes{axis, largest != 0, k});
  return Values{sorted, {sorted.node, 1}};
}

Result<Values> determinant(Call& c) {
  STITCH_TRY(c.need_rank(0, 2));
  Dims dims = c.dims(c.in(0));
  dims.resize(dims.size() - 2);
  return c.opaque({{c.dtype(c.in(0)), dims}}, reason);
}

Result<Values> grid_sample(Call& c) {
  STITCH_TRY(c.need_rank(0, 3));
  const Dims &x = c.dims(c.in(0)), &grid = c.dims(c.in(1));
  if (grid.size() != x.size()) return Call::wrong("the grid has another rank than the input");
  Dims dims{x[0], x[1]};
  dims.insert(dims.end(), grid.begin() + 1, grid.end() - 1);
  return c.opaque({{c.dtype(c.in(0)), dims}}, reason);
}

Result<Values> roi_align(Call& c) {
  STITCH_TRY(c.need_rank(0, 4, 4));
  STITCH_TRY(c.need_rank(1, 2, 2));
  STITCH_ASSIGN(const std::int64_t height, c.node.integer("output_height", 1));
  STITCH_ASSIGN(const std::int64_t width, c.node.integer("output_width", 1));
  const Dims dims{c.dims(c.in(1))[0], c.dims(c.in(0))[1], height, width};
  return c.opaque({{c.dtype(c.in(0)), dims}}, reason);
}

}  // namespace stitch::import::onnx
