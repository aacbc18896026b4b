#include "import/hlo/describe.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>

#include "import/hlo/attribute.h"

namespace stitch::import::hlo {
namespace {

/// Do not change what is computed.
constexpr std::array<std::string_view, 9> ignored = {
    "metadata",        "sharding",   "frontend_attributes",   "original_value",
    "origin",          "statistics", "parameter_replication", "control-predecessors",
    "execution_thread"};

/// Name computations.
constexpr std::array<std::string_view, 10> calling = {"to_apply",
                                                      "calls",
                                                      "body",
                                                      "condition",
                                                      "select",
                                                      "scatter",
                                                      "true_computation",
                                                      "false_computation",
                                                      "comparator",
                                                      "branch_computations"};

// Beyond these a computation's name stands for what it holds.
constexpr std::size_t longest = 1U << 16;
constexpr int deepest = 64;

template <std::size_t n>
bool contains(const std::array<std::string_view, n>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

std::string describe_shape(const Shape& shape) {
  if (shape.kind != Shape::Kind::tuple) return fmt::format("{}{}", shape.element, graph::to_string(shape.dims));
  std::string text = "(";
  for (const Shape& element : shape.elements)
    text += fmt::format("{}{}", text.size() > 1 ? "," : "", describe_shape(element));
  text += ')';
  return text;
}

void describe_computation(const Module& module, std::string_view name, int depth, std::string& text);

void append_attributes(const Module& module, const Instruction& instruction, int depth, std::string& text) {
  for (const Attribute& attribute : instruction.attributes) {
    if (contains(ignored, attribute.key)) continue;
    if (!text.empty() && text.back() != ' ' && text.back() != '{') text += ' ';
    if (!contains(calling, attribute.key)) {
      text += fmt::format("{}={}", attribute.key, attribute.value);
      continue;
    }
    text += fmt::format("{}=", attribute.key);
    const Result<std::vector<std::string_view>> names = names_attribute(attribute);
    if (!names) continue;
    for (const std::string_view name : *names) describe_computation(module, name, depth + 1, text);
  }
}

void describe_computation(const Module& module, std::string_view name, int depth, std::string& text) {
  if (depth > deepest || text.size() > longest) {
    text += name;
    return;
  }
  const auto found = std::find_if(module.computations.begin(), module.computations.end(),
                                  [&](const Computation& computation) { return computation.name == name; });
  text += '{';
  for (std::size_t i = 0; found != module.computations.end() && i < found->instructions.size(); ++i) {
    const Instruction& instruction = found->instructions[i];
    text += fmt::format("{}%{}={} {}({}", i == 0 ? "" : "; ", i, describe_shape(instruction.shape), instruction.opcode,
                        instruction.payload);
    for (std::size_t k = 0; k < instruction.operands.size(); ++k) {
      text += fmt::format("{}%{}", k == 0 ? "" : ",", instruction.operands[k]);
    }
    text += ") ";
    append_attributes(module, instruction, depth, text);
    if (text.back() == ' ') text.pop_back();
  }
  if (found != module.computations.end()) text += fmt::format("; return %{}", found->root);
  text += '}';
}

}  // namespace

std::string describe_attributes(const Module& module, const Instruction& instruction) {
  std::string text;
  append_attributes(module, instruction, 0, text);
  return text;
}

}  // namespace stitch::import::hlo
