#include "codegen/contraction/merged_text.h"

#include <algorithm>
#include <vector>

#include "codegen/spelling.h"

namespace stitch::codegen {
namespace {

using kernel::ContractionDigits;
using kernel::ContractionOperand;
using kernel::ContractionProblem;

/// A joined dimension of the right operands: the first one's, and the names of strides that are not all alike.
struct MemberDigits {
  ContractionDigits digits;
  std::vector<std::string> names;  ///< per digit; empty: all have the same stride
};

MemberDigits digits_of(const ContractionProblem& problem, ContractionDigits ContractionOperand::*dimension,
                       std::string_view name) {
  MemberDigits found{problem.members[0].right.*dimension, {}};
  for (std::size_t i = 0; i < found.digits.size(); ++i) {
    const bool same = std::ranges::all_of(problem.members, [&](const ContractionProblem& member) {
      return (member.right.*dimension)[i].stride == found.digits[i].stride;
    });
    found.names.push_back(same ? "" : fmt::format("{}{}", name, i));
  }
  return found;
}

/// Of both dimensions that a loop walks, in the order of the structure's members.
std::vector<std::pair<ContractionDigits ContractionOperand::*, std::string_view>> walked() {
  return {{&ContractionOperand::free, "free"}, {&ContractionOperand::contracted, "contracted"}};
}

}  // namespace

std::string begin_of(const ContractionOperand& operand) {
  const std::string offset = operand.offset == 0 ? "" : std::to_string(operand.offset);
  return fmt::format("in{} + ({})", operand.parameter, sum_of({offset_of(operand.batch, "batch"), offset}));
}

void print_right_of_members(Writer& out, const ContractionProblem& problem, const TileText& tile) {
  const ContractionOperand& first = problem.members[0].right;
  const MemberDigits free = digits_of(problem, &ContractionOperand::free, "free"),
                     contracted = digits_of(problem, &ContractionOperand::contracted, "contracted");
  out.open("struct Right");
  out.line("static constexpr int depth = {};", problem.contracted);
  out.line("static constexpr bool whole_rows = {}, whole_depth = {};", tile.whole_rows, tile.whole_depth);
  out.line("const {}* data;", storage_type(first.dtype));
  out.line("int rows;");
  for (const MemberDigits* each : {&free, &contracted}) {
    for (const std::string& name : each->names) {
      if (!name.empty()) out.line("s64 {};", name);
    }
  }
  out.line("__device__ static __forceinline__ bool covers(int, int) {{ return true; }}");
  out.open("__device__ __forceinline__ s64 at(int row, int k) const");
  out.line("return {};",
           sum_of({offset_of(free.digits, "row", free.names), offset_of(contracted.digits, "k", contracted.names)}));
  out.close();
  out.set_depth(0);
  out.line("}};");
  print_tile_type(out, "Right", first, tile);
}

void print_right_of_tile(Writer& out, const ContractionProblem& problem) {
  std::vector<std::string> begins, columns;
  for (const ContractionProblem& member : problem.members) {
    begins.push_back(begin_of(member.right));
    columns.push_back(std::to_string(member.columns));
  }
  std::string values = fmt::format("{}, {}", of_member(begins), of_member(columns));
  for (const auto& [dimension, name] : walked()) {
    const MemberDigits digits = digits_of(problem, dimension, name);
    for (std::size_t i = 0; i < digits.names.size(); ++i) {
      if (digits.names[i].empty()) continue;
      std::vector<std::string> strides;
      for (const ContractionProblem& member : problem.members)
        strides.push_back(std::to_string((member.right.*dimension)[i].stride));
      values += ", " + of_member(strides);
    }
  }
  out.line("const Right right = {{{}}};", values);
}

}  // namespace stitch::codegen
