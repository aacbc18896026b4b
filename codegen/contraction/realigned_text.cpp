#include "codegen/contraction/realigned_text.h"

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

}  // namespace

void print_realigned(Writer& out, const ContractionProblem& problem, bool left) {
  const ContractionOperand& operand = left ? problem.left : problem.right;
  const int size = graph::byte_size(operand.dtype);
  const std::int64_t ragged = elements_of(problem, operand) * size % kernel::realigned_bytes;
  out.open("struct {0}Lines : {0}", side_of(left));
  out.line("static constexpr int aligned = {}, ragged = {};", kernel::widest_access(operand), ragged);
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

void print_realigned_tiles(Writer& out, const kernel::ContractionSchedule& schedule, int threads) {
  for (const bool left : {true, false}) {
    if (!kernel::is_realigned(schedule, left)) continue;
    out.line("RealignedTile<{0}Tile, {1}, {0}Lines> {2}_held;", side_of(left), threads, left ? "left" : "right");
  }
}

bool is_held(const ContractionProblem& problem, const kernel::ContractionSchedule& schedule, bool left) {
  return kernel::computed_side(problem, left) != nullptr || kernel::is_realigned(schedule, left);
}

}  // namespace stitch::codegen
