#include "codegen/contraction/alike_operands.h"

#include <algorithm>

#include "codegen/index_text.h"
#include "codegen/spelling.h"

namespace stitch::codegen {
namespace {

using kernel::ContractionDigits;
using kernel::ContractionOperand;

/// A joined dimension of the operands: the first one's, and the names of strides that are not all alike.
struct NamedDigits {
  ContractionDigits digits;
  std::vector<std::string> names;  ///< per digit; empty: all have the same stride
};

NamedDigits named_digits(const AlikeOperands& alike, ContractionDigits ContractionOperand::*dimension,
                         std::string_view name) {
  NamedDigits found{alike.operands[0]->*dimension, {}};
  for (std::size_t i = 0; i < found.digits.size(); ++i) {
    const bool same = std::ranges::all_of(alike.operands, [&](const ContractionOperand* operand) {
      return (operand->*dimension)[i].stride == found.digits[i].stride;
    });
    found.names.push_back(same ? "" : fmt::format("{}{}", name, i));
  }
  return found;
}

/// Of both dimensions that a loop walks, in the order of the structure's members.
std::vector<std::pair<ContractionDigits ContractionOperand::*, std::string_view>> walked() {
  return {{&ContractionOperand::free, "free"}, {&ContractionOperand::contracted, "contracted"}};
}

bool have_one_depth(const AlikeOperands& alike) {
  return std::ranges::count(alike.depths, alike.depths[0]) == std::ssize(alike.depths);
}

std::vector<std::string> texts_of(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> texts;
  for (const std::int64_t number : numbers) texts.push_back(std::to_string(number));
  return texts;
}

}  // namespace

std::string begin_of(const ContractionOperand& operand) {
  const std::string offset = operand.offset == 0 ? "" : std::to_string(operand.offset);
  return fmt::format("in{} + ({})", operand.parameter, sum_of({offset_of(operand.batch, "batch"), offset}));
}

void print_alike(Writer& out, const AlikeOperands& alike, const TileText& tile) {
  const ContractionOperand& first = *alike.operands[0];
  const NamedDigits free = named_digits(alike, &ContractionOperand::free, "free"),
                    contracted = named_digits(alike, &ContractionOperand::contracted, "contracted");
  const bool one_depth = have_one_depth(alike);
  out.open("struct {}", alike.name);
  if (one_depth) out.line("static constexpr int depth = {};", alike.depths[0]);
  out.line("static constexpr bool whole_rows = {}, whole_depth = {};", tile.whole_rows, tile.whole_depth);
  const auto is_even = [](const NamedDigits& each) {
    return each.digits.size() <= 1 && std::ranges::all_of(each.names, &std::string::empty);
  };
  if (is_even(free) && is_even(contracted)) out.line("static constexpr bool even = true;");
  out.line("const {}* data;", storage_type(first.dtype));
  out.line("int rows;");
  if (!one_depth) out.line("int depth;");
  for (const NamedDigits* each : {&free, &contracted}) {
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
  print_tile_type(out, alike.name, first, tile);
}

std::string chosen_operand(const AlikeOperands& alike) {
  std::vector<std::string> begins;
  for (const ContractionOperand* operand : alike.operands) begins.push_back(begin_of(*operand));
  std::string values =
      fmt::format("{}, {}", of_member(begins, alike.chosen), of_member(texts_of(alike.rows), alike.chosen));
  if (!have_one_depth(alike)) values += ", " + of_member(texts_of(alike.depths), alike.chosen);
  for (const auto& [dimension, name] : walked()) {
    const NamedDigits digits = named_digits(alike, dimension, name);
    for (std::size_t i = 0; i < digits.names.size(); ++i) {
      if (digits.names[i].empty()) continue;
      std::vector<std::string> strides;
      for (const ContractionOperand* operand : alike.operands)
        strides.push_back(std::to_string((operand->*dimension)[i].stride));
      values += ", " + of_member(strides, alike.chosen);
    }
  }
  return fmt::format("{{{}}}", values);
}

}  // namespace stitch::codegen
