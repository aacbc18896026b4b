#include "codegen/contraction/realigned_text.h"

#include "codegen/contraction/window_text.h"
#include "codegen/spelling.h"
#include "kernel/contraction/computed_operand.h"
#include "kernel/contraction/realigned_copy.h"

namespace stitch::codegen {
namespace {

using kernel::ContractionOperand;
using kernel::ContractionProblem;

const char* side_of(bool left) { return left ? "Left" : "Right"; }

std::int64_t elements_of(const ContractionProblem& problem, const ContractionOperand& operand) {
  return problem.graph->node(problem.graph->parameters()[operand.parameter]).type().elements();
}

/// Of which places of a line there is something, of the line that begins at k.
void print_shown(Writer& out, const ContractionOperand& operand, std::int64_t line) {
  out.open("__device__ static __forceinline__ void shown(int row, int k, int& first, int& last)");
  out.line("first = 0;");
  out.line("last = {};", line);
  for (std::size_t i = 0; i < operand.windows.size(); ++i) {
    const kernel::WindowDimension& window = operand.windows[i];
    out.line("const int c{} = {};", i, coordinate_of(window));
    if (kernel::line_limit(window, line) == kernel::LineLimit::all) {
      out.line("if (static_cast<u32>(c{}) >= {}u) last = 0;", i, window.extent);
    } else {
      out.line("first = maximum(first, -c{} * {});", i, window.contracted.divisor);
      out.line("last = minimum(last, ({} - c{}) * {});", window.extent, i, window.contracted.divisor);
    }
  }
  out.close();
}

}  // namespace

void print_realigned(Writer& out, const ContractionProblem& problem, bool left) {
  const ContractionOperand& operand = left ? problem.left : problem.right;
  const int size = graph::byte_size(operand.dtype);
  const std::int64_t ragged = elements_of(problem, operand) * size % kernel::realigned_bytes;
  out.open("struct {0}Lines : {0}", side_of(left));
  out.line("static constexpr int aligned = {}, ragged = {};", kernel::realigned_unit(operand), ragged);
  if (const std::int64_t line = kernel::parted_line(operand); line > 0) {
    out.line("static constexpr int line = {};", line);
    print_shown(out, operand, line);
  }
  out.line("const {}* end;", storage_type(operand.dtype));
  out.open("__device__ __forceinline__ bool reaches_end(int row, int k) const");
  if (kernel::rises(operand)) {
    out.line("return data + at(row, k) >= end - {};", ragged / size);
  } else {
    out.line("return true;");
  }
  out.close();
  out.set_depth(0);
  out.line("}};");
  out.blank();
}

void print_tile_operand(Writer& out, const ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                        bool left) {
  const ContractionOperand& operand = left ? problem.left : problem.right;
  const std::string from = fmt::format("{{in{} + {}::of_batch(batch)}}", operand.parameter, side_of(left));
  const char* const name = left ? "left" : "right";
  if (!kernel::is_realigned(schedule, left)) return out.line("const {} {} = {};", side_of(left), name, from);
  out.line("const {}Lines {} = {{{}, in{} + {}}};", side_of(left), name, from, operand.parameter,
           elements_of(problem, operand));
}

void print_realigned_tiles(Writer& out, const ContractionProblem& problem, const kernel::ContractionSchedule& schedule,
                           int threads) {
  for (const bool left : {true, false}) {
    if (!kernel::is_realigned(schedule, left)) continue;
    const bool parted = kernel::parted_line(left ? problem.left : problem.right) > 0;
    out.line("{3}<{0}Tile, {1}, {0}Lines> {2}_held;", side_of(left), threads, left ? "left" : "right",
             parted ? "PartedTile" : "RealignedTile");
  }
}

bool is_held(const ContractionProblem& problem, const kernel::ContractionSchedule& schedule, bool left) {
  return kernel::computed_side(problem, left) != nullptr || kernel::is_realigned(schedule, left);
}

}  // namespace stitch::codegen
