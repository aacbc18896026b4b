#include "emulator/decode/program.h"

#include <algorithm>
#include <charconv>

#include "emulator/decode/code.h"
#include "emulator/decode/decoder.h"
#include "emulator/decode/register_allocation.h"
#include "emulator/ptx/ptx_parser.h"

namespace stitch::emulator {
namespace {

/// Lays the functions' drafts out one after the other and replaces virtual registers by rows.
class Assembler {
 public:
  explicit Assembler(Code& code) : code_(code) {}

  void assemble(std::vector<FunctionDraft>& functions) {
    for (FunctionDraft& function : functions) {
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
  void add(FunctionDraft& function) {
    const std::uint32_t base = code_.instructions.size();
    allocation_ = allocate_registers(function, code_.branch_tables, register_end_);
    register_end_ = allocation_.end;
    tracked_.clear();
    for (const std::uint32_t r : allocation_.tracked) {
      tracked_.emplace_back(r, static_cast<std::uint32_t>(code_.tracked_registers.size()));
      std::string name(function.registers[r].name);
      const auto bank_first = std::ranges::find(function.registers, function.registers[r].name, &VirtualRegister::name);
      const auto index =
          static_cast<std::size_t>(r) - static_cast<std::size_t>(bank_first - function.registers.begin());
      if (name.starts_with('%')) name += std::to_string(index);
      code_.tracked_registers.push_back({register_end_, std::move(name)});
      register_end_ += 64;
    }
    DecodedFunction decoded;
    decoded.entry = base;
    decoded.return_address = slot(function.return_address);
    code_.functions.push_back(decoded);
    for (Draft& draft : function.drafts) place(draft, base);
  }

  [[nodiscard]] Slot slot(Ref ref) const {
    switch (ref.kind) {
      case Ref::Kind::none: return no_slot;
      case Ref::Kind::constant: return ref.index | constant_bit;
      case Ref::Kind::reg: return allocation_.slots[ref.index];
    }
    return no_slot;
  }

  void place(const Draft& draft, std::uint32_t base) {
    Instruction instruction = draft.instruction;
    instruction.guard = slot(draft.guard);
    instruction.d = slot(draft.d);
    instruction.d2 = slot(draft.d2);
    instruction.a = slot(draft.a);
    instruction.b = slot(draft.b);
    instruction.c = slot(draft.c);
    instruction.e = slot(draft.e);
    if (!draft.list.empty()) {
      instruction.list = static_cast<std::uint32_t>(code_.lists.size());
      instruction.list_count = static_cast<std::uint16_t>(draft.list.size());
      for (const Ref& ref : draft.list) code_.lists.push_back(slot(ref));
    }
    if (draft.instruction.opcode == Opcode::branch) instruction.target += base;
    if (draft.instruction.opcode == Opcode::branch_indexed) {
      for (std::uint32_t& target : code_.branch_tables[instruction.target]) target += base;
    }
    if (draft.instruction.opcode == Opcode::call) {
      const auto callee = std::ranges::find(code_.functions, draft.callee, &DecodedFunction::name);
      instruction.target = static_cast<std::uint32_t>(callee - code_.functions.begin());
    }
    TrackedUse use = tracked_use(draft);
    instruction.tracked = !use.reads.empty() || !use.writes.empty();
    code_.tracked_uses.push_back(std::move(use));
    code_.instructions.push_back(instruction);
    code_.origins.push_back(draft.origin);
  }

  [[nodiscard]] TrackedUse tracked_use(const Draft& draft) const {
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

/// What the launch path needs to know about the kernel as a whole.
void summarise(Code& code) {
  const auto narrow = [&code](Space space, unsigned bytes) {
    if (space == Space::shared || space == Space::shared_cluster || space == Space::generic) {
      code.shared_granule = static_cast<std::uint8_t>(std::min<unsigned>(code.shared_granule, bytes));
    }
  };
  for (const MemoryAccess& access : code.accesses) {
    narrow(access.space, access.element_bytes);
    const bool foreign = access.space == Space::global || access.space == Space::generic;
    if (foreign && access.strong()) code.synchronises_blocks = true;
  }
  for (const AtomicAccess& access : code.atomics) {
    narrow(access.space, access.element_bytes);
    const bool foreign = access.space == Space::global || access.space == Space::generic;
    if (foreign && access.returns) code.synchronises_blocks = true;
  }
}

void copy_limits(const ptx::Module& module, const ptx::Function& entry, Code& code) {
  code.name = std::string(entry.name);
  code.target = std::string(module.target);
  code.required_block = entry.required_block;
  code.maximum_block = entry.maximum_block;
  code.required_cluster = entry.required_cluster;
  if (code.target.starts_with("sm_")) {
    std::from_chars(code.target.data() + 3, code.target.data() + code.target.size(), code.architecture);
  }
  for (const auto& [index, name] : module.files) {
    if (code.files.size() <= index) code.files.resize(index + 1);
    code.files[index] = name;
  }
}

std::optional<Dim3> given(const Dim3& dimensions) {
  return dimensions.x == 0 ? std::nullopt : std::optional(dimensions);
}

}  // namespace

Result<Program> Program::load(std::string_view ptx, std::string_view entry) {
  auto code = std::make_shared<Code>();
  code->ptx = std::string(ptx);
  code->module = hash_bytes(ptx);
  STITCH_ASSIGN(const ptx::Module module, ptx::parse(code->ptx));
  const ptx::Function* kernel = nullptr;
  for (const ptx::Function& function : module.functions) {
    if (!function.is_entry || !function.has_body) continue;
    if (entry.empty() && kernel != nullptr) {
      return make_error(ErrorKind::invalid_argument, "the module has several kernels; name one");
    }
    if (entry.empty() || function.name == entry) kernel = &function;
  }
  if (kernel == nullptr) return make_error(ErrorKind::not_found, "no kernel named '{}' in the PTX module", entry);
  copy_limits(module, *kernel, *code);
  Decoder decoder(code->ptx, module, *code);
  STITCH_TRY(decoder.decode(*kernel));
  Assembler(*code).assemble(decoder.functions());
  summarise(*code);
  return Program(std::move(code));
}

const std::string& Program::name() const { return code_->name; }
const std::string& Program::target() const { return code_->target; }
const std::vector<Parameter>& Program::parameters() const { return code_->parameters; }
std::uint32_t Program::parameter_bytes() const { return code_->parameter_bytes; }
std::uint32_t Program::static_shared_bytes() const { return code_->static_shared_bytes; }
std::uint32_t Program::local_bytes() const { return code_->local_bytes; }
std::uint32_t Program::register_bytes() const { return code_->register_bytes / warp_lanes; }
std::optional<Dim3> Program::required_block() const { return given(code_->required_block); }
std::optional<Dim3> Program::maximum_block() const { return given(code_->maximum_block); }
std::optional<Dim3> Program::required_cluster() const { return given(code_->required_cluster); }
std::size_t Program::instruction_count() const { return code_->instructions.size(); }

Result<std::vector<std::string>> entry_names(std::string_view ptx) {
  STITCH_ASSIGN(const ptx::Module module, ptx::parse(ptx));
  std::vector<std::string> names;
  for (const ptx::Function& function : module.functions) {
    if (function.is_entry && function.has_body) names.emplace_back(function.name);
  }
  return names;
}

}  // namespace stitch::emulator
