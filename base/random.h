#pragma once

#include <cstdint>

#include "base/hash.h"

namespace stitch {

/// A counter-based generator: the i-th number of a stream is a pure function of (seed, i), so that any element of a
/// buffer can be made on demand, in any order, by any thread.
constexpr std::uint64_t random_at(std::uint64_t seed, std::uint64_t index) { return mix(mix(seed, index), index); }

/// Uniform in [0, 1) with 53 random bits.
constexpr double uniform_at(std::uint64_t seed, std::uint64_t index) {
  return (random_at(seed, index) >> 11) * 0x1.0p-53;
}

/// The same generator as a sequence; satisfies UniformRandomBitGenerator.
class Random {
 public:
  using result_type = std::uint64_t;

  explicit constexpr Random(std::uint64_t seed) : seed_(seed) {}
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return ~result_type{0}; }
  constexpr result_type operator()() { return random_at(seed_, index_++); }

  /// Uniform in [0, bound); bound > 0.
  constexpr std::uint64_t below(std::uint64_t bound) { return (*this)() % bound; }
  constexpr double uniform() { return ((*this)() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t seed_;
  std::uint64_t index_ = 0;
};

}  // namespace stitch
