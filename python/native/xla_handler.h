#pragma once

#include <nanobind/nanobind.h>

namespace stitch::python {

/// Handlers of XLA's foreign-function interface as capsules for jax.ffi.register_ffi_target; None in a build without
/// XLA's headers. xla_handler(): runs programs on host memory. xla_stream_handlers(): by stage, "initialize" opens a
/// program on a GPU, "execute" enqueues it on XLA's stream, also while that is captured. xla_run_count(): how often
/// either ran one.
void bind_xla(nanobind::module_& module);

}  // namespace stitch::python
