#include "codegen/contraction/column_text.h"

#include "codegen/contraction/contraction_text.h"
#include "codegen/index_text.h"
#include "codegen/spelling.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/strips.h"

namespace stitch::codegen {
namespace {

using kernel::ColumnSum;
using kernel::ContractionProblem;
using kernel::ContractionSchedule;

/// Of the warps that have sums.
int adding_threads(const ContractionProblem& problem, const ContractionSchedule& schedule) {
  return 32 * kernel::shape_of(problem, schedule).warps;
}

void print_barrier(Writer& out, const ContractionProblem& problem, const ContractionSchedule& schedule,
                   std::string_view comment) {
  out.line("{}  // {}",
           schedule.tensor_copies ? fmt::format("barrier_of_first<{}>();", adding_threads(problem, schedule))
                                  : "__syncthreads();",
           comment);
}

}  // namespace

std::string column_parameter(const ContractionProblem& problem, int store) {
  if (problem.column_sums.empty()) return {};
  return fmt::format(", f32 (&columns)[{}][{}]", problem.column_sums.size(), store);
}

void print_added_columns(Writer& out, const ContractionProblem& problem, const ContractionEpilogues& epilogues,
                         int store) {
  for (std::size_t i = 0; i < problem.column_sums.size(); ++i) {
    const std::size_t result = problem.column_sums[i].result;
    const int takes = epilogues.results[result].takes;
    out.line("f32 values{}[{}];", result, store);
    out.line("{}.run({}, batch, row, column, values{});", epilogue_of(problem, result),
             takes < 0 ? "sums" : fmt::format("values{}", takes), result);
    out.line("#pragma unroll");
    out.line("for (int v = 0; v < {}; ++v) columns[{}][v] += values{}[v];", store, i, result);
  }
}

void print_column_begin(Writer& out, const ContractionProblem& problem, const ContractionSchedule& schedule) {
  out.line("f32* const column_parts = reinterpret_cast<f32*>(shared + {});",
           kernel::shape_of(problem, schedule).columns_at);
  if (schedule.tensor_copies) print_barrier(out, problem, schedule, "nobody adds parts of the tile before any more");
}

void print_summed_results(Writer& out, const ContractionProblem& problem, const ContractionSchedule& schedule,
                          std::string_view cores, std::string_view column, int store) {
  const kernel::ContractionStrips strips = kernel::strips_of(problem, schedule);
  const int part_rows = kernel::column_part_rows(problem, schedule);
  out.line(
      "store_and_add_results<{}, {}, {}, {}, {}, {}, {}, {}>({}, strip, column_parts, warp_row / {} * {} + "
      "warp_column, block_row + warp_row, {}, write);",
      kernel::taken_columns(schedule), strips.columns, strips.pitch, store, problem.column_sums.size(), part_rows,
      schedule.block_rows, schedule.block_columns, cores, part_rows, schedule.block_columns, column);
  print_barrier(out, problem, schedule, "all parts are there");
  const std::int64_t parts = schedule.block_rows / part_rows * schedule.block_columns;
  for (std::size_t i = 0; i < problem.column_sums.size(); ++i) {
    const std::size_t number = problem.column_sums[i].result;
    const kernel::ContractionResult& result = kernel::results_of(problem)[number];
    out.open(
        "add_column_parts<{0}, {1}, {2}, {3}, {4}>(column_parts + {5}, block_row / {0}, {6}, block_column, {7}, "
        "[&](int row, int column, f32 sum)",
        result.summed, part_rows, schedule.block_rows, schedule.block_columns, adding_threads(problem, schedule),
        static_cast<std::int64_t>(i) * parts, problem.rows / result.summed, problem.columns);
    const std::string place =
        sum_of({offset_of(result.batch, "batch"), offset_of(result.rows, "row"), offset_of(result.columns, "column")});
    out.line("out{}[{}] = sum;", number, place.empty() ? "0" : place);
    out.set_depth(out.depth() - 1);
    out.line("}});");
  }
}

}  // namespace stitch::codegen
