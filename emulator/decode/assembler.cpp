#include "emulator/decode/assembler.h"

#include <algorithm>

#include "emulator/decode/register_allocation.h"
#include "emulator/lanes/lane_ops.h"

namespace stitch::emulator {
namespace {

/// Lays the functions' drafts out one after the other and replaces virtual registers by rows.
class Assembler {
 public:
  explicit Assembler(Code& code) : code_(code) {}

  void assemble(const std::vector<FunctionDraft>& functions) {
    for (const FunctionDraft& function : functions) {
      add(function);
      code_.functions.back().name = std::string(function.name);
    }
    code_.entry = code_.functions.back().entry;
    code_.register_bytes = register_end_;
    bool any_tracked = false;
    for (const TrackedUse& use : code_.tracked_uses) any_tracked |= !use.reads.empty();
    if (!any_tracked) {
      code_.tracked_uses.clear();
      for (Instruction& instruction : code_.instructions) instruction.tracked = false;
    }
  }

 private:
  void add(const FunctionDraft& function) {
    const std::uint32_t base = code_.instructions.size();
    allocation_ = allocate_registers(function, code_.branch_tables, register_end_);
    register_end_ = allocation_.end;
    tracked_.clear();
    for (const std::uint32_t r : allocation_.tracked) {
      tracked_.emplace_back(r, code_.tracked_registers.size());
      std::string name(function.registers[r].name);
      const auto bank_first = std::ranges::find(function.registers, function.registers[r].name, &VirtualRegister::name);
      const std::ptrdiff_t index = r - (bank_first - function.registers.begin());
      if (name.starts_with('%')) name += std::to_string(index);
      code_.tracked_registers.push_back({register_end_, std::move(name)});
      register_end_ += 64;
    }
    DecodedFunction decoded;
    decoded.entry = base;
    decoded.return_address = slot(function.return_address);
    code_.functions.push_back(decoded);
    for (const InstructionDraft& draft : function.drafts) place(draft, base);
  }

  [[nodiscard]] Slot slot(Ref ref) const {
    switch (ref.kind) {
      case Ref::Kind::none: return no_slot;
      case Ref::Kind::constant: return ref.index | constant_bit;
      case Ref::Kind::reg: return allocation_.slots[ref.index];
    }
    return no_slot;
  }

  void place(const InstructionDraft& draft, std::uint32_t base) {
    Instruction instruction = draft.instruction;
    instruction.guard = slot(draft.guard);
    instruction.d = slot(draft.d);
    instruction.d2 = slot(draft.d2);
    instruction.a = slot(draft.a);
    instruction.b = slot(draft.b);
    instruction.c = slot(draft.c);
    instruction.e = slot(draft.e);
    if (!draft.list.empty()) {
      instruction.list = code_.lists.size();
      instruction.list_count = draft.list.size();
      for (const Ref& ref : draft.list) code_.lists.push_back(slot(ref));
    }
    if (draft.instruction.opcode == Opcode::branch) instruction.target += base;
    if (draft.instruction.opcode == Opcode::branch_indexed) {
      for (std::uint32_t& target : code_.branch_tables[instruction.target]) target += base;
    }
    if (draft.instruction.opcode == Opcode::call) {
      const auto callee = std::ranges::find(code_.functions, draft.callee, &DecodedFunction::name);
      instruction.target = callee - code_.functions.begin();
    }
    TrackedUse use = tracked_use(draft);
    instruction.tracked = !use.reads.empty() || !use.writes.empty();
    code_.tracked_uses.push_back(std::move(use));
    code_.instructions.push_back(instruction);
    code_.origins.push_back(draft.origin);
  }

  [[nodiscard]] TrackedUse tracked_use(const InstructionDraft& draft) const {
    TrackedUse use;
    if (tracked_.empty()) return use;
    const auto note = [this](Ref ref, std::vector<std::uint32_t>& into) {
      if (ref.kind != Ref::Kind::reg) return;
      for (const auto& [reg, index] : tracked_) {
        if (reg == ref.index) into.push_back(index);
      }
    };
    note(draft.d, use.writes);
    note(draft.d2, use.writes);
    for (std::size_t i = 0; i < draft.list.size(); ++i)
      note(draft.list[i], i < draft.list_defines ? use.writes : use.reads);
    // Moving or selecting an undefined value is harmless; compilers do it.
    const bool copies = draft.instruction.opcode == Opcode::lane &&
                        lane_ops(HostIsa::portable)[draft.instruction.lane_op].kind == InstructionClass::move;
    const bool selects = draft.instruction.opcode == Opcode::lane &&
                         lane_ops(HostIsa::portable)[draft.instruction.lane_op].name.starts_with("selp");
    if (!copies && !selects) {
      for (const Ref& ref : {draft.guard, draft.a, draft.b, draft.c, draft.e}) note(ref, use.reads);
    }
    return use;
  }

  Code& code_;
  RegisterAllocation allocation_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tracked_;  ///< virtual register, index in tracked_registers
  std::uint32_t register_end_ = 0;
};

}  // namespace

void assemble(const std::vector<FunctionDraft>& functions, Code& code) { Assembler(code).assemble(functions); }

}  // namespace stitch::emulator
