#include "costmodel/store_traffic.h"

#include <algorithm>
#include <optional>

#include "costmodel/sector_waste.h"
#include "kernel/program/private_table.h"

namespace stitch::costmodel {
namespace {

using kernel::Anchor;

/// Warp instructions of a store: itself and, every other time, one for its address (guess).
constexpr double instructions_of_store = 1.5;
/// An atomic addition is read, combined and written in L2: its bytes pass there twice.
constexpr double l2_passes_of_atomic = 2;
/// Slices that L2 is made of, each of which takes one request a cycle (A100's whitepaper: 5,120 bytes a cycle, 64 of a
/// slice; Hopper alike), and of which a line has one (guess). Indices are taken for evenly spread.
constexpr double l2_slices = 80;
constexpr double line_bytes = 128;
/// Of a warp's addition of 32 floats in shared memory, which tries again until nobody came between: times that bytes
/// pass, and instructions (guess, by its machine code: load, add, compare and swap, some three turns).
constexpr double passes_of_slow_atomic = 6, instructions_of_slow_atomic = 15;
/// The same of integers, of which an SM combines a warp's at once where their places differ (guess: half do).
constexpr double passes_of_shared_atomic = 2;
/// Partial sums are f32.
constexpr int partial_bytes = 4;

/// The axes of the elements that an anchor stores. A scatter writes each element once, whatever number of updates it
/// tested.
AxisSet written_axes(const Anchor& anchor) {
  return anchor.kind == Anchor::Kind::scatter ? anchor.axes - anchor.reduced : anchor.axes;
}

double stored_bytes(const CountedGroup& counted, int number) {
  const Anchor& anchor = counted.group.structure.anchors[number];
  if (anchor.kind != Anchor::Kind::partial)
    return counted.elements(written_axes(anchor)) * graph::byte_size(anchor.dtype);
  double bytes = 0;
  for (const kernel::ReductionPlan& plan : counted.group.reductions) {
    if (plan.anchor == number) bytes = plan.partials * counted.elements(anchor.axes - anchor.reduced) * partial_bytes;
  }
  return bytes;
}

/// A scan's results, each as wide as a thread's run of it, or a sort's, of which the first of each line are stored.
void count_line_stores(const CountedGroup& counted, int number, GroupFeatures& features) {
  const Anchor& anchor = counted.group.structure.anchors[number];
  const graph::Node& node = counted.graph.node(anchor.node);
  for (std::size_t b = 0; b < anchor.buffers.size(); ++b) {
    const int size = graph::byte_size(node.type(anchor.results[b]).dtype);
    const int width = std::max(1, counted.group.stores[number][b].width);
    const double bytes = static_cast<double>(node.type(anchor.results[b]).bytes());
    const double share = bytes / std::max(counted.elements(anchor.axes) * size, 1.0);
    const double factor = sector_waste(counted, anchor.addresses[b], size, size * width);
    features.dram_write_bytes += bytes;
    features.sector_bytes += bytes * factor;
    features.l2_bytes += bytes * factor;
    features.requested_bytes += bytes;
    const double requests = counted.warps * counted.per_thread(anchor.axes) * share / width;
    features.instructions += requests * instructions_of_store;
    features.store_requests += requests;
    features.store_lane_bytes += requests * width * size;
  }
}

/// Elements that a thread combines into memory by one request: sums of f32, from compute capability 9.0 on.
int requested_together(const CountedGroup& counted, int number) {
  const Anchor& anchor = counted.group.structure.anchors[number];
  const graph::Node& node = counted.graph.node(anchor.node);
  const bool sum = node.as<graph::ScatterAttributes>().combiner == graph::ReduceKind::sum;
  const bool vectors = sum && anchor.dtype == graph::DType::f32 && counted.device.compute_major >= 9;
  return vectors ? counted.group.stores[number][0].width : 1;
}

/// Combining into memory that other blocks combine into: into a table of few lines all go to few slices of L2.
double l2_bytes_of_atomics(double bytes, double table_bytes) {
  const double lines = std::max(1.0, table_bytes / line_bytes);
  return bytes * l2_passes_of_atomic * std::max(1.0, l2_slices / lines);
}

std::optional<kernel::PrivateTable> private_table(const CountedGroup& counted) {
  for (std::size_t p = 0; p < counted.kernel.phases.size(); ++p) {
    if (counted.kernel.phases[p].groups.data() == &counted.group)
      return kernel::private_table(counted.graph, counted.kernel, p);
  }
  return std::nullopt;
}

/// Into tables in shared memory, which every block adds to device memory once.
void count_private_table(const CountedGroup& counted, const kernel::PrivateTable& table, GroupFeatures& features) {
  const AxisSet written = written_axes(counted.group.structure.anchors[0]);
  const double bytes = stored_bytes(counted, 0), size = graph::byte_size(table.dtype);
  const auto blocks = static_cast<double>(std::min(counted.group.tiles, counted.kernel.clusters()));
  const double table_bytes = static_cast<double>(table.bytes());
  const double requests = counted.warps * counted.per_thread(written);
  const double flushed = blocks * static_cast<double>(table.elements) / warp_lanes;
  features.shared_bytes +=
      bytes * (table.is_native() ? passes_of_shared_atomic : passes_of_slow_atomic) + 2 * blocks * table_bytes;
  features.instructions += requests * (table.is_native() ? instructions_of_store : instructions_of_slow_atomic) +
                           2 * flushed * instructions_of_store;
  features.dram_write_bytes += table_bytes;
  features.sector_bytes += blocks * table_bytes;
  features.l2_bytes += l2_bytes_of_atomics(blocks * table_bytes, table_bytes);
  features.requested_bytes += blocks * table_bytes;
  features.store_requests += flushed;
  features.store_lane_bytes += flushed * size;
  features.barriers += 2;
}

void count_store(const CountedGroup& counted, int number, GroupFeatures& features) {
  const Anchor& anchor = counted.group.structure.anchors[number];
  const bool lines = anchor.kind == Anchor::Kind::scan || anchor.kind == Anchor::Kind::sort;
  if (lines && !counted.residence.is_resident(anchor.buffers[0])) return count_line_stores(counted, number, features);
  const AxisSet written = written_axes(anchor);
  const double bytes = stored_bytes(counted, number);
  if (counted.residence.is_resident(anchor.buffers[0])) {
    // Of a cluster every block gets what any of them computes.
    const int copies = counted.residence.copies(counted.group);
    features.shared_bytes += bytes * counted.schedule.cluster;
    features.instructions += counted.warps * counted.per_thread(written) * instructions_of_store * copies;
    return;
  }
  const bool atomic = anchor.kind == Anchor::Kind::atomic;
  if (const auto table = atomic ? private_table(counted) : std::nullopt)
    return count_private_table(counted, *table, features);
  const int size = graph::byte_size(anchor.dtype);
  double factor = 1;
  int width = 1;
  if (anchor.kind == Anchor::Kind::store) {
    width = counted.group.stores[number][0].width;
    factor = sector_waste(counted, anchor.addresses[0], size, size * width) *
             misaligned_waste(counted, anchor.addresses[0], size, width);
  }
  const double table_bytes = counted.graph.node(anchor.node).type().elements() * static_cast<double>(size);
  if (atomic) width = requested_together(counted, number);
  features.dram_write_bytes += atomic ? std::min(bytes, table_bytes) : bytes;  // L2 keeps what is met again
  features.sector_bytes += bytes * factor;
  features.l2_bytes += atomic ? l2_bytes_of_atomics(bytes, table_bytes) : bytes * factor;
  features.requested_bytes += bytes;
  width = std::max(1, width);
  const bool scatters = anchor.kind == Anchor::Kind::scatter;
  const double times = scatters ? counted.per_iteration(written) : counted.per_thread(written);
  const double requests = counted.warps * times / width;
  features.instructions += requests * instructions_of_store;
  features.store_requests += requests;
  features.store_lane_bytes += requests * width * size;
}

}  // namespace

void count_stores(const CountedGroup& counted, GroupFeatures& features) {
  const int anchors = counted.group.structure.anchors.size();
  for (int i = 0; i < anchors; ++i) {
    if (counted.group.structure.anchors[i].kind != Anchor::Kind::reduce) count_store(counted, i, features);
  }
}

}  // namespace stitch::costmodel
