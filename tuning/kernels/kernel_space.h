#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"
#include "search/schedule/kernel_cache.h"
#include "search/schedule/scorer.h"

namespace stitch::tuning {

struct KernelSpaceOptions {
  int candidates = 2000;    ///< at most
  int combinations = 4096;  ///< search::StitchOptions::combinations
};

/// The candidates of a kernel that are worth recording: those that tuning looks at, those that broad tuning looks at,
/// then half of the room for the best predictions of all legal ones and the rest for an even sample of the others, so
/// that a model's worst errors show as well. Where there is room for all legal ones, all.
struct KernelSpace {
  search::SharedKernel kernel;  ///< its candidates are in the order said
  std::int64_t legal = 0;       ///< that were found
  bool whole = false;           ///< `legal` counts every combination of mappings
};

/// `canonical` is copied. The same arguments give the same candidates in the same order. Errors: constraint (nothing is
/// legal).
Result<KernelSpace> kernel_space(const graph::Graph& canonical, const Hash128& key, const search::Scorer& scorer,
                                 const KernelSpaceOptions& options);

}  // namespace stitch::tuning
