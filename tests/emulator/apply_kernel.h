#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/emulator/kernel_run.h"

/// Kernels `(R* y, const T* x[, const T* z], int n)` of tests/data/emulator, applied to vectors and compared with host
/// functions element by element.
namespace stitch::emulator::test {

inline LaunchConfig shape_for(std::size_t count) { return shape(static_cast<std::uint32_t>((count + 127) / 128), 128); }

template <class R, class T>
std::vector<R> apply(const std::string& file, const std::string& kernel, const std::vector<T>& x,
                     const LaunchOptions& options = {}) {
  Memory memory;
  const Buffer y = make(memory, "y", x.size() * sizeof(R));
  ParameterBlock parameters;
  parameters.add(y).add(put(memory, "x", x)).add(static_cast<int>(x.size()));
  run_clean(load_kernel(file, kernel), shape_for(x.size()), parameters, memory, options);
  return get<R>(memory, y);
}

template <class R, class T>
std::vector<R> apply(const std::string& file, const std::string& kernel, const std::vector<T>& x,
                     const std::vector<T>& z, const LaunchOptions& options = {}) {
  Memory memory;
  const Buffer y = make(memory, "y", x.size() * sizeof(R));
  ParameterBlock parameters;
  parameters.add(y).add(put(memory, "x", x)).add(put(memory, "z", z)).add(static_cast<int>(x.size()));
  run_clean(load_kernel(file, kernel), shape_for(x.size()), parameters, memory, options);
  return get<R>(memory, y);
}

/// The extremes of a type, values around zero and around powers of two, and noise.
template <class T>
std::vector<T> interesting() {
  std::vector<T> values;
  if constexpr (std::is_floating_point_v<T>) {
    using L = std::numeric_limits<T>;
    for (
        const T v :
        {T(0),     L::denorm_min(), L::min(), L::min() / 2,  T(0.1),          T(0.5),          T(1),
         T(1.5),   T(2.5),          T(3),     T(127),        T(128),          T(255.5),        T(32767),
         T(65504), T(65520),        T(70000), T(2147483520), T(2147483648.0), T(4294967296.0), T(9223372036854775808.0),
         L::max(), L::infinity()}) {
      values.push_back(v);
      values.push_back(-v);
    }
    values.push_back(L::quiet_NaN());
  } else {
    for (int bit = 0; bit < static_cast<int>(sizeof(T) * 8); ++bit) {
      const std::uint64_t power = std::uint64_t{1} << bit;
      for (const int offset : {-1, 0, 1}) values.push_back(static_cast<T>(power + static_cast<std::uint64_t>(offset)));
    }
    values.push_back(static_cast<T>(-7));
    values.push_back(std::numeric_limits<T>::min());
    values.push_back(std::numeric_limits<T>::max());
  }
  for (std::uint64_t i = 0; i < 200; ++i) {
    const std::uint64_t bits = mix(sizeof(T), i);
    if constexpr (sizeof(T) == 4) {
      values.push_back(std::bit_cast<T>(static_cast<std::uint32_t>(bits)));
    } else if constexpr (sizeof(T) == 8) {
      values.push_back(std::bit_cast<T>(bits));
    } else {
      values.push_back(static_cast<T>(bits));
    }
  }
  return values;
}

/// Pairs of them: every extreme with every other (in a fixed shuffle when there are many).
template <class T>
void interesting_pairs(std::vector<T>& x, std::vector<T>& z) {
  const std::vector<T> values = interesting<T>();
  for (std::size_t shift = 0; shift < values.size(); shift += 1 + shift / 8) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      x.push_back(values[i]);
      z.push_back(values[(i + shift) % values.size()]);
    }
  }
}

template <class T>
std::string bits_text(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    return fmt::format("{} (0x{:x})", value, std::bit_cast<Bits>(value));
  } else {
    return fmt::format("{}", +value);
  }
}

template <class T>
bool same_value(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
  } else {
    return a == b;
  }
}

/// y[i] == f(x[i], z[i]); NaN equals NaN, and zeros have the same sign.
template <class R, class T, class F>
void expect_equal(const std::string& name, const std::vector<T>& x, const std::vector<T>& z, const std::vector<R>& y,
                  F&& f) {
  int shown = 0;
  for (std::size_t i = 0; i < x.size() && shown < 5; ++i) {
    const R wanted = f(x[i], z[i]);
    if (same_value(y[i], wanted)) continue;
    ++shown;
    ADD_FAILURE() << name << " of " << bits_text(x[i]) << " and " << bits_text(z[i]) << " gives " << bits_text(y[i])
                  << ", not " << bits_text(wanted);
  }
}

}  // namespace stitch::emulator::test
