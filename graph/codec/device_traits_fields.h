#pragma once

#include <cstdint>

#include "base/device_traits.h"
#include "graph/codec/fields.h"

namespace stitch {

/// What a GPU reports, as clients, the runner and recordings send it. Later drivers and clients may report more: what
/// is not known is passed over.
void visit_fields(auto& archive, graph::fields::Of<DeviceTraits> auto& traits) {
  using graph::fields::Between;
  using graph::fields::not_negative;
  archive("compute_major", traits.compute_major, Between(1, 99))("compute_minor", traits.compute_minor, Between(0, 9));
  archive("sm_count", traits.sm_count, Between(1, 4096));
  archive("l2_bytes", traits.l2_bytes, Between<std::int64_t>(0, std::int64_t{1} << 34));
  archive("shared_per_sm", traits.shared_per_sm, Between<std::int64_t>(0, 1 << 22));
  archive("shared_per_block", traits.shared_per_block, Between<std::int64_t>(0, 1 << 22));
  archive("threads_per_sm", traits.threads_per_sm, Between(0, 16384));
  archive("blocks_per_sm", traits.blocks_per_sm, Between(0, 1024));
  archive("memory_clock_khz", traits.memory_clock_khz, Between<std::int64_t>(0, 100'000'000));
  archive("memory_bus_bits", traits.memory_bus_bits, Between(0, 1 << 16));
  archive("memory_bytes", traits.memory_bytes, not_negative).defaulted("mig_profile", traits.mig_profile);
}

}  // namespace stitch
