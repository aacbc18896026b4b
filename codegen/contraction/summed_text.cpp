#include "codegen/contraction/summed_text.h"

#include <algorithm>

#include "codegen/contraction/alike_operands.h"
#include "kernel/contraction/contraction_shape.h"
#include "kernel/contraction/shown_depth.h"

namespace stitch::codegen {
namespace {

using kernel::ContractionProblem;
using kernel::ContractionSchedule;
using kernel::ContractionTerm;

AlikeOperands alike_of_terms(const ContractionProblem& problem, bool left) {
  AlikeOperands alike{left ? "Left" : "Right", "term", {}, {}, {}};
  alike.operands = left ? kernel::left_operands(problem) : kernel::right_operands(problem);
  for (const ContractionTerm& term : problem.terms) {
    alike.rows.push_back(left ? problem.rows : problem.columns);
    alike.depths.push_back(term.contracted);
  }
  return alike;
}

/// The first tile of each term.
std::vector<std::int64_t> first_depths(const ContractionProblem& problem, const ContractionSchedule& schedule) {
  std::vector<std::int64_t> first;
  std::int64_t tiles = 0;
  for (const ContractionTerm& term : problem.terms) {
    first.push_back(tiles);
    tiles += kernel::divided_up(term.contracted, schedule.block_depth);
  }
  return first;
}

}  // namespace

bool has_whole_depth(const ContractionProblem& problem, const ContractionSchedule& s) {
  const bool whole_terms = std::ranges::all_of(
      problem.terms, [&](const ContractionTerm& term) { return term.contracted % s.block_depth == 0; });
  // Where data say what is walked, the first tiles may be such as are behind it all.
  return whole_terms && kernel::shown_side(problem) == nullptr &&
         kernel::shape_of(problem, s).depth_tiles * s.split * s.block_depth == problem.contracted;
}

void print_operand_of_terms(Writer& out, const ContractionProblem& problem, bool left, const TileText& tile) {
  print_alike(out, alike_of_terms(problem, left), tile);
}

void print_term_of_tile(Writer& out, const ContractionProblem& problem, const ContractionSchedule& schedule,
                        std::string_view number) {
  const std::vector<std::int64_t> first = first_depths(problem, schedule);
  std::vector<std::string> begins;
  for (const std::int64_t tile : first) begins.push_back(std::to_string(tile));
  out.line("const int term = {};", number_within(number, first));
  out.line("const int depth_tile = {} - ({});", number, of_member(begins, "term"));
}

void print_copies_of_terms(Writer& out, const ContractionProblem& problem, const ContractionSchedule& schedule,
                           int threads) {
  for (const bool left : {true, false}) {
    const AlikeOperands alike = alike_of_terms(problem, left);
    const char* const name = left ? "left" : "right";
    out.open("const auto copy_{} = [&](unsigned char* to, int k)", name);
    out.line("const int tile_of_all = k / {};", schedule.block_depth);
    print_term_of_tile(out, problem, schedule, "tile_of_all");
    out.line("const {} {} = {};", alike.name, name, chosen_operand(alike));
    out.line("copy_tile<{}Tile, {}>(to, {}, {}, depth_tile * {});", alike.name, threads, name,
             left ? "block_row" : "block_column", schedule.block_depth);
    out.set_depth(out.depth() - 1);
    out.line("}};");
  }
}

}  // namespace stitch::codegen
