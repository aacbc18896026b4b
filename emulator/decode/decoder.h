#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "base/result.h"
#include "emulator/decode/code.h"
#include "emulator/decode/instruction_draft.h"
#include "emulator/decode/modifiers.h"
#include "emulator/ptx/ptx_syntax.h"

namespace stitch::emulator {

/// Turns the statements of one kernel and its functions into drafts. The decode_*.cpp files hold its members by
/// instruction family; decode_table.cpp maps mnemonics to them.
class Decoder {
 public:
  Decoder(std::string_view source, const ptx::Module& module, Code& code);

  /// Decodes the kernel and the functions that it calls; functions() then holds callees before their callers, so that
  /// code in a function has smaller indices than the code that called it.
  Status decode(const ptx::Function& entry);
  std::vector<FunctionDraft>& functions() { return done_; }

  using Rule = Status (Decoder::*)();
  /// Every mnemonic (an opcode's first part) that is understood, and the rule that decodes it; null for others. What an
  /// element-wise instruction computes is a row of the lane-operation table, what others do is their Opcode.
  static Rule rule_of(std::string_view mnemonic);

 private:
  struct VariablePlace {
    Space space = Space::global;
    std::uint64_t offset = 0;    ///< in its space
    std::uint32_t variable = 0;  ///< module variable, for global and constant ones
    bool is_module_variable = false;
  };
  struct ScopedName {
    std::uint32_t scope;
    std::string_view name;
    auto operator<=>(const ScopedName&) const = default;
  };

  // decoder.cpp: functions, statements, registers
  Status collect(const ptx::Function& function, std::vector<const ptx::Function*>& order);
  Status decode_function(const ptx::Function& function);
  Status declare_registers(const ptx::Function& function);
  Status statement(const ptx::Statement& statement);
  static bool is_call(const ptx::Statement& statement);
  /// The name operand of a call, the first operand that is a plain name; null without one.
  static const ptx::Operand* callee_of(const ptx::Statement& statement);
  const ptx::Function* find_function(std::string_view name) const;
  std::optional<std::uint32_t> find_register(std::string_view name, std::uint32_t scope) const;
  [[nodiscard]] Error fail(std::string_view message) const;
  [[nodiscard]] Error unsupported(std::string_view what) const;

  // decoder_variables.cpp
  Status place_shared(const std::vector<const ptx::Function*>& functions);
  void place_parameters(const ptx::Function& function);
  Status place_variables(const ptx::Function& function);
  Status alias_call_parameters(const ptx::Function& function);
  std::uint32_t module_variable(const ptx::Variable& variable);
  const VariablePlace* find_place(std::string_view name) const;
  std::uint32_t allocate_frame(std::uint64_t bytes, std::uint32_t alignment);
  std::uint32_t allocate_shared(std::uint64_t bytes, std::uint32_t alignment);

  // decoder_operands.cpp. What rules begin with, once they have taken the modifiers that they know:
  /// The last type among the modifiers. Error: parse, "… has no type", with who lacks it.
  Result<Type> last_type(std::string_view who = "the instruction");
  /// No modifier is left, and there are `least` to `most` operands.
  Status finish(std::size_t least, std::size_t most) const;
  Status finish(std::size_t count) const { return finish(count, count); }
  /// As finish, for a destination of type `d` and one source for each of `sources`; reads them in this order.
  Result<OperandRefs> operands(Type d, std::span<const Type> sources);
  Result<OperandRefs> operands(Type d, std::initializer_list<Type> sources) {
    return operands(d, std::span(sources.begin(), sources.size()));
  }
  /// The same for `d|p, …`, where p may be left out.
  Result<OperandRefs> operands_with_predicate(Type d, std::initializer_list<Type> sources);
  /// Sources from the operand at `first` on.
  Status read_sources(std::size_t first, std::span<const Type> types, OperandRefs& refs);
  Result<Ref> second_destination();
  Status expect_operands(std::size_t least, std::size_t most) const;
  Status expect_operands(std::size_t count) const { return expect_operands(count, count); }
  [[nodiscard]] const ptx::Operand& operand(std::size_t i) const { return statement_->operands[i]; }
  [[nodiscard]] std::size_t operand_count() const { return statement_->operands.size(); }
  Status finish_modifiers() const;

  static Width register_width(Type type);
  Width width_of(Ref ref) const;
  /// A source of exactly the type's register width; special registers and addresses go through a temporary.
  Result<Ref> source(const ptx::Operand& operand, Type type);
  /// A register of any width (cvt, st); constants take the type's.
  Result<Ref> loose_source(const ptx::Operand& operand, Type type);
  Result<Ref> predicate(const ptx::Operand& operand);
  Result<Ref> destination(const ptx::Operand& operand, Width width);
  Result<Ref> loose_destination(const ptx::Operand& operand);
  Result<Ref> named_destination(std::string_view name, Width width);
  Result<Ref> symbol_source(const ptx::Operand& operand, Type type);
  Result<Ref> special_source(std::string_view name, Type type);
  Result<std::uint64_t> immediate(const ptx::Operand& operand) const;

  // decoder_drafts.cpp
  Ref temporary(Width width);
  Ref constant(Width width, std::uint64_t low, std::uint64_t high = 0);
  Ref address_constant(std::uint32_t variable, std::int64_t addend, Width width);
  Ref shared_constant(std::uint32_t address, Width width);
  InstructionDraft& emit(Opcode opcode, InstructionClass kind);
  /// With these operands; the instruction's width is the destination's.
  InstructionDraft& emit(Opcode opcode, InstructionClass kind, const OperandRefs& refs);
  /// Appends a lane operation. One draft per statement is counted: the first that is not a mere register resize.
  Status emit_lane(std::string_view name, Ref d, Ref a, Ref b = {}, Ref c = {}, Ref e = {});
  Status emit_lane(std::string_view name, const OperandRefs& refs) {
    return emit_lane(name, refs.d, refs.a, refs.b, refs.c, refs.e);
  }
  Status emit_resize(Ref d, Ref a, bool sign_extend);

  /// Appends a row to a table of `code_`; its index.
  template <class T>
  static std::uint32_t append(std::vector<T>& table, const T& row) {
    table.push_back(row);
    return table.size() - 1;
  }

  // decoder_addresses.cpp
  struct Address {
    Ref base;  ///< b64 or b32 register, or none
    std::int64_t offset = 0;
    Space space = Space::generic;
  };
  /// `[…]` in the given space; a named variable fixes the space.
  Result<Address> address(const ptx::Operand& operand, Space space);
  /// How wide an address's base is: 0 for none, 4, or 8 (also constants).
  [[nodiscard]] std::uint8_t address_bytes(Ref base) const;
  /// The whole address of `[…]` in a b64 register.
  Result<Ref> address_register(const ptx::Operand& operand, Space space);
  Result<Space> take_space(Space fallback);
  Status take_semantics(Semantics& semantics, Scope& scope, Semantics fallback);
  L1Use take_cache_hints();
  /// 2, 4 or 8 for .v2, .v4, .v8; 1 without.
  std::uint8_t take_elements();

  // decode_arithmetic.cpp
  Status arithmetic();
  Status arithmetic_with_carry(std::string_view operation, Type type);
  Status floating_arithmetic(Type type);
  Status pair_arithmetic();
  Status plain_lanes();
  Status division();
  Status logic();
  Status set_predicate();
  Status set_value();
  Result<Ref> compare(std::string_view relation, bool ftz, Type type, const ptx::Operand& a, const ptx::Operand& b);
  using HalfOutcomes = std::array<Ref, 2>;
  Result<HalfOutcomes> compare_halves(std::string_view relation, bool ftz, Type type);
  Status set_halves(std::string_view relation, bool ftz, Type to, Type from, Ref d);
  Status select();
  Status select_by_sign();
  Status lop3();
  Status post(std::string_view operation, Type type, Ref d, Ref result);
  // decode_convert.cpp
  Status convert();
  Status convert_packed(Type to, Type from, std::string_view rounding, bool relu, bool satfinite);
  Status move();
  Status pack(const ptx::Operand& from, Type type);
  Status unpack(const ptx::Operand& to, Type type);
  // decode_memory.cpp
  Status load();
  Status store();
  Status atomic();
  Status convert_address();
  Status is_space();
  Status map_shared();
  Status hint();
  Status grid_dependency();
  [[nodiscard]] Status check_moved(Type type, int elements) const;
  Result<Ref> vector_list(InstructionDraft& draft, const ptx::Operand& operand, const MemoryAccess& access, Type type,
                          bool defines);
  // decode_control.cpp
  Status branch();
  Status branch_indexed();
  Status call();
  Status device_call(std::string_view name);
  Status simple();
  Status barrier();
  Status fence();
  // decode_warp.cpp
  Status shuffle();
  Status vote();
  Status match();
  Status reduce_lanes();
  Status active_mask();
  Status elect();
  // decode_async.cpp
  Status copy_async();
  Status bulk_copy(bool reduces);
  Status reduction_operation(BulkAccess& access);
  Status bulk_reduction(BulkAccess& access);
  Status mbarrier();
  Status store_async();
  // decode_matrix.cpp
  Status matrix_move();
  Status sparsity(std::size_t first, MatrixForm& form, std::vector<Ref>& list);
  Status mma();
  Status wgmma();
  Status wgmma_product();
  // decode_tensor.cpp
  Status tensor_copy(bool reduces);
  Status tensor_address(const ptx::Operand& operand, std::uint8_t rank, InstructionDraft& draft);
  Status tensor_map();
  // decode_tensor_core.cpp
  Status tensor_core();
  Result<TensorCoreForm> take_blocks();
  Status tmem_allocation(TmemAllocation action);
  Status tmem_move(bool loads);
  Status tmem_commit();
  Status tmem_copy();
  Status tmem_product();
  Status product_modifiers(TensorCoreForm& form);
  Result<MatrixType> matrix_type(Type type) const;

  std::string_view source_;
  const ptx::Module& module_;
  Code& code_;
  std::vector<FunctionDraft> done_;
  std::vector<std::string_view> active_;  ///< functions being decoded: recursion is refused
  std::map<std::string_view, std::vector<VariablePlace>>
      function_parameters_;  ///< of device functions: results, then arguments
  std::map<std::string_view, std::uint32_t> module_variables_;
  std::map<std::tuple<Width, std::uint64_t, std::uint64_t>, std::uint32_t> constants_;
  std::uint64_t shared_used_ = 0;
  std::uint32_t shared_alignment_ = 16;
  std::uint8_t tensor_blocks_ = 0;  ///< the .cta_group of the kernel's tcgen05 instructions, once there was one
  std::map<std::string_view, VariablePlace> module_places_;

  // Of the function being decoded.
  const ptx::Function* function_ = nullptr;
  FunctionDraft draft_;
  std::map<ScopedName, std::uint32_t> single_registers_;
  struct Bank {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  std::map<ScopedName, Bank> register_banks_;
  std::map<ScopedName, VariablePlace> places_;
  Ref carry_;
  // Of the statement being decoded.
  const ptx::Statement* statement_ = nullptr;
  Modifiers modifiers_{""};
  Ref guard_;
  bool counted_ = false;  ///< one draft of the statement counts as its instruction
};

}  // namespace stitch::emulator
