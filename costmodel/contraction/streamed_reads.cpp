#include "costmodel/contraction/streamed_reads.h"

#include <algorithm>
#include <cmath>

#include "costmodel/contraction/product_rates.h"

namespace stitch::costmodel {

double streamed_reads(const kernel::ContractionProblem& problem, const kernel::ContractionSchedule& s,
                      const kernel::ContractionShape& shape, double kept) {
  const double rows = static_cast<double>(shape.row_tiles), columns = static_cast<double>(shape.column_tiles);
  const double tiles = static_cast<double>(shape.streamed.tiles), of_batch = std::min(tiles, rows * columns);
  const double batches = std::ceil(tiles / (rows * columns)), group = std::min<double>(s.group, rows);
  // Of bands of `group` rows of tiles, which are walked column by column.
  const double rows_in = std::min(rows, group * std::ceil(of_batch / (group * columns)));
  const double columns_in = std::min(columns, std::ceil(of_batch / group));
  struct Side {
    double all = 0, loaded = 0;  ///< bytes: once each, and by every tile
  };
  const auto side = [&](bool left, int block, double different, std::int64_t extent) {
    const kernel::ContractionOperand& operand = left ? problem.left : problem.right;
    const double tile = static_cast<double>(block) * static_cast<double>(problem.contracted) *
                        read_bytes(problem, left) * different_share(problem, operand, extent);
    return Side{batches * different * tile, tiles * tile};
  };
  Side first = side(true, s.block_rows, rows_in, problem.rows);
  Side second = side(false, s.block_columns, columns_in, problem.columns);
  if (second.all < first.all) std::swap(first, second);
  double again = 0;
  for (const Side& each : {first, second}) {
    const double held = std::min(1.0, kept / std::max(1.0, each.all));
    kept = std::max(0.0, kept - each.all);
    again += (1 - held) * std::max(0.0, each.loaded - each.all);
  }
  return again;
}

}  // namespace stitch::costmodel
