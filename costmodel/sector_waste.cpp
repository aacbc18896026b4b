#include "costmodel/sector_waste.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include "kernel/structure/row_shift.h"

namespace stitch::costmodel {
namespace {

using kernel::GroupProgram;
using kernel::Level;

kernel::IndexPool::Run run_of(const CountedGroup& counted, kernel::Index address, int axis) {
  return counted.program.pool().run(address, counted.program.axes().variables[axis], 1);
}

/// Sectors under pieces that begin at these bytes, which are in ascending order.
std::int64_t sectors_under(std::span<const std::int64_t> begins, double piece) {
  const auto sector_of = [](std::int64_t byte) {
    return byte >= 0 ? byte / sector_bytes : (byte - sector_bytes + 1) / sector_bytes;
  };
  std::int64_t sectors = 0;
  std::int64_t seen = std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t begin : begins) {
    const std::int64_t first = std::max(sector_of(begin), seen + 1);
    const std::int64_t last = sector_of(begin + std::llround(piece) - 1);
    if (last < first) continue;
    sectors += last - first + 1;
    seen = last;
  }
  return sectors;
}

/// sector_waste by the addresses of a warp's lanes, where they lie on several axes; nothing when they do not, or where
/// steps are not known.
std::optional<double> waste_of_lanes(const CountedGroup& counted, kernel::Index address, int bytes, double piece) {
  const GroupProgram& group = counted.group;
  std::array<std::int64_t, warp_lanes> at{};
  std::int64_t lanes = 1;
  int spread = 0;
  for (const int a : group.thread_order) {
    const std::int64_t extent = group.extent(a, Level::lane);
    if (extent == 1 || !counted.program.axes_of(address).contains(a)) continue;
    const kernel::IndexPool::Run run = run_of(counted, address, a);
    if (!run.regular || lanes * extent > warp_lanes) return std::nullopt;
    const std::int64_t step = run.step * group.mapping.axes[a].step(Level::lane) * bytes;
    for (std::int64_t lane = lanes; lane < lanes * extent; ++lane) at[lane] = at[lane % lanes] + lane / lanes * step;
    lanes *= extent;
    ++spread;
  }
  if (spread < 2) return std::nullopt;
  std::sort(at.begin(), at.begin() + lanes);
  const double touched = sectors_under({at.data(), at.data() + lanes}, piece) * sector_bytes;
  return std::max(1.0, touched / (lanes * piece));
}

}  // namespace

double sector_waste(const CountedGroup& counted, kernel::Index address, int bytes, double piece) {
  if (const auto exact = waste_of_lanes(counted, address, bytes, piece)) return *exact;
  const GroupProgram& group = counted.group;
  for (const int a : group.thread_order) {
    const std::int64_t lanes = group.extent(a, Level::lane);
    if (lanes == 1 && group.mapping.vector_axis != a) continue;
    const kernel::IndexPool::Run run = run_of(counted, address, a);
    if (!counted.program.axes_of(address).contains(a)) continue;  // every lane reads the same: one sector
    const std::int64_t width = group.extent(a, Level::vector);
    const bool vector = group.mapping.vector_axis == a && width > 1;
    const double step = run.regular ? std::fabs(run.step) * bytes : sector_bytes;
    const double span = vector ? width * step : step;
    if (lanes == 1) continue;
    constexpr double half_a_byte = 0.5;  // spans are whole bytes: this compares them
    if (span <= piece + half_a_byte) {
      // Contiguous along this axis; short runs waste the rest of their last sector.
      const double run_length = std::min(lanes * width, group.extents[a]) * bytes;
      return run_length >= sector_bytes ? 1 : sector_bytes / run_length;
    }
    return std::max(1.0, std::min<double>(sector_bytes, span) / piece);
  }
  return 1;
}

double misaligned_waste(const CountedGroup& counted, kernel::Index address, int bytes, int width) {
  const GroupProgram& group = counted.group;
  const int along = group.mapping.vector_axis;
  if (along < 0 || bytes >= sector_bytes) return 1;
  if (group.extent(along, Level::lane) == 1 || group.extent(along, Level::vector) != width) return 1;
  const auto rest = kernel::misalignment(counted.program, address, along, sector_bytes / bytes);
  if (!rest || rest->none()) return 1;
  std::int64_t multiple = std::gcd(sector_bytes / bytes, rest->constant);
  for (const kernel::IndexPool::Term& term : rest->terms) multiple = std::gcd(multiple, term.coefficient);
  // Shifted rows begin where their vectors do.
  if (group.shift && width > 1) multiple = std::max<std::int64_t>(multiple, width);
  const double request = std::min(group.extent(along, Level::lane) * width, group.extents[along]) * bytes;
  const double rest_of_sector = sector_bytes - std::min<std::int64_t>(multiple * bytes, sector_bytes);
  return (request + rest_of_sector) / request;
}

double run_bytes(const CountedGroup& counted, const kernel::Item& load) {
  const int along = counted.group.mapping.vector_axis;
  const int bytes = graph::byte_size(load.dtype);
  if (along < 0 || !load.axes.contains(along)) return bytes;
  // Across memory, each element is in a sector of its own; of windows, the others' loads take the rest of one.
  const auto run = run_of(counted, load.index, along);
  if (run.regular && std::abs(run.step) * bytes >= sector_bytes) return bytes;
  return counted.group.extent(along, Level::vector) * bytes;
}

}  // namespace stitch::costmodel
