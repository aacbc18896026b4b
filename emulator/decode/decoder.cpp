#include "emulator/decode/decoder.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "emulator/ptx/ptx_error.h"

namespace stitch::emulator {
Decoder::Decoder(std::string_view source, const ptx::Module& module, Code& code)
    : source_(source), module_(module), code_(code) {}

Error Decoder::fail(std::string_view message) const {
  return ptx::error_at(ErrorKind::parse, source_, statement_ != nullptr ? statement_->line : function_->line, message);
}

Error Decoder::unsupported(std::string_view what) const {
  return ptx::error_at(ErrorKind::unsupported, source_, statement_ != nullptr ? statement_->line : function_->line,
                       fmt::format("{} is not supported", what));
}

bool Decoder::is_call(const ptx::Statement& statement) {
  return statement.opcode == "call" || statement.opcode.starts_with("call.");
}

const ptx::Operand* Decoder::callee_of(const ptx::Statement& statement) {
  const auto found = std::ranges::find(statement.operands, ptx::Operand::Kind::name, &ptx::Operand::kind);
  return found == statement.operands.end() ? nullptr : &*found;
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
