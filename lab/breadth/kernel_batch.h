#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "codegen/compile/nvrtc.h"
#include "codegen/generated_kernel.h"
#include "profiler/device/device.h"

namespace stitch::lab {

/// Compiles kernels of different names to PTX, all in one go: of a compilation by itself most of the time goes to
/// starting NVRTC and reading the device headers. No cubin is made, for the emulator has no use for one.
///
/// One image or error for each kernel, in their order. When the batch does not compile, each is compiled alone, so that
/// an error is that of the kernel at fault: compile (with NVRTC's log), and those of Nvrtc::compile.
std::vector<Result<profiler::KernelImage>> compile_batch(const codegen::Nvrtc& nvrtc,
                                                         const std::vector<const codegen::GeneratedKernel*>& kernels,
                                                         const std::string& architecture);

/// The module of one entry: the text without the other entries. A module is read for every kernel that is loaded.
std::string ptx_of_entry(const std::string& ptx, const std::string& entry);

}  // namespace stitch::lab
