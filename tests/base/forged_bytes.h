#pragma once

#define XXH_INLINE_ALL  // its secret is public, but not in its interface
#include <xxhash.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

namespace stitch {

/// Other bytes with the XXH3-128 of `genuine`, which must have 1088 bytes or more: its first 896 are replaced by
/// `instead` (zeros behind it), and bytes 896 … 1023 are what makes up for that. XXH3 adds up what each stripe of 64
/// bytes contributes to eight words before it scrambles them at the end of 1024 bytes. A word of data d with key k adds
/// d to one of the words and low(d ^ k) * high(d ^ k) to its neighbour. Where one half of d ^ k is zero, only d is
/// added, and the other half of d is free: two stripes bring any sum about.
class ForgedBytes {
 public:
  static std::string like(const std::string& genuine, const std::string& instead) {
    if (genuine.size() < block + stripe || instead.size() > free) throw std::invalid_argument("no room to forge");
    std::string forged = genuine;
    std::memset(forged.data(), 0, free);
    std::memcpy(forged.data(), instead.data(), instead.size());
    const Sums wanted = sums(genuine, block / stripe), now = sums(forged, free / stripe);
    for (std::size_t i = 0; i < lanes; ++i) {
      // Word i of both stripes contributes to lane i ^ 1, where this much is missing.
      const std::uint64_t missing = wanted[i ^ 1] - now[i ^ 1];
      const std::uint64_t first_key = key(free / stripe, i), second_key = key(free / stripe + 1, i);
      const std::uint64_t second = (second_key & high) | ((missing - first_key) & low);
      const std::uint64_t first = (first_key & low) | ((missing - second) & high);
      std::memcpy(&forged[free + 8 * i], &first, 8);
      std::memcpy(&forged[free + stripe + 8 * i], &second, 8);
    }
    return forged;
  }

 private:
  static constexpr std::size_t stripe = 64, block = 1024, free = block - 2 * stripe, lanes = 8;
  static constexpr std::uint64_t low = 0xffffffff, high = ~low;
  using Sums = std::array<std::uint64_t, lanes>;

  static std::uint64_t word(const void* bytes, std::size_t at) {
    std::uint64_t value = 0;
    std::memcpy(&value, static_cast<const char*>(bytes) + at, 8);
    return value;
  }
  static std::uint64_t key(std::size_t stripe_number, std::size_t lane) {
    return word(XXH3_kSecret, 8 * stripe_number + 8 * lane);
  }
  /// What the first stripes add to each lane.
  static Sums sums(const std::string& bytes, std::size_t stripes) {
    Sums total{};
    for (std::size_t s = 0; s < stripes; ++s) {
      for (std::size_t i = 0; i < lanes; ++i) {
        const std::uint64_t data = word(bytes.data(), s * stripe + 8 * i), keyed = data ^ key(s, i);
        total[i ^ 1] += data;
        total[i] += (keyed & low) * (keyed >> 32);
      }
    }
    return total;
  }
};

}  // namespace stitch
