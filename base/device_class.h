#pragma once

#include <string>
#include <string_view>

#include "base/device_spec.h"
#include "base/device_traits.h"
#include "base/result.h"

namespace stitch {

/// GPUs that plan alike: an entry of the device table, or what is no entry (a slice of a GPU, a variant, a GPU of later
/// than this table), which is a class of its own. Plans hold for one class (db::Target::device is its name) and are no
/// more than near on another.
struct DeviceClass {
  /// What to plan with. The name of an entry is the table's; of others "h100~sm16-l2.6400-gbs419-mig1g.10gb": the entry
  /// that the constants come from and what differs (SMs, KiB of L2, GB/s of memory, …), so that the name says it all.
  DeviceSpec spec;
  bool listed = true;   ///< an entry of the table
  std::string nearest;  ///< the entry that the constants come from; its own name if it is listed
};

/// The class of the GPU that a driver reports so. Compute capability, SMs and shared memory must be an entry's, L2 and
/// bandwidth within what drivers and boards differ by. Others get constants of the nearest entry of the same compute
/// capability (or else of the nearest capability): SMs, L2, bandwidth and the bounds of an SM are the GPU's own, L2
/// bandwidth goes by SMs, or by the share of memory for MIG; the rest is the entry's, and `spec.source` says so.
/// Error: invalid_argument (nothing was reported).
Result<DeviceClass> classify(const DeviceTraits& traits);

/// The class of a name, of either kind. Error: invalid_argument, naming the entries there are or what is wrong.
Result<DeviceClass> find_device_class(std::string_view name);

}  // namespace stitch
