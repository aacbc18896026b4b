#pragma once

namespace stitch::driver {

/// Says in the log that a function is not there, and returns CUDA_ERROR_NOT_SUPPORTED.
int refuse_unsupported(const char* function);

}  // namespace stitch::driver
