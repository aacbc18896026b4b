#include <cstring>

#include "emulator/run/interpreter.h"

namespace stitch::emulator {

std::unique_ptr<Unit> Interpreter::make_unit(std::uint32_t first_ordinal) {
  std::unique_ptr<Unit> unit;
  if (spare_.empty()) {
    unit = std::make_unique<Unit>();
  } else {
    unit = std::move(spare_.back());
    spare_.pop_back();
    auto blocks = std::move(unit->blocks);
    *unit = Unit{};
    unit->blocks = std::move(blocks);
  }
  const std::uint32_t count = context_.blocks_per_unit;
  const bool has_tensor_memory = !code_.tensor_cores.empty();
  unit->clock = std::make_unique<UnitClock>(first_ordinal, count, context_.warps_per_block, has_tensor_memory);
  if (has_tensor_memory) unit->tensor_order = std::make_unique<TensorOrder>(unit->clock->agents());
  unit->alive_threads = count * context_.threads_per_block;
  while (unit->blocks.size() < count) unit->blocks.push_back(std::make_unique<Block>());
  for (std::uint32_t i = 0; i < count; ++i) {
    unit->blocks[i]->rank = i;
    start_block(*unit, *unit->blocks[i], first_ordinal + i);
  }
  counters_.blocks += count;
  return unit;
}

void Interpreter::start_block(Unit& unit, Block& block, std::uint32_t ordinal) {
  const Dim3& grid = context_.config.grid;
  block.ordinal = ordinal;
  block.linear = context_.blocks[ordinal];
  block.index = grid.index_of(block.linear);
  block.alive_threads = context_.threads_per_block;
  block.shared.reset(block.rank, context_.shared_bytes, code_.shared_granule);
  block.tensor.reset();
  block.l1.reset(l1_share(grid.count(), context_.threads_per_block, context_.shared_bytes));
  block.barriers = {};
  block.mbarriers.clear();
  block.proxy_fence = 0;
  block.remote_accesses.clear();
  block.cluster_passed = 0;
  block.cluster_first_arrival = 0;
  const std::uint32_t warps = context_.warps_per_block;
  block.registers.reserve(std::size_t{warps} * code_.register_bytes);
  const std::size_t local_per_warp = std::size_t{code_.local_bytes} * 32;
  block.local.assign(local_per_warp * warps, std::byte{0xCD});
  block.local_written.assign(local_per_warp * warps, 0);
  // Registers that may be read before they are written hold the same bytes every time.
  if (!code_.tracked_registers.empty())
    std::memset(block.registers.data(), 0xCD, std::size_t{warps} * code_.register_bytes);
  block.warps.resize(warps);
  for (std::uint32_t i = 0; i < warps; ++i) start_warp(unit, block, i);
}

/// Every field is as new, except that vectors keep their memory.
void Interpreter::start_warp(const Unit& unit, Block& block, std::uint32_t index) {
  Warp fresh;
  fresh.splits = std::move(block.warps[index].splits);
  fresh.copies = std::move(block.warps[index].copies);
  fresh.splits.clear();
  fresh.copies.clear();
  fresh.index = index;
  fresh.agent = unit.clock->agent(block.rank, index);
  const std::uint32_t left = context_.threads_per_block - index * 32;
  fresh.launched = left >= 32 ? 0xFFFFFFFFU : (1U << left) - 1;
  fresh.alive = fresh.launched;
  const std::size_t local_bytes = std::size_t{code_.local_bytes} * 32;
  fresh.registers = block.registers.data() + std::size_t{index} * code_.register_bytes;
  fresh.local = block.local.data() + local_bytes * index;
  fresh.local_written = block.local_written.data() + local_bytes * index;
  for (const TrackedRegister& tracked : code_.tracked_registers) std::memset(fresh.registers + tracked.written, 0, 4);
  fresh.splits.push_back({code_.entry, fresh.launched, SplitState::ready, false, 0, 0});
  block.warps[index] = std::move(fresh);
}

}  // namespace stitch::emulator
