#pragma once

#include <cuda.h>

#include <string>

namespace stitch::driver {

/// What an image of a module is to the emulated driver.
struct ImageText {
  CUresult result = CUDA_SUCCESS;
  std::string ptx;      ///< of the module
  std::string message;  ///< why there is none
};

/// The PTX in an image as cuModuleLoadData takes it, whose size only it itself tells: PTX text; a fat binary
/// (fatbinary.h of the toolkit; also one wrapped for the linker) that holds PTX, compressed or not; or a cubin whose
/// PTX was filed beside it when it was compiled, under `ptx_name` in the folder STITCH_EMULATED_PTX (nvrtc_main.cpp
/// does). An image with machine code alone is CUDA_ERROR_NO_BINARY_FOR_GPU, as it is on a GPU of another architecture.
ImageText text_of_image(const void* image);

/// The name of the file that holds a cubin's PTX: of the cubin's content, which is an ELF file and says itself how
/// large it is.
std::string ptx_name(const void* cubin);

}  // namespace stitch::driver
