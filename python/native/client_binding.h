#pragma once

#include <nanobind/nanobind.h>

namespace stitch::python {

/// stitch._native.Client and Plan: a server, and what was fetched from it to run.
void bind_client(nanobind::module_& module);

}  // namespace stitch::python
