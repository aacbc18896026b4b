#pragma once

#include <nanobind/nanobind.h>

namespace stitch::python {

/// `_native.DeviceArray`, and `_native.synchronize`.
void bind_device_array(nanobind::module_& module);

}  // namespace stitch::python
