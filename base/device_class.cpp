#include "base/device_class.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace stitch {
namespace {

constexpr std::int64_t bytes_per_kib = 1024;
constexpr double bytes_per_gb = 1e9;

/// What a class that is no entry has of its own. Its name is made of it and read back into it, so that whoever knows
/// the name plans with the same figures.
struct Difference {
  int compute_major = 0, compute_minor = 0;
  int sm_count = 0;
  std::int64_t l2_kib = 0;
  std::int64_t memory_gb_per_second = 0;
  std::int64_t shared_kib = 0, shared_block_kib = 0;
  int threads_per_sm = 0, blocks_per_sm = 0;
  std::string mig_profile;
};

bool close(double value, double of, double share) { return std::abs(value - of) <= share * of; }

/// Drivers of one GPU report the same SMs and shared memory. Sizes of L2 are counted with and without what is fused
/// off, clocks are rounded.
bool is_entry(const DeviceTraits& gpu, const DeviceTraits& entry) {
  if (!gpu.mig_profile.empty() || gpu.compute_major != entry.compute_major || gpu.compute_minor != entry.compute_minor)
    return false;
  if (gpu.sm_count != entry.sm_count) return false;
  if (gpu.shared_per_sm > 0 && gpu.shared_per_sm != entry.shared_per_sm) return false;
  if (gpu.shared_per_block > 0 && gpu.shared_per_block != entry.shared_per_block) return false;
  if (gpu.l2_bytes > 0 && !close(gpu.l2_bytes, entry.l2_bytes, 0.25)) return false;
  const double bandwidth = gpu.memory_bandwidth();
  if (bandwidth > 0) return close(bandwidth, entry.memory_bandwidth(), 0.015);
  return gpu.memory_bytes == 0 || close(gpu.memory_bytes, entry.memory_bytes, 0.1);
}

/// Whether a slice with this much of the bus can be one of the entry's GPU: memory is given out in eighths.
bool may_be_slice_of(const DeviceTraits& slice, const DeviceTraits& entry) {
  if (slice.sm_count > entry.sm_count || slice.memory_bus_bits > entry.memory_bus_bits) return false;
  if (!close(slice.memory_clock_khz, entry.memory_clock_khz, 0.005)) return false;
  const double eighths = 8.0 * slice.memory_bus_bits / entry.memory_bus_bits;
  return std::abs(eighths - std::round(eighths)) < 0.01 && eighths > 0.5;
}

double apart(double a, double b) { return a > 0 && b > 0 ? std::abs(std::log(a / b)) : 0; }

/// How unlike two GPUs are. A capability further away outweighs all sizes, and a newer entry is worse than an older
/// one: what an SM of an older one can do, later ones can.
double distance(const DeviceTraits& gpu, const DeviceTraits& entry) {
  const int own = gpu.compute_major * 10 + gpu.compute_minor, its = entry.compute_major * 10 + entry.compute_minor;
  double sum = 1000.0 * std::abs(own - its) + (its > own ? 500 : 0);
  if (!gpu.mig_profile.empty() && may_be_slice_of(gpu, entry)) return sum - 100;
  sum += apart(gpu.sm_count, entry.sm_count) + apart(gpu.memory_bandwidth(), entry.memory_bandwidth());
  return sum + apart(gpu.l2_bytes, entry.l2_bytes) / 2;
}

std::string name_of(const DeviceSpec& base, const Difference& d) {
  std::string name = base.name + "~";
  if (d.compute_major != base.compute_major || d.compute_minor != base.compute_minor)
    name += fmt::format("cc{}.{}-", d.compute_major, d.compute_minor);
  name += fmt::format("sm{}-l2.{}-gbs{}", d.sm_count, d.l2_kib, d.memory_gb_per_second);
  if (d.shared_kib * bytes_per_kib != base.shared_per_sm) name += fmt::format("-shared{}", d.shared_kib);
  if (d.shared_block_kib * bytes_per_kib != base.shared_per_block) name += fmt::format("-block{}", d.shared_block_kib);
  if (d.threads_per_sm != base.threads_per_sm) name += fmt::format("-threads{}", d.threads_per_sm);
  if (d.blocks_per_sm != base.blocks_per_sm) name += fmt::format("-blocks{}", d.blocks_per_sm);
  if (!d.mig_profile.empty()) name += "-mig" + d.mig_profile;
  return name;
}

std::string described(const DeviceSpec& base, const Difference& d) {
  return fmt::format("{} with {} SMs, {} KiB of L2 and {} GB/s{}", base.full_name, d.sm_count, d.l2_kib,
                     d.memory_gb_per_second, d.mig_profile.empty() ? "" : ", MIG " + d.mig_profile);
}

DeviceClass derive(const DeviceSpec& base, const Difference& d) {
  DeviceClass made{base, false, base.name};
  DeviceSpec& spec = made.spec;
  spec.name = name_of(base, d);
  spec.full_name = "GPU like " + described(base, d);
  spec.compute_major = d.compute_major;
  spec.compute_minor = d.compute_minor;
  spec.sm_count = d.sm_count;
  spec.l2_bytes = d.l2_kib * bytes_per_kib;
  spec.dram_bandwidth = static_cast<double>(d.memory_gb_per_second) * bytes_per_gb;
  const double share = d.mig_profile.empty() ? static_cast<double>(d.sm_count) / base.sm_count
                                             : spec.dram_bandwidth / base.dram_bandwidth;
  spec.l2_bandwidth = std::max(base.l2_bandwidth * share, 1.05 * spec.dram_bandwidth);
  spec.shared_per_sm = d.shared_kib * bytes_per_kib;
  spec.shared_per_block = d.shared_block_kib * bytes_per_kib;
  spec.threads_per_sm = d.threads_per_sm;
  spec.blocks_per_sm = d.blocks_per_sm;
  if (spec.compute_major < 9) {
    spec.max_cluster_blocks = 1;
    spec.cluster_latency = 0;
  }
  spec.source = fmt::format(
      "no entry of the device table: SMs, L2, shared memory and memory bandwidth as the driver reports them, L2 "
      "bandwidth "
      "by {}, the rest a guess: as for the {} ({})",
      d.mig_profile.empty() ? "SMs" : "share of memory", base.name, base.source);
  return made;
}

Difference difference_of(const DeviceTraits& gpu, const DeviceTraits& entry, const DeviceSpec& base) {
  Difference d;
  const auto own = [](auto reported, auto otherwise) { return reported > 0 ? reported : otherwise; };
  d.compute_major = gpu.compute_major;
  d.compute_minor = gpu.compute_minor;
  d.sm_count = gpu.sm_count;
  d.l2_kib = own(gpu.l2_bytes, base.l2_bytes) / bytes_per_kib;
  // What is reported is the peak of the clock; where it is the entry's, so is the data sheet's figure.
  const double peak = own(gpu.memory_bandwidth(), base.dram_bandwidth);
  const double share = peak / entry.memory_bandwidth();
  const bool slice = !gpu.mig_profile.empty() && may_be_slice_of(gpu, entry);
  d.memory_gb_per_second = std::llround((slice ? share * base.dram_bandwidth : peak) / bytes_per_gb);
  d.shared_kib = own(gpu.shared_per_sm, base.shared_per_sm) / bytes_per_kib;
  d.shared_block_kib = own(gpu.shared_per_block, base.shared_per_block) / bytes_per_kib;
  d.threads_per_sm = own(gpu.threads_per_sm, base.threads_per_sm);
  d.blocks_per_sm = own(gpu.blocks_per_sm, base.blocks_per_sm);
  d.mig_profile = gpu.mig_profile;
  return d;
}

/// "sm16" with the prefix "sm": 16, if it is a number between the bounds.
template <class Number>
bool read_part(std::string_view part, std::string_view prefix, std::int64_t least, std::int64_t most, Number& into) {
  if (!part.starts_with(prefix)) return false;
  part.remove_prefix(prefix.size());
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc() || end != part.data() + part.size() || value < least || value > most) return false;
  into = static_cast<Number>(value);
  return true;
}

bool read_capability(std::string_view part, Difference& d) {
  if (!part.starts_with("cc")) return false;
  part.remove_prefix(2);
  const std::size_t point = part.find('.');
  return point != std::string_view::npos && read_part(part.substr(0, point), "", 5, 99, d.compute_major) &&
         read_part(part.substr(point + 1), "", 0, 9, d.compute_minor);
}

bool read_difference(std::string_view part, Difference& d) {
  if (part.starts_with("mig")) {
    d.mig_profile = part.substr(3);
    return mig_profile_in(fmt::format(" MIG {}", d.mig_profile)) == d.mig_profile && !d.mig_profile.empty();
  }
  return read_capability(part, d) || read_part(part, "sm", 1, 4096, d.sm_count) ||
         read_part(part, "l2.", 1, 1 << 24, d.l2_kib) || read_part(part, "gbs", 1, 1'000'000, d.memory_gb_per_second) ||
         read_part(part, "shared", 16, 4096, d.shared_kib) || read_part(part, "blocks", 1, 1024, d.blocks_per_sm) ||
         read_part(part, "block", 16, 4096, d.shared_block_kib) ||
         read_part(part, "threads", 1024, 16384, d.threads_per_sm);
}

}  // namespace

Result<DeviceClass> classify(const DeviceTraits& traits) {
  if (!traits.known()) return make_error(ErrorKind::invalid_argument, "the driver reported nothing of the GPU");
  const ListedTraits* nearest = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const ListedTraits& entry : listed_traits()) {
    if (is_entry(traits, entry.traits)) {
      STITCH_ASSIGN(DeviceSpec spec, find_device(entry.device));
      return DeviceClass{std::move(spec), true, std::string(entry.device)};
    }
    const double far = distance(traits, entry.traits);
    if (far < least) nearest = &entry;
    least = std::min(least, far);
  }
  STITCH_ASSIGN(const DeviceSpec base, find_device(nearest->device));
  return derive(base, difference_of(traits, nearest->traits, base));
}

Result<DeviceClass> find_device_class(std::string_view name) {
  const std::size_t tilde = name.find('~');
  STITCH_ASSIGN(DeviceSpec base, find_device(name.substr(0, tilde)));
  if (tilde == std::string_view::npos) {
    std::string own = base.name;
    return DeviceClass{std::move(base), true, std::move(own)};
  }
  Difference d{base.compute_major,
               base.compute_minor,
               0,
               0,
               0,
               base.shared_per_sm / bytes_per_kib,
               base.shared_per_block / bytes_per_kib,
               base.threads_per_sm,
               base.blocks_per_sm,
               {}};
  for (std::size_t begin = tilde + 1; begin <= name.size();) {
    const std::size_t end = std::min(name.find('-', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (!read_difference(part, d)) {
      return make_error(ErrorKind::invalid_argument, "GPU '{}': '{}' is no difference from the {}", name, part,
                        base.name);
    }
    begin = end + 1;
  }
  if (d.sm_count == 0 || d.l2_kib == 0 || d.memory_gb_per_second == 0) {
    return make_error(ErrorKind::invalid_argument,
                      "GPU '{}': a class that is no entry says its SMs, L2 and bandwidth: {}~sm114-l2.51200-gbs2039",
                      name, base.name);
  }
  return derive(base, d);
}

}  // namespace stitch
