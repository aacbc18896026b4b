#include "codegen/contraction/gate_text.h"

#include <array>

#include "codegen/contraction/alike_operands.h"
#include "codegen/index_text.h"
#include "codegen/spelling.h"

namespace stitch::codegen {

void print_right_of_gates(Writer& out, const kernel::ContractionProblem& problem, const TileText& tile) {
  const kernel::ContractionOperand& right = problem.right;
  const std::array<std::string, 3> strides = {"", "apart", ""};  // of the columns: runs, gates, units
  out.open("struct Right");
  out.line("static constexpr int rows = {}, depth = {};", problem.columns, problem.contracted);
  out.line("static constexpr bool whole_rows = {}, whole_depth = {};", tile.whole_rows, tile.whole_depth);
  out.line("const {}* data;", storage_type(right.dtype));
  out.line("s64 apart;");
  out.line("__device__ static __forceinline__ bool covers(int, int) {{ return true; }}");
  out.open("__device__ __forceinline__ s64 at(int row, int k) const");
  out.line("return {};", sum_of({offset_of(right.free, "row", strides), offset_of(right.contracted, "k")}));
  out.close();
  out.set_depth(0);
  out.line("}};");
  print_tile_type(out, "Right", right, tile);
}

void print_right_of_both(Writer& out, const kernel::ContractionProblem& problem) {
  const kernel::ContractionOperand& other = *problem.other_right;
  // By addresses: they are no places of one array.
  out.line("const s64 apart = (reinterpret_cast<s64>(in{}) - reinterpret_cast<s64>(in{})) / {} + {};", other.parameter,
           problem.right.parameter, graph::byte_size(other.dtype), other.offset - problem.right.offset);
  out.line("const Right right = {{{}, apart}};", begin_of(problem.right));
}

}  // namespace stitch::codegen
