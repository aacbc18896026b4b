#pragma once

#include <string>
#include <vector>

namespace stitch::library {

/// Where NVIDIA's libraries are; of each the first that there is is taken.
struct StreamLibraries {
  std::vector<std::string> cublas_lt = usual_cublas_lt();
  std::vector<std::string> cudnn = usual_cudnn();

  /// STITCH_CUBLAS_LT where it is set (a file of a toolkit, or of PyPI's nvidia-cublas), and nothing else; or as the
  /// loader finds them, those of the process first: libcublasLt.so.13 and .12.
  static std::vector<std::string> usual_cublas_lt();
  /// Likewise STITCH_CUDNN (a file of PyPI's nvidia-cudnn-cu13), or libcudnn.so.9.
  static std::vector<std::string> usual_cudnn();
  /// Whether there is one for products; whether it works here is another matter.
  [[nodiscard]] bool are_there() const;
};

}  // namespace stitch::library
