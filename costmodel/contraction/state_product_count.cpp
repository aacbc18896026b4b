#include "costmodel/contraction/state_product_count.h"

#include <algorithm>
#include <cmath>

#include "costmodel/contraction/product_rates.h"
#include "kernel/program/legality.h"

namespace stitch::costmodel {
namespace {

using kernel::StateProducts;

/// Of mma.sync m16n8k16: 16 columns, 8 rows, 16 of depth.
constexpr double multiply_adds = 2048;
/// Cycles from one to the next that adds to its sums (guess: 25 to 33 in microbenchmarks of an A100).
constexpr double cycles_between_sums = 33;
/// A lane reads 16 bytes of the state, or of fragments, with an instruction for the address of every other (guess).
constexpr double bytes_of_lane = 16, instructions_of_read = 1.5;
/// Words of a chunk that lanes exchange between two registers where all rows begin in one bank.
constexpr double exchanged_words = 4;
/// Four sums of a lane to shared memory, and their address (guess).
constexpr double sums_of_lane = 4, instructions_of_sums = 6;
/// From shared memory back: addresses of the accesses of a vector (guess).
constexpr double instructions_of_address = 2;
constexpr double bytes_of_sum = 4;

/// What a block does for one product.
void count_product(const CountedGroup& counted, const StateProducts& p, GroupFeatures& features) {
  const double blocks = counted.group.tiles * counted.schedule.cluster;
  const double warps = p.warps(), row_tiles = p.row_tiles();
  const double of_warp = static_cast<double>(p.tiles) * p.steps() * row_tiles;  // instructions of tensor cores
  const double reads = p.chunks * row_tiles * 8 / p.run();
  const double row_blocks = std::ceil(row_tiles / p.tiles_at_once);
  const double fragments = p.in_registers ? 0 : row_blocks * p.tiles * p.steps();
  const double exchanges = p.paired_rows() == 0 ? exchanged_words * p.chunks * row_tiles : 0;
  const double sums = p.tiles * row_tiles;
  // What each thread takes of its sums, of every part of the depth.
  const double elements =
      counted.per_thread(kernel::AxisSet::of(p.row_axis) | kernel::AxisSet::of(p.column_axis)) * std::ssize(p.parts);
  const double accesses = elements * p.depth_warps / std::min<double>(4, counted.group.vector_extent());
  const double instructions =
      warps * (of_warp + (reads + fragments) * instructions_of_read + exchanges + sums * instructions_of_sums) +
      kernel::warps_of(counted.schedule.threads) *
          (accesses + elements * p.depth_warps + elements / counted.group.vector_extent() * instructions_of_address);
  features.instructions += blocks * instructions;
  features.exchange_instructions += blocks * warps * sums * instructions_of_sums;
  features.tensor_multiply_adds += blocks * warps * of_warp * multiply_adds;
  features.shared_bytes +=
      blocks *
      (warps * warp_lanes *
           (reads * bytes_of_lane * p.run() / 8 + fragments * bytes_of_lane + sums * sums_of_lane * bytes_of_sum) +
       elements * p.depth_warps * bytes_of_sum * counted.group.threads);
  // A scheduler's warps take turns; one alone waits for its own sums.
  const double of_scheduler = std::ceil(warps / schedulers);
  const double apart = multiply_adds / (synchronous_rate(counted.device) / schedulers);
  const double chain = p.steps() * row_blocks * cycles_between_sums;
  const double multiplying = std::max(chain, of_scheduler * of_warp * apart);
  const double issuing = of_scheduler * (reads * instructions_of_read + exchanges + sums * instructions_of_sums);
  features.latency_cycles += multiplying + issuing + counted.device.shared_latency * (row_blocks + 2);
}

}  // namespace

double synchronous_rate(const DeviceSpec& device) {
  return device.tensor.f16 * device.tensor.synchronous_share * tensor_share;
}

void count_state_products(const CountedGroup& counted, GroupFeatures& features) {
  if (counted.group.products.empty()) return;
  for (const StateProducts& product : counted.group.products) count_product(counted, product, features);
  features.barriers += 1;
}

}  // namespace stitch::costmodel
