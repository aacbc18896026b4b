#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/structure/structure.h"

namespace stitch::kernel {

/// How far the run of an address along one axis begins behind a multiple of `modulus` elements: the address without
/// that axis, modulo `modulus`. Terms that are multiples of it are left out, so that equal ones compare equal.
struct Misalignment {
  std::int64_t constant = 0;                ///< in [0, modulus)
  std::vector<IndexPool::Term> terms = {};  ///< coefficients in [1, modulus)

  bool operator==(const Misalignment&) const = default;
  [[nodiscard]] bool none() const { return constant == 0 && terms.empty(); }
};

/// The same for a smaller modulus, which divides the other.
Misalignment modulo(const Misalignment& rest, std::int64_t modulus);

/// Nothing where the address is not the axis plus what does not depend on it. `modulus` is a power of two.
std::optional<Misalignment> misalignment(const ScalarProgram& program, Index address, int axis, std::int64_t modulus);

/// Axes that the terms depend on: those of rows.
AxisSet axes_of(const ScalarProgram& program, const Misalignment& rest);

/// Rows of a length that vectors do not divide begin anywhere in a vector: accesses of several elements are aligned in
/// such a row only if its vectors begin so many elements before its first one. By what the group moves most of along
/// `axis`; nothing where rows are aligned as they are, or where a thread would hand on what it has of a column to
/// another row (scans, scatters, reductions over rows). `vector`: elements, a power of two.
std::optional<Misalignment> row_shift(const GroupStructure& group, int axis, std::int64_t vector);

}  // namespace stitch::kernel
