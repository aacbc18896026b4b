#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/program/program.h"

namespace stitch::kernel {

/// How the loads of a group and its plain stores touch memory.
struct GroupAccesses {
  std::vector<Access> loads;                ///< by ItemId; of what is no load, an Access as it is made
  std::vector<std::vector<Access>> stores;  ///< by anchor: of one that stores, one entry
};

/// Finds the widest accesses that alignment and guards allow, where each thread takes vectors of `vector_extent`
/// elements along `vector_axis` (-1: single elements). `shift`: of a mapping whose rows are shifted. Nothing else of a
/// mapping matters, so that mappings which agree in these share the result.
GroupAccesses find_accesses(const GroupStructure& structure, int vector_axis, std::int64_t vector_extent,
                            const std::optional<Misalignment>& shift);

}  // namespace stitch::kernel
