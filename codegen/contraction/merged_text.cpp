#include "codegen/contraction/merged_text.h"

#include "codegen/contraction/alike_operands.h"

namespace stitch::codegen {
namespace {

using kernel::ContractionProblem;

AlikeOperands rights_of_members(const ContractionProblem& problem) {
  AlikeOperands alike{"Right", "member", kernel::right_operands(problem), {}, {}};
  for (const ContractionProblem& member : problem.members) {
    alike.rows.push_back(member.columns);
    alike.depths.push_back(member.contracted);
  }
  return alike;
}

}  // namespace

void print_right_of_members(Writer& out, const ContractionProblem& problem, const TileText& tile) {
  print_alike(out, rights_of_members(problem), tile);
}

void print_right_of_tile(Writer& out, const ContractionProblem& problem) {
  out.line("const Right right = {};", chosen_operand(rights_of_members(problem)));
}

}  // namespace stitch::codegen
