#pragma once

#include <string>

#include "cuda/cudnn.h"

namespace stitch::driver {

/// What a call of the emulated cuDNN came to.
struct Outcome {
  cuda::dnn::Status status = cuda::dnn::Status::success;
  std::string why;  ///< empty where it is a success

  explicit operator bool() const { return status == cuda::dnn::Status::success; }
};

}  // namespace stitch::driver
