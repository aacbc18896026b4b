#pragma once

#include <cstdint>

/// The forms of tcgen05 (PTX ISA, "TensorCore 5th Generation Family Instructions"), as the modifiers of an instruction
/// give them. What the descriptors in its operands add is known only when it runs (run/product_descriptor.h).
namespace stitch::emulator {

/// Which words of tensor memory a register of tcgen05.ld or .st holds.
enum class TmemShape : std::uint8_t { lanes32x32b, lanes16x64b, lanes16x128b, lanes16x256b, lanes16x32bx2 };

/// What tcgen05.mma multiplies; those after i8 scale blocks of their elements.
enum class ProductKind : std::uint8_t { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 };

constexpr bool scales_blocks(ProductKind kind) { return kind >= ProductKind::mxf8f6f4; }

/// To which warps' lanes tcgen05.cp writes a row: once, or again in the lanes of other warps.
enum class TmemBroadcast : std::uint8_t { none, pairs_02_13, pairs_01_23, all };

/// How tcgen05.cp widens elements to 8 bits: 16 of 6 bits and 32 bits of padding, or 16 of 4 bits and 64.
enum class TmemWidening : std::uint8_t { none, from_6_bits, from_4_bits };

enum class TmemAllocation : std::uint8_t { allocate, free, relinquish };

/// One tcgen05 instruction; the fields that its opcode does not concern keep their defaults.
struct TensorCoreForm {
  std::uint8_t blocks = 1;  ///< .cta_group: of the block's own tensor core, or of a pair's

  // ld, st
  TmemShape shape = TmemShape::lanes32x32b;
  std::uint16_t registers = 1;
  bool packs = false;            ///< two columns' lower halves in a register (.pack::16b, .unpack::16b)
  std::uint32_t half_split = 0;  ///< 16x32bx2: columns from the first half's to the second half's

  // cp
  std::uint16_t rows = 0;
  std::uint16_t row_bits = 0;
  TmemBroadcast broadcast = TmemBroadcast::none;
  TmemWidening widening = TmemWidening::none;

  // mma
  ProductKind kind = ProductKind::f16;
  bool a_in_tmem = false;
  bool weight_stationary = false;  ///< .ws
  bool sparse = false;             ///< .sp
  std::uint8_t scales = 0;         ///< per row of a block-scaled operand: .scale_vec
  std::uint8_t disable_words = 0;  ///< registers of disable-output-lane

  // commit
  bool multicast = false;
};

}  // namespace stitch::emulator
