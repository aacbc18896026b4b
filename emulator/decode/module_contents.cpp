#include "emulator/decode/module_contents.h"

#include <algorithm>

#include "emulator/ptx/ptx_parser.h"

namespace stitch::emulator {
namespace {

bool lies_in_device_memory(const ptx::Variable& variable) {
  return !variable.is_extern &&
         (variable.space == ptx::StateSpace::global || variable.space == ptx::StateSpace::constant);
}

DeclaredKernel declare(const ptx::Function& function) {
  DeclaredKernel kernel;
  kernel.name = function.name;
  std::uint32_t end = 0;
  for (const ptx::Variable& parameter : function.parameters) {
    const std::uint32_t offset = (end + parameter.alignment - 1) / parameter.alignment * parameter.alignment;
    const auto bytes = static_cast<std::uint32_t>(parameter.bytes);
    kernel.parameters.push_back({std::string(parameter.name), offset, bytes, parameter.alignment});
    end = offset + bytes;
  }
  for (const ptx::Statement& statement : function.statements) {
    if (statement.opcode == "griddepcontrol.wait") kernel.waits_for_primary = true;
    if (statement.opcode == "griddepcontrol.launch_dependents" && !kernel.waits_for_primary)
      kernel.releases_early = true;
  }
  return kernel;
}

void relocate(const std::vector<const ptx::Variable*>& declared, std::vector<ModuleVariable>& variables) {
  for (std::size_t i = 0; i < declared.size(); ++i) {
    for (const ptx::Variable::Relocation& relocation : declared[i]->relocations) {
      const auto target = std::ranges::find(declared, relocation.symbol, &ptx::Variable::name);
      if (target == declared.end()) continue;  // a function: of no use without indirect calls
      const auto index = static_cast<std::uint32_t>(target - declared.begin());
      variables[i].relocations.push_back({relocation.at, index, relocation.addend});
    }
  }
}

}  // namespace

Result<ModuleContents> read_module(std::string_view ptx) {
  STITCH_ASSIGN(const ptx::Module module, ptx::parse(ptx));
  ModuleContents contents;
  contents.module = hash_bytes(ptx);
  for (const char c : module.version) contents.version = c == '.' ? contents.version : contents.version * 10 + c - '0';
  contents.target = module.target;
  std::vector<const ptx::Variable*> declared;
  const auto note = [&](const ptx::Variable& variable) {
    if (lies_in_device_memory(variable)) declared.push_back(&variable);
  };
  for (const ptx::Variable& variable : module.variables) note(variable);
  for (const ptx::Function& function : module.functions) {
    for (const ptx::Variable& variable : function.variables) note(variable);
    if (function.is_entry && function.has_body) contents.kernels.push_back(declare(function));
  }
  for (const ptx::Variable* variable : declared) {
    contents.variables.push_back({std::string(variable->name), variable->bytes, variable->initial, {}});
  }
  relocate(declared, contents.variables);
  return contents;
}

}  // namespace stitch::emulator
