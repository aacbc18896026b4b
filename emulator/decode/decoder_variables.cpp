#include <algorithm>

#include "emulator/decode/address_space.h"
#include "emulator/decode/decoder.h"

/// Where variables lie: shared memory, the parameter block, a thread's frame, module variables.
namespace stitch::emulator {
namespace {

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

std::uint32_t Decoder::allocate_shared(std::uint64_t bytes, std::uint32_t alignment) {
  shared_used_ = align_up(shared_used_, alignment);
  const std::uint32_t offset = shared_used_;
  shared_used_ += bytes;
  return offset;
}

/// Static variables first, in order; the dynamic part follows them, where every `extern __shared__` array begins.
Status Decoder::place_shared(const std::vector<const ptx::Function*>& functions) {
  std::vector<std::string_view> used;
  const auto note = [&used](const auto& self, const ptx::Operand& operand) -> void {
    if (!operand.name.empty()) used.push_back(operand.name);
    for (const ptx::Operand& element : operand.elements) self(self, element);
  };
  for (const ptx::Function* function : functions) {
    for (const ptx::Statement& statement : function->statements) {
      for (const ptx::Operand& operand : statement.operands) note(note, operand);
    }
  }
  std::ranges::sort(used);
  std::vector<const ptx::Variable*> dynamic;
  for (const ptx::Variable& variable : module_.variables) {
    if (variable.space != ptx::StateSpace::shared || !std::ranges::binary_search(used, variable.name)) continue;
    if (variable.is_extern) {
      dynamic.push_back(&variable);
      shared_alignment_ = std::max(shared_alignment_, variable.alignment);
    } else {
      module_places_[variable.name] = {Space::shared,
                                       shared_base + allocate_shared(variable.bytes, variable.alignment)};
    }
  }
  for (const ptx::Function* function : functions) {
    for (const ptx::Variable& variable : function->variables) {
      if (variable.space != ptx::StateSpace::shared) continue;
      // Names of demoted variables are mangled with their function's: unique in the module.
      module_places_[variable.name] = {Space::shared,
                                       shared_base + allocate_shared(variable.bytes, variable.alignment)};
    }
  }
  for (const ptx::Variable* variable : dynamic) {
    module_places_[variable->name] = {Space::shared, shared_base + align_up(shared_used_, shared_alignment_)};
  }
  code_.static_shared_bytes = shared_used_;
  code_.dynamic_shared_offset = align_up(shared_used_, shared_alignment_);
  return {};
}

void Decoder::place_parameters(const ptx::Function& function) {
  if (function.is_entry) {
    for (const ptx::Variable& parameter : function.parameters) {
      const std::uint32_t offset = align_up(code_.parameter_bytes, parameter.alignment);
      const std::uint32_t bytes = parameter.bytes;
      code_.parameters.push_back({std::string(parameter.name), offset, bytes, parameter.alignment});
      code_.parameter_bytes = offset + bytes;
    }
    return;
  }
  std::vector<VariablePlace>& places = function_parameters_[function.name];
  for (const auto* list : {&function.returns, &function.parameters}) {
    for (const ptx::Variable& parameter : *list) {
      places.push_back({Space::frame, allocate_frame(parameter.bytes, parameter.alignment)});
    }
  }
}

std::uint32_t Decoder::allocate_frame(std::uint64_t bytes, std::uint32_t alignment) {
  const std::uint64_t offset = align_up(code_.local_bytes, alignment);
  code_.local_bytes = offset + bytes;
  return offset;
}

Status Decoder::place_variables(const ptx::Function& function) {
  if (function.is_entry) {
    for (const KernelParameter& parameter : code_.parameters) {
      const auto declared =
          std::ranges::find(function.parameters, std::string_view(parameter.name), &ptx::Variable::name);
      places_[{0, declared->name}] = {Space::parameter, parameter.offset};
    }
  } else {
    const std::vector<VariablePlace>& places = function_parameters_[function.name];
    std::size_t next = 0;
    for (const ptx::Variable& result : function.returns) places_[{0, result.name}] = places[next++];
    for (const ptx::Variable& parameter : function.parameters) places_[{0, parameter.name}] = places[next++];
  }
  for (const ptx::Variable& variable : function.variables) {
    const ScopedName key{variable.scope, variable.name};
    switch (variable.space) {
      case ptx::StateSpace::local:
        places_[key] = {Space::local, allocate_frame(variable.bytes, variable.alignment)};
        break;
      case ptx::StateSpace::global:
      case ptx::StateSpace::constant: {
        const Space space = variable.space == ptx::StateSpace::global ? Space::global : Space::constant;
        places_[key] = {space, 0, module_variable(variable), true};
        break;
      }
      default: break;  // shared ones are placed module-wide, parameters of calls by alias_call_parameters
    }
  }
  return {};
}

/// A call's argument and result variables are the callee's own: nothing needs to be copied.
Status Decoder::alias_call_parameters(const ptx::Function& function) {
  for (const ptx::Statement& call : function.statements) {
    if (!is_call(call)) continue;
    statement_ = &call;
    const ptx::Operand* callee = callee_of(call);
    const auto places = function_parameters_.find(callee->name);
    std::size_t next = 0;
    for (const ptx::Operand& list : call.operands) {
      if (list.kind != ptx::Operand::Kind::list) continue;
      for (const ptx::Operand& argument : list.elements) {
        std::uint32_t scope = call.scope;
        const auto declared_here = [&](const ptx::Variable& v) {
          return v.name == argument.name && v.scope == scope && v.space == ptx::StateSpace::param;
        };
        while (scope != 0 && std::ranges::none_of(function.variables, declared_here))
          scope = function.scope_parent[scope];
        const auto variable = std::ranges::find_if(function.variables, declared_here);
        if (variable == function.variables.end()) return fail("arguments of a call must be .param variables");
        const ScopedName key{scope, argument.name};
        // Functions that the environment provides (vprintf) get storage of the caller's.
        const VariablePlace place =
            places == function_parameters_.end() || next >= places->second.size()
                ? VariablePlace{Space::frame, allocate_frame(variable->bytes, variable->alignment)}
                : places->second[next];
        ++next;
        if (const auto [entry, added] = places_.emplace(key, place); !added && entry->second.offset != place.offset) {
          return unsupported("an argument variable shared by several calls");
        }
      }
    }
    if (places != function_parameters_.end() && next != places->second.size()) return fail("wrong number of arguments");
  }
  statement_ = nullptr;
  return {};
}

std::uint32_t Decoder::module_variable(const ptx::Variable& variable) {
  const auto [entry, added] = module_variables_.emplace(variable.name, code_.variables.size());
  if (!added) return entry->second;
  const std::uint32_t index = entry->second;
  code_.variables.push_back({std::string(variable.name), variable.bytes, variable.initial, {}});
  for (const ptx::Variable::Relocation& relocation : variable.relocations) {
    const auto target = std::ranges::find(module_.variables, relocation.symbol, &ptx::Variable::name);
    // Addresses of functions in tables are of no use without indirect calls.
    if (target == module_.variables.end()) continue;
    const std::uint32_t target_index = module_variable(*target);
    code_.variables[index].relocations.push_back({relocation.at, target_index, relocation.addend});
  }
  return index;
}

const Decoder::VariablePlace* Decoder::find_place(std::string_view name) const {
  for (std::uint32_t scope = statement_->scope;; scope = function_->scope_parent[scope]) {
    if (const auto found = places_.find({scope, name}); found != places_.end()) return &found->second;
    if (scope == 0) break;
  }
  const auto found = module_places_.find(name);
  return found == module_places_.end() ? nullptr : &found->second;
}

}  // namespace stitch::emulator
