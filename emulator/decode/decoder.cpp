#include "emulator/decode/decoder.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "emulator/decode/address_space.h"
#include "emulator/ptx/ptx_parser.h"

namespace stitch::emulator {
namespace {

std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

bool is_call(const ptx::Statement& statement) {
  return statement.opcode == "call" || statement.opcode.starts_with("call.");
}

/// The name operand of a call: the first operand that is a plain name.
const ptx::Operand* callee_of(const ptx::Statement& statement) {
  const auto found = std::ranges::find(statement.operands, ptx::Operand::Kind::name, &ptx::Operand::kind);
  return found == statement.operands.end() ? nullptr : &*found;
}

}  // namespace

Modifiers::Modifiers(std::string_view opcode) {
  while (!opcode.empty()) {
    const std::size_t dot = opcode.find('.');
    const std::string_view part = opcode.substr(0, dot);
    if (root_.empty()) {
      root_ = part;
    } else {
      parts_.push_back(part);
    }
    opcode = dot == std::string_view::npos ? std::string_view() : opcode.substr(dot + 1);
  }
}

bool Modifiers::take(std::string_view name) {
  const auto found = std::ranges::find(parts_, name);
  if (found == parts_.end()) return false;
  parts_.erase(found);
  return true;
}

std::string_view Modifiers::take_any(std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (take(name)) return name;
  }
  return {};
}

std::optional<Type> Modifiers::take_type() {
  for (auto part = parts_.begin(); part != parts_.end(); ++part) {
    if (const auto type = type_from_name(*part)) {
      parts_.erase(part);
      return type;
    }
  }
  return std::nullopt;
}

std::optional<Type> Modifiers::take_last_type() {
  for (std::size_t i = parts_.size(); i-- > 0;) {
    if (const auto type = type_from_name(parts_[i])) {
      parts_.erase(parts_.begin() + i);
      return type;
    }
  }
  return std::nullopt;
}

std::string_view Modifiers::take_front() {
  if (parts_.empty()) return {};
  const std::string_view part = parts_.front();
  parts_.erase(parts_.begin());
  return part;
}

bool Modifiers::drop_prefix(std::string_view prefix) {
  return std::erase_if(parts_, [&](std::string_view part) { return part.starts_with(prefix); }) > 0;
}

Decoder::Decoder(std::string_view source, const ptx::Module& module, Code& code)
    : source_(source), module_(module), code_(code) {}

Error Decoder::fail(std::string_view message) const {
  return ptx::error_at(ErrorKind::parse, source_, statement_ != nullptr ? statement_->line : function_->line, message);
}

Error Decoder::unsupported(std::string_view what) const {
  return ptx::error_at(ErrorKind::unsupported, source_, statement_ != nullptr ? statement_->line : function_->line,
                       fmt::format("{} is not supported", what));
}

const ptx::Function* Decoder::find_function(std::string_view name) const {
  const ptx::Function* declared = nullptr;
  for (const ptx::Function& function : module_.functions) {
    if (function.name != name) continue;
    if (function.has_body) return &function;
    declared = &function;
  }
  return declared;
}

Status Decoder::decode(const ptx::Function& entry) {
  std::vector<const ptx::Function*> order;
  STITCH_TRY(collect(entry, order));
  STITCH_TRY(place_shared(order));
  for (const ptx::Function* function : order) place_parameters(*function);
  for (const ptx::Function* function : order) STITCH_TRY(decode_function(*function));
  code_.static_shared_bytes = shared_used_;
  code_.dynamic_shared_offset = align_up(shared_used_, shared_alignment_);
  return {};
}

Status Decoder::collect(const ptx::Function& function, std::vector<const ptx::Function*>& order) {
  if (std::ranges::find(order, &function) != order.end()) return {};
  active_.push_back(function.name);
  for (const ptx::Statement& statement : function.statements) {
    if (!is_call(statement)) continue;
    function_ = &function;
    statement_ = &statement;
    const ptx::Operand* name = callee_of(statement);
    const ptx::Function* callee = name == nullptr ? nullptr : find_function(name->name);
    if (callee == nullptr) return unsupported("a call through a pointer");
    if (!callee->has_body) continue;
    if (std::ranges::find(active_, callee->name) != active_.end()) return unsupported("recursion");
    STITCH_TRY(collect(*callee, order));
  }
  active_.pop_back();
  statement_ = nullptr;
  order.push_back(&function);
  return {};
}

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

Status Decoder::decode_function(const ptx::Function& function) {
  function_ = &function;
  statement_ = nullptr;
  draft_ = {};
  draft_.name = function.name;
  draft_.is_entry = function.is_entry;
  single_registers_.clear();
  register_banks_.clear();
  places_.clear();
  carry_ = {};
  if (!function.is_entry) draft_.return_address = temporary(Width::b32);
  STITCH_TRY(declare_registers(function));
  STITCH_TRY(place_variables(function));
  STITCH_TRY(alias_call_parameters(function));
  std::vector<std::uint32_t> first_draft;
  for (const ptx::Statement& next : function.statements) {
    first_draft.push_back(draft_.drafts.size());
    STITCH_TRY(statement(next));
  }
  first_draft.push_back(draft_.drafts.size());
  // A function may end without ret; falling off its end returns.
  statement_ = nullptr;
  guard_ = {};
  counted_ = false;
  emit(function.is_entry ? Opcode::exit : Opcode::function_return, InstructionClass::control).a = draft_.return_address;
  for (InstructionDraft& draft : draft_.drafts) {
    const auto resolve = [&](std::string_view name) -> Result<std::uint32_t> {
      for (std::uint32_t scope = draft.scope;; scope = function.scope_parent[scope]) {
        for (const ptx::Label& label : function.labels) {
          if (label.scope == scope && label.name == name) return first_draft[label.statement];
        }
        if (scope == 0) break;
      }
      return ptx::error_at(ErrorKind::parse, source_, draft.origin.ptx_line, fmt::format("unknown label '{}'", name));
    };
    if (!draft.label.empty()) {
      STITCH_ASSIGN(draft.instruction.target, resolve(draft.label));
    }
    if (!draft.table.empty()) {
      std::vector<std::uint32_t> targets;
      for (const std::string_view name : draft.table) {
        STITCH_ASSIGN(const std::uint32_t target, resolve(name));
        targets.push_back(target);
      }
      draft.instruction.target = code_.branch_tables.size();
      code_.branch_tables.push_back(std::move(targets));
    }
  }
  done_.push_back(std::move(draft_));
  return {};
}

Status Decoder::declare_registers(const ptx::Function& function) {
  for (const ptx::RegisterDeclaration& declared : function.registers) {
    const Width width = register_width(declared.type);
    const std::uint32_t first = draft_.registers.size();
    const ScopedName key{declared.scope, declared.name};
    if (declared.count == 0) {
      single_registers_[key] = first;
    } else {
      register_banks_[key] = {first, declared.count};
    }
    draft_.registers.resize(first + std::max(declared.count, 1U), {width, declared.name});
  }
  return {};
}

std::optional<std::uint32_t> Decoder::find_register(std::string_view name, std::uint32_t scope) const {
  std::size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  std::uint32_t index = 0;
  const bool numbered =
      digits < name.size() && std::from_chars(name.data() + digits, name.data() + name.size(), index).ec == std::errc();
  for (;; scope = function_->scope_parent[scope]) {
    if (const auto single = single_registers_.find({scope, name}); single != single_registers_.end()) {
      return single->second;
    }
    if (numbered) {
      const auto bank = register_banks_.find({scope, name.substr(0, digits)});
      if (bank != register_banks_.end() && index < bank->second.count) return bank->second.first + index;
    }
    if (scope == 0) return std::nullopt;
  }
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

Status Decoder::statement(const ptx::Statement& next) {
  statement_ = &next;
  modifiers_ = Modifiers(next.opcode);
  guard_ = {};
  counted_ = false;
  const std::size_t first = draft_.drafts.size();
  if (!next.guard.empty()) {
    const auto guard = find_register(next.guard, next.scope);
    if (!guard || draft_.registers[*guard].width != Width::predicate) {
      return fail(fmt::format("'{}' is not a predicate register", next.guard));
    }
    guard_ = {Ref::Kind::reg, *guard};
  }
  // Module variables are placed when a statement first names them.
  for (const ptx::Operand& named : next.operands) {
    if (named.name.empty() || find_place(named.name) != nullptr) continue;
    const auto variable = std::ranges::find(module_.variables, named.name, &ptx::Variable::name);
    if (variable == module_.variables.end() || variable->space == ptx::StateSpace::shared) continue;
    if (variable->is_extern) return unsupported(fmt::format("the extern variable '{}'", variable->name));
    const Space space = variable->space == ptx::StateSpace::global ? Space::global : Space::constant;
    module_places_[variable->name] = {space, 0, module_variable(*variable), true};
  }
  const Rule rule = rule_of(modifiers_.root());
  if (rule == nullptr) return unsupported(fmt::format("instruction '{}'", next.opcode));
  STITCH_TRY((this->*rule)());
  if (!counted_ && draft_.drafts.size() > first) draft_.drafts.back().instruction.counted = true;
  return {};
}

}  // namespace stitch::emulator
