#pragma once

#include "api/program_document.h"
#include "client/executor.h"

namespace stitch::client {

/// Whether buffers are as many, large and aligned as the program's inputs and outputs; invalid_argument names the port.
Status check_ports(const api::Program& program, Inputs parameters, Outputs results);
/// The same of addresses in device memory, of which the sizes are not known.
Status check_ports(const api::Program& program, Addresses parameters, Addresses results);

}  // namespace stitch::client
