#include "emulator/decode/register_allocation.h"

#include <algorithm>
#include <array>

namespace stitch::emulator {
namespace {

constexpr std::uint32_t nowhere = 0xFFFFFFFF;

template <class F>
void for_each_use(const InstructionDraft& draft, F&& visit) {
  for (const Ref& ref : {draft.guard, draft.a, draft.b, draft.c, draft.e}) {
    if (ref.kind == Ref::Kind::reg) visit(ref.index);
  }
  for (std::size_t i = draft.list_reads_definitions ? 0 : draft.list_defines; i < draft.list.size(); ++i) {
    if (draft.list[i].kind == Ref::Kind::reg) visit(draft.list[i].index);
  }
}

template <class F>
void for_each_definition(const InstructionDraft& draft, F&& visit) {
  for (const Ref& ref : {draft.d, draft.d2}) {
    if (ref.kind == Ref::Kind::reg) visit(ref.index);
  }
  for (std::size_t i = 0; i < draft.list_defines; ++i) {
    if (draft.list[i].kind == Ref::Kind::reg) visit(draft.list[i].index);
  }
}

bool falls_through(const InstructionDraft& draft) {
  switch (draft.instruction.opcode) {
    case Opcode::branch:
    case Opcode::branch_indexed:
    case Opcode::exit:
    case Opcode::trap:
    case Opcode::function_return: return draft.guard.exists();
    default: return true;
  }
}

class BitSet {
 public:
  explicit BitSet(std::size_t bits) : words_((bits + 63) / 64) {}
  void set(std::uint32_t i) { words_[i / 64] |= std::uint64_t{1} << (i % 64); }
  [[nodiscard]] bool test(std::uint32_t i) const { return ((words_[i / 64] >> (i % 64)) & 1) != 0; }
  /// this |= (other & ~without); whether anything changed.
  bool merge(const BitSet& other, const BitSet* without) {
    bool changed = false;
    for (std::size_t i = 0; i < words_.size(); ++i) {
      const std::uint64_t added = other.words_[i] & ~(without != nullptr ? without->words_[i] : 0) & ~words_[i];
      words_[i] |= added;
      changed |= added != 0;
    }
    return changed;
  }
  template <class F>
  void for_each(F&& visit) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      for (std::uint64_t word = words_[i]; word != 0; word &= word - 1) {
        visit(i * 64 + __builtin_ctzll(word));
      }
    }
  }

 private:
  std::vector<std::uint64_t> words_;
};

struct BasicBlock {
  std::uint32_t first = 0;
  std::uint32_t last = 0;  ///< exclusive
  std::vector<std::uint32_t> successors;
  BitSet read_first;  ///< read before any unconditional write in the block
  BitSet written;
  BitSet live_in;
  BitSet live_out;

  explicit BasicBlock(std::size_t registers)
      : read_first(registers), written(registers), live_in(registers), live_out(registers) {}
};

class Liveness {
 public:
  Liveness(const FunctionDraft& function, const std::vector<std::vector<std::uint32_t>>& tables)
      : function_(function), tables_(tables) {
    split();
    for (BasicBlock& block : blocks_) summarise(block);
    solve();
  }

  [[nodiscard]] const std::vector<BasicBlock>& blocks() const { return blocks_; }

 private:
  void targets_of(const InstructionDraft& draft, std::vector<std::uint32_t>& into) const {
    if (draft.instruction.opcode == Opcode::branch) into.push_back(draft.instruction.target);
    if (draft.instruction.opcode == Opcode::branch_indexed) {
      const auto& table = tables_[draft.instruction.target];
      into.insert(into.end(), table.begin(), table.end());
    }
  }

  void split() {
    const auto& drafts = function_.drafts;
    std::vector<char> leader(drafts.size() + 1, 0);
    leader[0] = 1;
    std::vector<std::uint32_t> targets;
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      targets.clear();
      targets_of(drafts[i], targets);
      for (const std::uint32_t target : targets) leader[target] = 1;
      if (!targets.empty() || !falls_through(drafts[i])) leader[i + 1] = 1;
    }
    std::vector<std::uint32_t> block_at(drafts.size(), 0);
    for (std::uint32_t i = 0; i < drafts.size(); ++i) {
      if (leader[i] != 0) {
        blocks_.emplace_back(function_.registers.size());
        blocks_.back().first = i;
      }
      block_at[i] = blocks_.size() - 1;
      blocks_.back().last = i + 1;
    }
    for (BasicBlock& block : blocks_) {
      targets.clear();
      targets_of(drafts[block.last - 1], targets);
      if (falls_through(drafts[block.last - 1]) && block.last < drafts.size()) targets.push_back(block.last);
      for (const std::uint32_t target : targets) block.successors.push_back(block_at[target]);
    }
  }

  void summarise(BasicBlock& block) const {
    for (std::uint32_t i = block.first; i < block.last; ++i) {
      const InstructionDraft& draft = function_.drafts[i];
      for_each_use(draft, [&](std::uint32_t r) {
        if (!block.written.test(r)) block.read_first.set(r);
      });
      for_each_definition(draft, [&](std::uint32_t r) {
        // A guarded write leaves lanes unwritten, except in temporaries: their readers have the same guard.
        if (!draft.guard.exists() || function_.registers[r].name.empty()) block.written.set(r);
      });
    }
  }

  void solve() {
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t i = blocks_.size(); i-- > 0;) {
        BasicBlock& block = blocks_[i];
        for (const std::uint32_t next : block.successors)
          changed |= block.live_out.merge(blocks_[next].live_in, nullptr);
        changed |= block.live_in.merge(block.read_first, nullptr);
        changed |= block.live_in.merge(block.live_out, &block.written);
      }
    }
  }

  const FunctionDraft& function_;
  const std::vector<std::vector<std::uint32_t>>& tables_;
  std::vector<BasicBlock> blocks_;
};

struct Interval {
  std::uint32_t reg = 0;
  std::uint32_t begin = nowhere;
  std::uint32_t end = 0;
};

/// Positions are twice the instruction index: sources are read at 2i, destinations written at 2i + 1.
std::vector<Interval> live_intervals(const FunctionDraft& function, const Liveness& liveness) {
  std::vector<Interval> intervals(function.registers.size());
  const auto cover = [&](std::uint32_t r, std::uint32_t position) {
    intervals[r].begin = std::min(intervals[r].begin, position);
    intervals[r].end = std::max(intervals[r].end, position);
  };
  for (const BasicBlock& block : liveness.blocks()) {
    block.live_in.for_each([&](std::uint32_t r) { cover(r, 2 * block.first); });
    block.live_out.for_each([&](std::uint32_t r) { cover(r, 2 * block.last); });
    for (std::uint32_t i = block.first; i < block.last; ++i) {
      for_each_use(function.drafts[i], [&](std::uint32_t r) { cover(r, 2 * i); });
      for_each_definition(function.drafts[i], [&](std::uint32_t r) { cover(r, 2 * i + 1); });
    }
  }
  // The return address is written by callers.
  if (function.return_address.exists()) {
    cover(function.return_address.index, 0);
    cover(function.return_address.index, 2 * function.drafts.size());
  }
  for (std::uint32_t r = 0; r < intervals.size(); ++r) intervals[r].reg = r;
  std::erase_if(intervals, [](const Interval& interval) { return interval.begin == nowhere; });
  std::ranges::sort(intervals, {}, [](const Interval& interval) { return std::pair(interval.begin, interval.reg); });
  return intervals;
}

/// Rows of one width: a free list, and the intervals that hold a row now.
struct Pool {
  std::vector<std::uint32_t> free;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> held;  ///< (end, row), a heap: earliest end first
  std::uint32_t rows = 0;

  std::uint32_t take(const Interval& interval) {
    while (!held.empty() && held.front().first < interval.begin) {
      free.push_back(held.front().second);
      std::ranges::pop_heap(held, std::greater{});
      held.pop_back();
    }
    std::uint32_t row = 0;
    if (free.empty()) {
      row = rows++;
    } else {
      row = free.back();
      free.pop_back();
    }
    held.emplace_back(interval.end, row);
    std::ranges::push_heap(held, std::greater{});
    return row;
  }
};

}  // namespace

RegisterAllocation allocate_registers(const FunctionDraft& function,
                                      const std::vector<std::vector<std::uint32_t>>& tables, std::uint32_t base) {
  RegisterAllocation result;
  result.slots.assign(function.registers.size(), no_slot);
  const Liveness liveness(function, tables);
  constexpr std::array widths = {Width::b128, Width::b64, Width::b32, Width::b16, Width::predicate};
  std::array<Pool, 6> pools;
  const auto pool_of = [&pools](Width width) -> Pool& { return pools[static_cast<std::size_t>(width)]; };
  std::vector<std::uint32_t> rows(function.registers.size(), nowhere);
  for (const Interval& interval : live_intervals(function, liveness)) {
    rows[interval.reg] = pool_of(function.registers[interval.reg].width).take(interval);
  }
  std::uint32_t offset = base;
  for (const Width width : widths) {
    for (std::uint32_t r = 0; r < rows.size(); ++r) {
      if (rows[r] == nowhere || function.registers[r].width != width) continue;
      result.slots[r] = offset + rows[r] * row_bytes(width);
    }
    offset += pool_of(width).rows * row_bytes(width);
  }
  result.end = (offset + 63) / 64 * 64;
  liveness.blocks().front().live_in.for_each([&](std::uint32_t r) {
    if (!function.registers[r].name.empty()) result.tracked.push_back(r);
  });
  return result;
}

}  // namespace stitch::emulator
