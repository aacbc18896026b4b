#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "db/store.h"
#include "tuning/kernels/kernel_search.h"

namespace stitch::tuning {

/// Names a candidate in the store: by its kernel and the schedule itself, as its place among the candidates depends on
/// who ranks them.
std::string schedule_document(const Hash128& kernel, const Hash128& schedule);

/// What a store knows of the kernels of one fragment: what became of their candidates, and what was measured of kernels
/// like them, in measured plans of fragments of the same family (other shapes) and of the fragment itself on other
/// GPUs.
class FragmentHistory {
 public:
  FragmentHistory() = default;
  /// `device`: key of the device that measures now; of what was tried for `key.target` only its times are the kernels'
  /// own. Errors: those of the store; corrupt (a record that makes no sense).
  static Result<FragmentHistory> read(const db::Store& store, const db::PlanKey& key, const Hash128& family,
                                      const std::string& device);

  /// `kernel`: key of its canonical graph; `family`: its family key.
  [[nodiscard]] KernelHistory of(const Hash128& kernel, const Hash128& family) const;

 private:
  std::unordered_map<Hash128, std::vector<KnownTrial>> own_;   ///< by kernel
  std::unordered_map<Hash128, std::vector<KnownTrial>> near_;  ///< by family of kernels
};

}  // namespace stitch::tuning
