#include "costmodel/load_traffic.h"

#include <algorithm>
#include <cmath>

#include "costmodel/sector_waste.h"

namespace stitch::costmodel {
namespace {

using kernel::Item;
using kernel::ItemId;
using Place = kernel::LoadPlaces::Place;

/// Warp instructions of a load: itself and, by guess, one for its address.
constexpr double instructions_of_load = 2;
/// Of a bulk copy: itself, its addresses, what has its barrier expect its bytes, and the loop in which its operands
/// come to uniform registers (counted in machine code of CUDA 13.0 for sm_90a).
constexpr double instructions_of_bulk_copy = 16;
/// Warp instructions that put a loaded value into shared memory: the same two (guess).
constexpr double instructions_of_retaining = 2;
/// A part of L1 that stays unused while what was asked for before is still wanted: it holds half of its size (guess).
constexpr double l1_slack = 2;
/// Reductions exchange through two buffers in turn (KernelProgram::shared_bytes).
constexpr int exchange_buffers = 2;
/// A tensor that takes less of L2 than this is still there when a later sweep of the same tile reads it (guess).
constexpr double small_share_of_l2 = 0.25;

}  // namespace

LoadTraffic::LoadTraffic(const CountedGroup& counted, GroupFeatures& features)
    : counted_(counted), features_(features) {}

void LoadTraffic::read_once(ItemId id, PerBuffer<double>& reads) const {
  const Item& item = counted_.program.at(id);
  if (item.kind != Item::Kind::load || counted_.places.of(id) == Place::shared) return;
  double bytes = counted_.elements(item.axes) * graph::byte_size(item.dtype);
  bytes *= 1 - counted_.group.found_share(id);
  // Read in the first turn; by all blocks, unless each has rows of its own.
  if (counted_.places.is_lasting(id)) {
    const std::int64_t readers = counted_.is_dynamic(item.index) ? 1 : counted_.residence.parts();
    bytes /= counted_.residence.turns() * readers;
  }
  double& total = reads[item.buffer];
  total = std::min(total + bytes, counted_.buffer_bytes(item.buffer));
}

void LoadTraffic::count_reads() {
  const kernel::GroupProgram& group = counted_.group;
  std::vector<PerBuffer<double>> reads(group.sweeps.size());
  for (const ItemId id : group.hoisted) {
    read_once(id, reads[0]);
    if (counted_.places.of(id) == Place::registers) continue;
    const AxisSet varying = counted_.program.at(id).axes & group.varying;
    request(id, group.accesses[id].width, counted_.per_iteration(varying));
  }
  for (const kernel::StateProducts& product : group.products) {
    for (const kernel::StateProducts::Part& part : product.parts) read_once(part.weights, reads[0]);
  }
  pass_to_l2();
  for (std::size_t s = 0; s < group.sweeps.size(); ++s) {
    for (const ItemId id : group.sweeps[s].uniform) read_once(id, reads[s]);
    for (const ItemId id : group.sweeps[s].body) read_once(id, reads[s]);
  }
  const double small = small_share_of_l2 * counted_.device.l2_bytes;
  PerBuffer<double> seen;
  for (const PerBuffer<double>& sweep : reads) {
    for (const auto& [buffer, bytes] : sweep) {
      // Read again by a later sweep of the same tile: a small operand comes from L2.
      double& before = seen[buffer];
      if (before == 0 || bytes > small) features_.dram_read_bytes += bytes;
      before = bytes;
    }
  }
}

void LoadTraffic::take_retained(ItemId load, double& requested, double& requests) {
  const kernel::RetainedLoad* kept = counted_.group.retention(load);
  if (kept == nullptr) return;
  // What is held in shared memory between sweeps is counted with what is held.
  const bool held = std::ranges::any_of(counted_.group.held, [&](const kernel::HeldItem& each) {
    return each.item == load && each.place == kernel::Hold::shared;
  });
  if (!held) {
    features_.shared_bytes += requested * kept->share;
    features_.instructions += kept->fills ? requests * kept->share * instructions_of_retaining : 0;
  }
  if (kept->fills) return;
  requested *= 1 - kept->share;
  requests *= 1 - kept->share;
}

void LoadTraffic::request(ItemId load, double width, double times) {
  const Item& item = counted_.program.at(load);
  const int size = graph::byte_size(item.dtype);
  times *= counted_.made_share(item);
  double requests = counted_.warps * times / width;
  const kernel::StagedLoad* staged = counted_.group.ahead.stages_of(load);
  if (staged != nullptr && staged->run > 0) {
    const double copies = counted_.warps * times * warp_lanes / static_cast<double>(staged->run);
    features_.instructions += copies * instructions_of_bulk_copy;
    features_.load_requests += copies;
  } else {
    features_.instructions += requests * instructions_of_load;
    features_.load_requests += requests;
  }
  features_.load_lane_bytes += counted_.warps * times * size;
  if (counted_.is_dynamic(item.index)) features_.dynamic_requests += requests;
  double requested = counted_.warps * times * counted_.distinct_lanes(item.axes) * size;
  const Place place = counted_.places.of(load);
  if (place == Place::shared) {
    features_.shared_bytes += std::max(requested, requests * sector_bytes);
    return;
  }
  take_retained(load, requested, requests);
  features_.requested_bytes += requested;
  // What the next request has of the same sectors comes from L1.
  const double waste = sector_waste(counted_, item.index, size, size * width) *
                       misaligned_waste(counted_, item.index, size, static_cast<int>(width));
  features_.sector_bytes += std::max(requested * waste, requests * sector_bytes);
  if (place == Place::l1) return;
  // The accesses that make up a lane's run follow each other: all but the first find their sectors in L1. Sectors of
  // which one warp takes a part and other warps the rest are not counted on: they are many lines.
  const double made = 1 - counted_.group.found_share(load);
  const double tiles = counted_.group.tiles;
  const double distinct = std::min(requested, made * counted_.per_tile(item.axes) * size * tiles);
  const double piece = std::max(size * width, run_bytes(counted_, item));
  Asked& asked = asked_[item.buffer];
  asked.requested += requested;
  asked.distinct += distinct;
  asked.largest = std::max(asked.largest, distinct);
  asked.turn = std::max(asked.turn, counted_.per_tile(item.axes, true) * size / counted_.schedule.cluster);
  asked.sectors += requested * sector_waste(counted_, item.index, size, piece);
}

double LoadTraffic::l1_room() const {
  const DeviceSpec& device = counted_.device;
  const std::int64_t retained = counted_.kernel.retained_bytes();
  // An SM full of blocks; those that retain take all of its shared memory with fewer.
  double blocks = std::max(1.0, static_cast<double>(device.threads_per_sm) / counted_.schedule.threads);
  if (retained > 0) blocks = std::min(blocks, std::ceil(static_cast<double>(counted_.kernel.blocks) / device.sm_count));
  const std::int64_t shared = exchange_buffers * counted_.group.exchange_bytes + counted_.group.held_bytes + retained;
  return device.shared_per_sm / blocks - shared;
}

void LoadTraffic::pass_to_l2() {
  double turn = 0;
  for (const auto& [buffer, asked] : asked_) turn += asked.turn;
  const double room = l1_room();
  const auto caught = [&](double since) { return std::clamp(room / std::max(l1_slack * since, 1.0), 0.0, 1.0); };
  for (const auto& [buffer, asked] : asked_) {
    const double once = std::min(asked.distinct, std::max(asked.largest, counted_.buffer_bytes(buffer)));
    const double passed = once + (asked.distinct - once) * (1 - caught(asked.turn)) +
                          (asked.requested - asked.distinct) * (1 - caught(turn));
    features_.l2_bytes += passed * asked.sectors / std::max(asked.requested, 1.0);
  }
  asked_.clear();
}

}  // namespace stitch::costmodel
