#include "tuning/programs/memory_plan.h"

#include <algorithm>

#include "api/program_lifetimes.h"
#include "tuning/programs/arena.h"

namespace stitch::tuning {

namespace {

using Storage = api::ProgramValue::Storage;

/// The memory of the region's results that others lend to the program for as long as nothing is written there.
class Lenders {
 public:
  Lenders(const api::ProgramRegion& region, const std::vector<api::Lifetime>& lifetimes) {
    for (std::size_t r = 0; r < region.results.size(); ++r) {
      const api::ProgramValue& value = region.values[region.results[r]];
      if (value.storage != Storage::result) continue;
      const std::int64_t there = value.type.bytes(), bytes = api::arena_bytes_of(there);
      memory.push_back({bytes, lifetimes[region.results[r]].first, bytes - there});
      results.push_back(r);
    }
  }
  std::vector<LentMemory> memory;
  std::vector<std::int64_t> results;  ///< whose it is, by position
};

/// What is to be placed, and where besides the arena.
struct Memory {
  Memory(const api::ProgramRegion& region, ResultMemory results) : Memory(region, results, api::lifetimes_of(region)) {}

  std::vector<ArenaBlock> blocks;
  std::vector<std::size_t> values;  ///< whose blocks these are
  Lenders lenders;

 private:
  Memory(const api::ProgramRegion& region, ResultMemory results, const std::vector<api::Lifetime>& lifetimes)
      : lenders(region, lifetimes) {
    for (std::size_t v = 0; v < region.values.size(); ++v) {
      if (!region.values[v].is_placed() || lifetimes[v].empty()) continue;
      const std::int64_t used = region.values[v].type.bytes(), bytes = api::arena_bytes_of(used);
      blocks.push_back({bytes, lifetimes[v].first, lifetimes[v].last, bytes - used});
      values.push_back(v);
    }
    if (results == ResultMemory::kept) lenders.memory.clear();
  }
};

}  // namespace

std::int64_t least_arena_bytes(const api::ProgramRegion& region, ResultMemory results) {
  const Memory memory(region, results);
  return most_alive(memory.blocks, memory.lenders.memory);
}

namespace {

/// The step at which the arena's values are most.
std::ptrdiff_t step_of_peak(const api::ProgramRegion& region, const std::vector<api::Lifetime>& lifetimes) {
  std::vector<std::int64_t> alive(region.steps.size(), 0);
  for (std::size_t v = 0; v < region.values.size(); ++v) {
    if (region.values[v].storage != Storage::arena || lifetimes[v].empty()) continue;
    for (int s = std::max(0, lifetimes[v].first); s <= lifetimes[v].last && s < std::ssize(alive); ++s)
      alive[s] += region.values[v].type.bytes();
  }
  return std::ranges::max_element(alive) - alive.begin();
}

}  // namespace

std::vector<std::size_t> readers_of_peak(const api::ProgramRegion& region) {
  const std::vector<api::Lifetime> lifetimes = api::lifetimes_of(region);
  const std::ptrdiff_t peak = step_of_peak(region, lifetimes);
  std::vector<std::size_t> steps;
  for (std::ptrdiff_t s = peak; s < std::ssize(region.steps); ++s) {
    const auto was_there = [&](int value) {
      return region.values[value].storage == Storage::arena && lifetimes[value].first <= peak;
    };
    if (std::ranges::any_of(region.steps[s].parameters, was_there)) steps.push_back(s);
  }
  return steps;
}

std::vector<std::size_t> steps_of_peak(const api::ProgramRegion& region) {
  const std::vector<api::Lifetime> lifetimes = api::lifetimes_of(region);
  const std::ptrdiff_t peak = step_of_peak(region, lifetimes);
  std::vector<std::size_t> steps;
  for (std::ptrdiff_t s = std::min(peak, std::ssize(region.steps) - 1); s >= 0; --s) {
    const auto stays = [&](int value) { return lifetimes[value].last >= peak; };
    if (std::ranges::any_of(region.steps[s].results, stays)) steps.push_back(s);
  }
  return steps;
}

void plan_memory(api::ProgramRegion& region, ResultMemory results) {
  const Memory memory(region, results);
  const auto& [blocks, values, lenders] = memory;
  const ArenaLayout layout = lay_out(blocks, lenders.memory);
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    api::ProgramValue& value = region.values[values[b]];
    const bool in_arena = layout.lies_in[b] == ArenaLayout::arena;
    value.storage = in_arena ? Storage::arena : Storage::lent;
    value.place = layout.offsets[b];
    value.lender = in_arena ? std::nullopt : std::optional(lenders.results[layout.lies_in[b]]);
  }
  region.arena_bytes = blocks.empty() ? 0 : layout.bytes;
  region.lower_bound_bytes = layout.bound;
}

}  // namespace stitch::tuning
