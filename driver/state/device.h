#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/device_spec.h"
#include "base/result.h"

namespace stitch::driver {

/// A GPU that is only pretended: figures of the device table, and a name and a UUID that say that it is emulated.
struct EmulatedDevice {
  DeviceSpec spec;
  int ordinal = 0;
  std::string name;  ///< "NVIDIA H100-SXM5-80GB (emulated by Stitch)"
  CUuuid uuid{};     ///< "Stitch-emulated" and the ordinal, byte by byte
  std::uint64_t memory_bytes = 0;

  /// As cuDeviceGetAttribute tells it; empty for attributes that there are not.
  [[nodiscard]] std::optional<int> attribute(CUdevice_attribute which) const;
  [[nodiscard]] std::string pci_bus_id() const;
};

/// The devices that STITCH_EMULATED_DEVICE names, by their short names and in its order, with commas between them;
/// one h100 if it is not set. Error: not_found, with the names there are.
Result<std::vector<EmulatedDevice>> emulated_devices();

}  // namespace stitch::driver
