#pragma once

#include <nanobind/nanobind.h>

namespace stitch::python {

/// xla_handler(): the handler of XLA's foreign-function interface that runs programs on host memory, as a capsule for
/// jax.ffi.register_ffi_target; None in a build without XLA's headers. xla_run_count(): how often it ran one.
void bind_xla(nanobind::module_& module);

}  // namespace stitch::python
