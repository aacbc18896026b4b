#pragma once

#include "driver/api/entry.h"

namespace stitch::driver {

/// Checks a copy: both ends lie in memory that is there. A pageable source is taken now unless the caller `waits` for
/// the copy; `to_pageable`: the target is pageable, so that the call has to wait. Errors: CUDA_ERROR_INVALID_VALUE,
/// CUDA_ERROR_NOT_SUPPORTED (arrays).
CUresult prepare_copy(Call& call, const CUDA_MEMCPY3D& shape, bool waits, CopyWork& work, bool& to_pageable);
/// Checks a fill: the device reaches all of it. Error: CUDA_ERROR_INVALID_VALUE.
CUresult prepare_fill(Call& call, const CUDA_MEMSET_NODE_PARAMS& shape);

}  // namespace stitch::driver
