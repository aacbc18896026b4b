#include <algorithm>

#include "emulator/run/interpreter.h"

namespace stitch::emulator {
namespace {

/// Whether a register's contents matter at once: they address memory, are stored or decide a branch. Arithmetic on a
/// register that was never written is no defect by itself: compilers speculate it past a branch and drop the result.
bool observes_registers(InstructionClass kind) {
  switch (kind) {
    case InstructionClass::integer:
    case InstructionClass::f32:
    case InstructionClass::f64:
    case InstructionClass::f16:
    case InstructionClass::special_function:
    case InstructionClass::conversion:
    case InstructionClass::move:
    case InstructionClass::shuffle: return false;
    default: return true;
  }
}

}  // namespace

void Interpreter::check_tracked(const Instruction& in, std::uint32_t lanes) {
  const TrackedUse& use = code_.tracked_uses[pc_];
  const bool observed = observes_registers(in.kind);
  for (const std::uint32_t index : use.reads) {
    if (!observed) break;
    const TrackedRegister& tracked = code_.tracked_registers[index];
    const std::uint32_t missing = lanes & ~mask_of(tracked.written);
    if (missing == 0) continue;
    report(Detector::uninitialised_read, std::countr_zero(missing),
           [&] { return fmt::format("register {} was never written", tracked.name); });
  }
  for (const std::uint32_t index : use.writes) set_mask(code_.tracked_registers[index].written, lanes, 0xFFFFFFFF);
}

/// Accumulators of a wgmma that was not waited for must not be touched.
void Interpreter::check_products(const Instruction& in, std::uint32_t lanes) {
  if (in.opcode == Opcode::wgmma || in.opcode == Opcode::wgmma_wait) return;
  const auto in_flight = [this](Slot slot) {
    return slot != no_slot &&
           std::ranges::find(warp_->products, slot, &Warp::InFlightRegister::slot) != warp_->products.end();
  };
  bool touched = false;
  for (const Slot slot : {in.d, in.a, in.b, in.c, in.e}) touched |= in_flight(slot);
  for (std::uint32_t i = 0; i < in.list_count; ++i) touched |= in_flight(code_.lists[in.list + i]);
  if (!touched) return;
  report(Detector::async_before_wait, std::countr_zero(lanes),
         [] { return std::string("a register of a wgmma is used before wgmma.wait_group"); });
}

ThreadPlace Interpreter::place(std::uint32_t lane) const {
  const Dim3& shape = context_.config.block;
  const std::uint32_t thread = warp_->index * 32 + lane;
  return {block_->index,
          {thread % shape.x, thread / shape.x % shape.y, thread / (shape.x * shape.y)},
          block_->linear * context_.threads_per_block + thread};
}

std::string Interpreter::name_agent(const Unit& unit, std::uint32_t agent) const {
  const std::uint32_t block = unit.clock->block_of(agent);
  const std::uint32_t warp = agent - unit.clock->agent(block, 0);
  const std::string of_block = unit.blocks.size() > 1 ? fmt::format(" of block rank {}", block) : std::string();
  if (unit.clock->is_tensor_agent(agent)) {
    return fmt::format("tcgen05 of warp {}{}", agent - unit.clock->tensor_agent(unit.clock->agent(block, 0)), of_block);
  }
  if (agent == unit.clock->async_agent(block)) return fmt::format("an asynchronous copy{}", of_block);
  return fmt::format("warp {}{}", warp, of_block);
}

void Interpreter::report_deadlock(Unit& unit) {
  unit_ = &unit;
  for (const auto& block : unit.blocks) {
    for (Warp& warp : block->warps) {
      for (const WarpSplit& f : warp.splits) {
        if (warp.alive == 0) continue;
        use(*block, warp);
        pc_ = f.state == SplitState::polling && f.pc > 0 ? f.pc - 1 : f.pc;
        const char* what = f.state == SplitState::barrier     ? "wait at a barrier that not all threads reach"
                           : f.state == SplitState::cluster   ? "wait at a cluster barrier that not all blocks reach"
                           : f.state == SplitState::gathering ? "wait for other lanes of their warp"
                           : f.state == SplitState::columns   ? "wait for columns of tensor memory that nobody frees"
                                                              : "spin on memory that nobody will change";
        report(Detector::deadlock, std::countr_zero(f.lanes),
               [&] { return fmt::format("lanes 0x{:08x} of warp {} {}", f.lanes, warp.index, what); });
      }
    }
  }
}

}  // namespace stitch::emulator
