#pragma once

#include <nanobind/nanobind.h>

namespace stitch::python {

/// What a runtime of ONNX files needs: their declared inputs and outputs, and graphs of them for given extents.
void bind_onnx(nanobind::module_& module);

}  // namespace stitch::python
