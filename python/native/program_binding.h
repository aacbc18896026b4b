#pragma once

#include <nanobind/nanobind.h>

namespace stitch::python {

/// stitch._native.Program: a whole model, run on arrays.
void bind_program(nanobind::module_& module);

}  // namespace stitch::python
