#include "base/device_traits.h"

#include <cctype>
#include <vector>

namespace stitch {
namespace {

constexpr std::int64_t kib = 1024;
constexpr std::int64_t mib = 1024 * kib;
constexpr std::int64_t gib = 1024 * mib;

/// What all GPUs of a compute capability have in common: CUDA programming guide, "Technical specifications per compute
/// capability".
DeviceTraits of_capability(int major, int minor) {
  DeviceTraits traits;
  traits.compute_major = major;
  traits.compute_minor = minor;
  struct Row {
    int major, minor;
    std::int64_t shared_per_sm, shared_per_block;
    int threads_per_sm, blocks_per_sm;
  };
  constexpr Row rows[] = {{7, 0, 96 * kib, 96 * kib, 2048, 32},    {7, 5, 64 * kib, 64 * kib, 1024, 16},
                          {8, 0, 164 * kib, 163 * kib, 2048, 32},  {8, 6, 100 * kib, 99 * kib, 1536, 16},
                          {8, 9, 100 * kib, 99 * kib, 1536, 24},   {9, 0, 228 * kib, 227 * kib, 2048, 32},
                          {10, 0, 228 * kib, 227 * kib, 2048, 32}, {10, 3, 228 * kib, 227 * kib, 2048, 32},
                          {12, 0, 100 * kib, 99 * kib, 1536, 24}};
  for (const Row& row : rows) {
    if (row.major != major || row.minor != minor) continue;
    traits.shared_per_sm = row.shared_per_sm;
    traits.shared_per_block = row.shared_per_block;
    traits.threads_per_sm = row.threads_per_sm;
    traits.blocks_per_sm = row.blocks_per_sm;
  }
  return traits;
}

struct Chip {
  int sm_count;
  std::int64_t l2_mib;
  std::int64_t memory_clock_mhz;
  int memory_bus_bits;
  std::int64_t memory_gib;
};

DeviceTraits traits_of(int major, int minor, const Chip& chip) {
  DeviceTraits traits = of_capability(major, minor);
  traits.sm_count = chip.sm_count;
  traits.l2_bytes = chip.l2_mib * mib;
  traits.memory_clock_khz = chip.memory_clock_mhz * 1000;
  traits.memory_bus_bits = chip.memory_bus_bits;
  traits.memory_bytes = chip.memory_gib * gib;
  return traits;
}

std::vector<ListedTraits> make_table() {
  return {
      {"v100", traits_of(7, 0, {80, 6, 877, 4096, 16})},
      {"t4", traits_of(7, 5, {40, 4, 5001, 256, 15})},
      {"a100", traits_of(8, 0, {108, 40, 1215, 5120, 40})},
      {"a100-80gb", traits_of(8, 0, {108, 40, 1593, 5120, 80})},
      {"a100-pcie", traits_of(8, 0, {108, 40, 1512, 5120, 80})},
      {"rtx3090", traits_of(8, 6, {82, 6, 9751, 384, 24})},
      {"l4", traits_of(8, 9, {58, 48, 6251, 192, 22})},
      {"rtx4090", traits_of(8, 9, {128, 72, 10501, 384, 24})},
      {"l40s", traits_of(8, 9, {142, 96, 9001, 384, 44})},
      {"h100", traits_of(9, 0, {132, 50, 2619, 5120, 80})},
      {"h200", traits_of(9, 0, {132, 60, 3201, 6144, 140})},
      {"h20", traits_of(9, 0, {78, 60, 2619, 6144, 95})},  // Guess: L2, clock and bus follow from size and bandwidth.
      {"h100-pcie", traits_of(9, 0, {114, 50, 1593, 5120, 80})},
      {"h100-nvl", traits_of(9, 0, {132, 60, 2619, 6016, 93})},  // Guess: L2; the bus is 94/96 of six stacks'.
      {"b200", traits_of(10, 0, {148, 126, 3996, 8192, 178})},   // Guess: the clock follows from the bandwidth.
      {"gb200", traits_of(10, 0, {152, 126, 3996, 8192, 184})},  // Guess: L2, clock and bus as the B200's.
      {"b300", traits_of(10, 3, {148, 126, 3996, 8192, 268})},   // Guess: all but the capability as the B200's.
      {"rtx5090", traits_of(12, 0, {170, 96, 14001, 512, 31})},
      {"rtx-pro-6000", traits_of(12, 0, {188, 128, 14001, 512, 95})},  // Guess: the clock follows from the bandwidth.
  };
}

}  // namespace

std::span<const ListedTraits> listed_traits() {
  static const std::vector<ListedTraits> table = make_table();
  return table;
}

std::string mig_profile_in(std::string_view driver_name) {
  constexpr std::string_view word = " MIG ";
  const std::size_t found = driver_name.rfind(word);
  if (found == std::string_view::npos) return {};
  // A compute instance inside a slice is "1c.3g.40gb", a slice with media engines "1g.10gb+me".
  const std::string_view profile = driver_name.substr(found + word.size());
  for (const char c : profile) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '+';
    if (!plain) return {};
  }
  return std::string(profile);
}

}  // namespace stitch
