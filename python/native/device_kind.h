#pragma once

#include <string_view>

#include "client/open_executor.h"

namespace stitch::python {

/// "emulated" or "cuda". Error: invalid_argument (another word).
inline Result<client::DeviceKind> device_kind(std::string_view device) {
  if (device == "emulated") return client::DeviceKind::emulated;
  if (device == "cuda") return client::DeviceKind::cuda;
  return make_error(ErrorKind::invalid_argument, "device '{}' is none: \"emulated\" or \"cuda\"", device);
}

}  // namespace stitch::python
