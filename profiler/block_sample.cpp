#include "profiler/block_sample.h"

#include <algorithm>
#include <set>

#include "base/random.h"

namespace stitch::profiler {

std::int64_t kernel_work(const search::KernelProgram& program) {
  double work = 0;
  for (const search::PhaseProgram& phase : program.phases) {
    for (const search::GroupProgram& group : phase.groups) {
      double elements = 1;
      for (const std::int64_t extent : group.extents) elements *= static_cast<double>(extent);
      std::size_t items = 0;
      for (const search::Sweep& sweep : group.sweeps) items += sweep.body.size();
      work += elements * static_cast<double>(std::max<std::size_t>(1, items));
    }
  }
  return static_cast<std::int64_t>(std::min(work, 9e18));
}

std::vector<std::uint64_t> sample_blocks(const search::KernelProgram& program, const codegen::GeneratedKernel& kernel,
                                         std::int64_t budget, std::uint64_t seed) {
  const std::int64_t work = kernel_work(program);
  if (work <= budget || !kernel.scratch.empty() || program.phases.size() != 1) return {};
  const auto cluster = static_cast<std::uint64_t>(kernel.cluster);
  const auto clusters = static_cast<std::uint64_t>(kernel.blocks) / cluster;
  const double share = static_cast<double>(budget) / static_cast<double>(work);
  const auto wanted = static_cast<std::uint64_t>(share * static_cast<double>(clusters));
  std::set<std::uint64_t> chosen = {0, clusters - 1};
  std::int64_t tile = 0;
  for (const search::GroupProgram& group : program.phases.front().groups) {
    chosen.insert(static_cast<std::uint64_t>(tile) % clusters);
    tile += group.tiles;
    chosen.insert(static_cast<std::uint64_t>(tile - 1) % clusters);
  }
  Random random(seed);
  while (chosen.size() < std::min(wanted, clusters / 2)) chosen.insert(random.below(clusters));
  std::vector<std::uint64_t> blocks;
  for (const std::uint64_t c : chosen) {
    for (std::uint64_t b = 0; b < cluster; ++b) blocks.push_back(c * cluster + b);
  }
  return blocks;
}

}  // namespace stitch::profiler
