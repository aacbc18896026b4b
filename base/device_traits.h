#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace stitch {

/// What a driver reports of a GPU, as far as it tells one kind of GPU from another. Its name is not among them: names
/// are the vendor's and the OEM's, and one name is given to unlike GPUs. Zero: not reported. Bytes, kHz, bits.
struct DeviceTraits {
  int compute_major = 0;
  int compute_minor = 0;
  int sm_count = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t shared_per_sm = 0;
  std::int64_t shared_per_block = 0;  ///< opt-in maximum
  int threads_per_sm = 0;
  int blocks_per_sm = 0;
  std::int64_t memory_clock_khz = 0;
  int memory_bus_bits = 0;
  std::int64_t memory_bytes = 0;
  std::string mig_profile = {};  ///< "1g.10gb" of a slice, whose other traits are the slice's own; empty: a whole GPU

  bool operator==(const DeviceTraits&) const = default;
  /// Whether a driver reported anything at all.
  [[nodiscard]] bool known() const { return compute_major > 0 && sm_count > 0; }
  /// Peak of the memory, bytes/s: two transfers a clock. 0 where clock or bus were not reported.
  [[nodiscard]] double memory_bandwidth() const {
    return 2.0 * static_cast<double>(memory_clock_khz) * 1e3 * memory_bus_bits / 8;
  }
};

/// What the driver of an entry of the device table reports of it.
struct ListedTraits {
  std::string_view device;  ///< DeviceSpec::name
  DeviceTraits traits;
};

/// One for each entry of the device table, in its order. Bounds of an SM as in the CUDA programming guide; clocks,
/// buses and sizes of L2 as deviceQuery prints them, where nobody published that: as bandwidth and data sheet imply,
/// which the implementation marks.
std::span<const ListedTraits> listed_traits();

/// The profile in the name of a MIG slice: "1g.10gb" of "NVIDIA H100 80GB HBM3 MIG 1g.10gb", which is the one place
/// where the driver reports it; empty for a whole GPU.
std::string mig_profile_in(std::string_view driver_name);

}  // namespace stitch
