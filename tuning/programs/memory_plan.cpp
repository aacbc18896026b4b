#include "tuning/programs/memory_plan.h"

#include "api/program_lifetimes.h"
#include "tuning/programs/arena.h"

namespace stitch::tuning {

void plan_memory(api::ProgramRegion& region) {
  const std::vector<api::Lifetime> lifetimes = api::lifetimes_of(region);
  std::vector<ArenaBlock> blocks;
  std::vector<std::size_t> values;
  for (std::size_t v = 0; v < region.values.size(); ++v) {
    if (region.values[v].storage != api::ProgramValue::Storage::arena || lifetimes[v].empty()) continue;
    blocks.push_back({api::arena_bytes_of(region.values[v].type.bytes()), lifetimes[v].first, lifetimes[v].last});
    values.push_back(v);
  }
  const ArenaLayout layout = lay_out(blocks);
  for (std::size_t b = 0; b < blocks.size(); ++b) region.values[values[b]].place = layout.offsets[b];
  region.arena_bytes = blocks.empty() ? 0 : layout.bytes;
  region.lower_bound_bytes = most_alive(blocks);
}

}  // namespace stitch::tuning
