#include <array>
#include <cstring>

#include "emulator/decode/decoder.h"
#include "emulator/lanes/lane_ops.h"

/// What decoding makes: temporaries, constant rows and drafts of instructions.
namespace stitch::emulator {
namespace {

std::uint64_t low_bits(std::uint64_t value, Width width) {
  const int bits = width_bits(width);
  return bits >= 64 ? value : value & ((std::uint64_t{1} << bits) - 1);
}

template <class T>
void fill_row(std::vector<std::byte>& rows, std::size_t offset, const T& value) {
  for (int lane = 0; lane < warp_lanes; ++lane) {
    std::memcpy(rows.data() + offset + lane * sizeof(T), &value, sizeof(T));
  }
}

}  // namespace

Ref Decoder::temporary(Width width) {
  const std::uint32_t index = draft_.registers.size();
  draft_.registers.push_back({width, {}});
  return {Ref::Kind::reg, index};
}

Ref Decoder::constant(Width width, std::uint64_t low, std::uint64_t high) {
  low = low_bits(low, width);
  const auto [entry, added] =
      constants_.emplace(std::tuple(width, low, high), static_cast<std::uint32_t>(code_.constants.size()));
  const std::uint32_t offset = entry->second;
  if (added) {
    code_.constants.resize(offset + (row_bytes(width) + 63) / 64 * 64);
    switch (width) {
      case Width::none: break;
      case Width::predicate: {
        const std::uint32_t mask = (low & 1) != 0 ? 0xFFFFFFFFU : 0U;
        std::memcpy(code_.constants.data() + offset, &mask, sizeof(mask));
        break;
      }
      case Width::b16: fill_row(code_.constants, offset, static_cast<std::uint16_t>(low)); break;
      case Width::b32: fill_row(code_.constants, offset, static_cast<std::uint32_t>(low)); break;
      case Width::b64: fill_row(code_.constants, offset, low); break;
      case Width::b128: fill_row(code_.constants, offset, std::array{low, high}); break;
    }
  }
  return {Ref::Kind::constant, offset};
}

Ref Decoder::address_constant(std::uint32_t variable, std::int64_t addend, Width width) {
  for (const AddressConstant& known : code_.address_constants) {
    if (known.variable == variable && known.addend == addend) return {Ref::Kind::constant, known.offset};
  }
  const std::uint32_t offset = code_.constants.size();
  code_.constants.resize(offset + row_bytes(width));
  code_.address_constants.push_back({offset, variable, addend});
  return {Ref::Kind::constant, offset};
}

Ref Decoder::shared_constant(std::uint32_t address, Width width) {
  for (const SharedConstant& known : code_.shared_constants) {
    if (known.address == address && known.width == width) return {Ref::Kind::constant, known.offset};
  }
  const std::uint32_t offset = code_.constants.size();
  code_.constants.resize(offset + (row_bytes(width) + 63) / 64 * 64);
  if (width == Width::b32) {
    fill_row(code_.constants, offset, address);
  } else {
    fill_row(code_.constants, offset, std::uint64_t{address});
  }
  code_.shared_constants.push_back({offset, address, width});
  return {Ref::Kind::constant, offset};
}

InstructionDraft& Decoder::emit(Opcode opcode, InstructionClass kind) {
  InstructionDraft& draft = draft_.drafts.emplace_back();
  draft.instruction.opcode = opcode;
  draft.instruction.kind = kind;
  draft.instruction.counted = false;
  draft.guard = guard_;
  if (statement_ != nullptr) {
    draft.instruction.guard_inverted = statement_->guard_inverted;
    draft.scope = statement_->scope;
    draft.origin = {statement_->line, statement_->source_file, statement_->source_line};
  } else {
    draft.origin.ptx_line = function_->line;
  }
  if (opcode != Opcode::special && !counted_) draft.instruction.counted = counted_ = true;
  return draft;
}

InstructionDraft& Decoder::emit(Opcode opcode, InstructionClass kind, const OperandRefs& refs) {
  InstructionDraft& draft = emit(opcode, kind);
  draft.instruction.d_width = width_of(refs.d);
  draft.d = refs.d;
  draft.d2 = refs.d2;
  draft.a = refs.a;
  draft.b = refs.b;
  draft.c = refs.c;
  draft.e = refs.e;
  return draft;
}

Status Decoder::emit_lane(std::string_view name, Ref d, Ref a, Ref b, Ref c, Ref e) {
  const int row = find_lane_op(name);
  if (row < 0) return unsupported(fmt::format("'{}' (operation {})", statement_->opcode, name));
  const LaneOp& op = lane_ops(HostIsa::portable)[row];
  const bool was_counted = counted_;
  InstructionDraft& draft = emit(Opcode::lane, op.kind);
  // Changing a register's width is no instruction of its own.
  if (name.starts_with("resize.") && !was_counted) draft.instruction.counted = counted_ = false;
  draft.instruction.lane_op = row;
  draft.instruction.d_width = op.d;
  draft.d = d;
  draft.a = a;
  draft.b = b;
  draft.c = c;
  draft.e = e;
  return {};
}

Status Decoder::emit_resize(Ref d, Ref a, bool sign_extend) {
  const Width to = width_of(d);
  const Width from = width_of(a);
  if (to == from) {
    const char* name = to == Width::b16 ? "mov.b16" : to == Width::b32 ? "mov.b32" : "mov.b64";
    return emit_lane(name, d, a);
  }
  if (width_bits(to) < width_bits(from)) {
    return emit_lane(fmt::format("resize.b{}.b{}", width_bits(to), width_bits(from)), d, a);
  }
  return emit_lane(fmt::format("resize.b{}.{}{}", width_bits(to), sign_extend ? 's' : 'u', width_bits(from)), d, a);
}

}  // namespace stitch::emulator
