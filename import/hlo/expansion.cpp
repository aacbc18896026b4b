#include "import/hlo/expansion.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "import/hlo/attribute.h"

namespace stitch::import::hlo {
namespace {

/// Whose computations are written out each time; those of reductions and their like are made once.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> written_out = {{
    {"call", "to_apply"},
    {"call", "calls"},
    {"fusion", "calls"},
    {"while", "body"},
    {"while", "condition"},
    {"conditional", "branch_computations"},
    {"conditional", "true_computation"},
    {"conditional", "false_computation"},
}};

}  // namespace

std::int64_t expanded_instructions(const Module& module, std::int64_t most) {
  std::unordered_map<std::string_view, std::int64_t> known;
  const auto size_of = [&](const Instruction& instruction) {
    std::int64_t size = 1;
    for (const auto& [opcode, key] : written_out) {
      if (instruction.opcode != opcode) continue;
      const Attribute* attribute = find_attribute(instruction, key);
      if (attribute == nullptr) continue;
      const auto names = names_attribute(*attribute);
      if (!names) continue;  // whoever lowers it says what is wrong
      for (const std::string_view name : *names) {
        // A computation comes before those that call it.
        if (const auto found = known.find(name); found != known.end()) size = std::min(most, size + found->second);
      }
    }
    return size;
  };
  std::int64_t entry = 0;
  for (std::size_t c = 0; c < module.computations.size(); ++c) {
    std::int64_t size = 0;
    for (const Instruction& instruction : module.computations[c].instructions) {
      size = std::min(most, size + size_of(instruction));
    }
    known.emplace(module.computations[c].name, size);
    if (static_cast<std::int64_t>(c) == module.entry) entry = size;
  }
  return entry;
}

}  // namespace stitch::import::hlo
