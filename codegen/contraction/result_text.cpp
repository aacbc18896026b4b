#include "codegen/contraction/result_text.h"

#include "codegen/contraction/column_text.h"
#include "codegen/contraction/contraction_text.h"
#include "codegen/index_text.h"
#include "codegen/spelling.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/gated_contraction.h"
#include "kernel/contraction/strips.h"
#include "kernel/contraction/window_walk.h"

namespace stitch::codegen {
namespace {

using kernel::ContractionProblem;

/// `store` sums of a strip through the structure `epilogue` to memory, as the graph's result number `number`.
void print_store(Writer& out, const kernel::ContractionResult& result, std::string_view epilogue, std::size_t number,
                 bool along_rows, const kernel::ContractionStrips& strips, int store) {
  const std::string type = storage_type(result.dtype);
  const std::string results = fmt::format("results{}", number), values = fmt::format("values{}", number);
  out.line("{} {}[{}];", compute_type(result.dtype), values, store);
  if (along_rows) {
    out.line("#pragma unroll");
    out.line("for (int v = 0; v < {}; ++v) {}[v] = {}(sums[v * {}], batch, row + v, column);", store, values, epilogue,
             strips.pitch);
  } else {
    out.line("{}.run(sums, batch, row, column, {});", epilogue, values);
  }
  out.line("{} {}[{}];", type, results, store);
  out.line("#pragma unroll");
  out.line("for (int v = 0; v < {}; ++v) {}[v] = {};", store, results, stored_text(result.dtype, values + "[v]"));
  out.line(
      "store<{}>(out{} + ({}), {});", store, number,
      sum_of({offset_of(result.batch, "batch"), offset_of(result.rows, "row"), offset_of(result.columns, "column")}),
      results);
}

/// Where tiles of rows are boxes.
Result<kernel::WindowWalk> boxes_of(const ContractionProblem& problem, const kernel::ContractionSchedule& schedule) {
  if (!kernel::walks_windows(problem, schedule)) return make_error(ErrorKind::constraint, "rows follow one another");
  return kernel::window_walk(problem, schedule.block_rows);
}

/// Which of a tile's rows `placed` is, where they are a box of so many at the most, and the end of what is beyond it,
/// or for which `beyond` holds.
void print_row_of_box(Writer& out, const kernel::WindowWalk& walk, int block_rows, std::string beyond) {
  if (walk.tile_rows() < block_rows) beyond += fmt::format(" || own >= {}", walk.tile_rows());
  out.line("const int own = placed - block_row;");
  std::string row = "0";
  std::int64_t before = 1, step = 1;
  for (std::size_t i = 0; i < walk.rows.size(); ++i) {
    const kernel::WindowWalk::Rows& rows = walk.rows[i];
    std::string within = before == 1 ? "own" : fmt::format("own / {}", before);
    if (i + 1 < walk.rows.size()) within = rows.tile == 1 ? "0" : fmt::format("{} % {}", within, rows.tile);
    out.line("const int row{0} = first{0} + {1};", i, within);
    // Clusters of tiles may have some beyond the last one.
    if (i + 1 == walk.rows.size() || rows.extent % rows.tile != 0)
      beyond += fmt::format(" || row{} >= {}", i, rows.extent);
    row = i == 0 ? "row0" : fmt::format("row{} * {} + {}", i, step, row);
    before *= rows.tile;
    step *= rows.extent;
  }
  out.line("if ({}) return;", beyond);
  out.line("const int row = {};", row);
}

/// The function `write` of device/contraction.cuh's store_results: `store` sums of a strip, of which each result of the
/// product (the graph's from number `first` on) is made, as far as they are within rows and columns.
void print_write(Writer& out, const ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                 const ContractionEpilogues& epilogues, std::size_t first, const kernel::ContractionStrips& strips,
                 int store) {
  const std::string columns = column_parameter(problem, store);
  const bool along_rows = kernel::widest_access(problem).along_rows;
  const std::string sums = compute_type(problem.accumulator);
  const Result<kernel::WindowWalk> walk = boxes_of(problem, schedule);
  if (walk) {
    out.open("const auto write = [&](int placed, int column, const {}* sums)", sums);
    print_row_of_box(out, *walk, schedule.block_rows, fmt::format("column >= {}", problem.units()));
  } else {
    out.open("const auto write = [&](int row, int column, const {}* sums{})", sums, columns);
    out.line("if (row >= {} || column >= {}) return;", problem.rows, problem.units());
  }
  const std::span<const kernel::ContractionResult> results = kernel::results_of(problem);
  for (std::size_t r = 0; r < results.size(); ++r) {
    if (!results[r].of_elements()) continue;
    print_store(out, results[r], epilogue_of(problem, r), first + r, along_rows, strips, store);
  }
  print_added_columns(out, problem, epilogues, store);
  out.set_depth(out.depth() - 1);
  out.line("}};");
}

}  // namespace

void print_results(Writer& out, const ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                   std::span<const ContractionEpilogues> epilogues, std::string_view cores, std::string_view column,
                   std::size_t first) {
  if (problem.members.empty() && kernel::results_of_element(problem) == 0) return;  // rows alone
  const kernel::ContractionStrips strips = kernel::strips_of(problem, schedule);
  // Where rows are combined a barrier stands behind the loop already.
  if (!schedule.tensor_copies && problem.row_reductions.empty()) {
    out.line("wait_for_groups<0>();");
    out.line("__syncthreads();  // the strips lie where tiles were read");
  }
  if (!problem.column_sums.empty()) print_column_begin(out, problem, schedule);
  const std::int64_t begin = kernel::shape_of(problem, schedule).strips_at;
  out.line("{0}* const strip = reinterpret_cast<{0}*>(shared{1}) + warp * {2};", compute_type(problem.accumulator),
           begin == 0 ? "" : fmt::format(" + {}", begin), strips.rows * strips.pitch);
  const bool several = !problem.members.empty();
  std::size_t number = first;
  for (std::size_t p = 0; p < kernel::parts_of(problem).size(); ++p) {
    const ContractionProblem& part = kernel::parts_of(problem)[p];
    if (several) out.open("if (member == {})", p);
    const std::span<const kernel::ContractionResult> results = kernel::results_of(part);
    for (std::size_t r = 0; r < results.size(); ++r) {
      if (results[r].of_rows) continue;
      const ContractionEpilogue& epilogue = epilogues[p].results[r];
      out.line("const {} {}{{{}}};", epilogue.name, epilogue_of(part, r), epilogue.members);
    }
    const int store = kernel::store_of(part, schedule);
    print_write(out, part, schedule, epilogues[p], number, strips, store);
    number += results.size();
    if (!part.column_sums.empty()) {
      print_summed_results(out, part, schedule, cores, column, store);
      continue;
    }
    out.line("store_results<{}, {}, {}, {}, {}{}>({}, strip, block_row + warp_row, {}, write);",
             kernel::taken_columns(schedule), strips.columns, strips.pitch, store,
             kernel::widest_access(part).along_rows,
             part.gates == 1 ? "" : fmt::format(", {}, {}", part.gates, kernel::gate_run), cores, column);
    if (several) out.close();
  }
}

}  // namespace stitch::codegen
