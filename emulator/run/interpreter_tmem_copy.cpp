#include "emulator/run/interpreter.h"
#include "emulator/run/tmem_use.h"

namespace stitch::emulator {
namespace {

/// The lanes that row `row` of a copy goes to: a bit for each 32 lanes, within which it is lane `row` modulo 32, or of
/// 4 rows the first lane of each 32.
struct CopiedRow {
  std::uint32_t quarters = 0;
  std::uint32_t lane = 0;
};

CopiedRow lanes_of(const TensorCoreForm& form, std::uint32_t row) {
  if (form.rows == 4) return {1U << row, 0};
  const std::uint32_t quarter = row / 32;
  switch (form.broadcast) {
    case TmemBroadcast::all: return {0xF, row % 32};
    case TmemBroadcast::pairs_02_13: return {0x5U << quarter, row % 32};
    case TmemBroadcast::pairs_01_23: return {0x3U << (2 * quarter), row % 32};
    case TmemBroadcast::none: break;
  }
  return {1U << quarter, row % 32};
}

}  // namespace

/// a = address, b = descriptor. Of a pair, each block's tensor memory takes from its own shared memory.
Interpreter::Step Interpreter::tmem_copy(const Instruction& in, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) != 0 && check_pairing(code_.tensor_cores[in.detail], lane)) copy_to_tmem(in, lane);
  }
  ++unit_->events;
  return Step::next;
}

void Interpreter::copy_to_tmem(const Instruction& in, std::uint32_t lane) {
  const TensorCoreForm& form = code_.tensor_cores[in.detail];
  const auto address = static_cast<std::uint32_t>(row_of<std::uint64_t>(in.a)[lane]);
  const TileDescriptor tile = TileDescriptor::of_tensor_core(row_of<std::uint64_t>(in.b)[lane]);
  if (!tile.covers(form.row_bits / 8, false)) {
    report(Detector::invalid_use, lane, [] {
      return std::string("tcgen05.cp has a descriptor that means nothing, or whose swizzle does not cover a row");
    });
    return;
  }
  TmemUse use(TensorAccess::core, "tcgen05.cp", unit_->clock->now());
  unit_->clock->begin_tensor_work(warp_->agent);
  for (std::uint32_t part = 0; part < form.blocks; ++part) {
    Block& block = pair_block(form.blocks, part);
    if (&block != block_) note_remote(block);
    constexpr std::uint32_t word_bits = 32;
    read_tile_for_tensor_core(block, tile, false, form.rows, form.row_bits / word_bits, word_bits, lane);
    for (std::uint32_t row = 0; row < form.rows; ++row) {
      const CopiedRow to = lanes_of(form, row);
      for (std::uint32_t i = 0; i < form.row_bits / word_bits; ++i) {
        const std::uint32_t from = tile.address(row, i, word_bits, false);
        std::uint32_t word = 0;
        if (from < shared_base || !block.shared.contains(from - shared_base, 4)) continue;
        std::memcpy(&word, block.shared.data() + (from - shared_base), 4);
        for (std::uint32_t quarter = 0; quarter < 4; ++quarter) {
          if (((to.quarters >> quarter) & 1) == 0) continue;
          const TmemPlace at{(address >> 16) + quarter * 32 + to.lane, (address & 0xFFFF) + i};
          touch_tmem(use, block, at, true);
          if (at.lane < TensorMemory::lanes && block.tensor.is_taken(at.column)) {
            block.tensor.write(at.lane, at.column, word);
          }
        }
      }
    }
  }
  report_tmem(use, lane);
  unit_->clock->advance();
}

/// a = address: rows of 256 bits move down by one lane.
Interpreter::Step Interpreter::tmem_shift(const Instruction& in, std::uint32_t lanes) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    if (((lanes >> lane) & 1) != 0 && check_pairing(code_.tensor_cores[in.detail], lane)) shift_tmem(in, lane);
  }
  ++unit_->events;
  return Step::next;
}

/// In each 32 lanes from the address's on, all but the last take what the next lane holds.
void Interpreter::shift_tmem(const Instruction& in, std::uint32_t lane) {
  const TensorCoreForm& form = code_.tensor_cores[in.detail];
  const auto address = static_cast<std::uint32_t>(row_of<std::uint64_t>(in.a)[lane]);
  if (const std::uint32_t first = address >> 16; first % 32 != 0) {
    report(Detector::invalid_use, lane,
           [&] { return fmt::format("tcgen05.shift from lane {}, which is no multiple of 32", first); });
    return;
  }
  TmemUse use(TensorAccess::core, "tcgen05.shift", unit_->clock->now());
  unit_->clock->begin_tensor_work(warp_->agent);
  constexpr std::uint32_t row_words = 8;
  for (std::uint32_t part = 0; part < form.blocks; ++part) {
    Block& block = pair_block(form.blocks, part);
    if (&block != block_) note_remote(block);
    for (std::uint32_t i = 0; i < row_words; ++i) {
      for (std::uint32_t row = address >> 16; row + 1 < TensorMemory::lanes; ++row) {
        const TmemPlace to{row, (address & 0xFFFF) + i};
        if (row % 32 == 31) continue;
        touch_tmem(use, block, to, true);
        const std::uint32_t word = read_tmem(use, block, {row + 1, to.column}, false);
        if (block.tensor.is_taken(to.column)) block.tensor.write(to.lane, to.column, word);
      }
    }
  }
  report_tmem(use, lane);
  unit_->clock->advance();
}

}  // namespace stitch::emulator
