#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/subprocess.h"

namespace stitch::codegen {

struct DisassemblerOptions {
  std::filesystem::path nvdisasm;  ///< the program; looked up on PATH when empty
  double timeout_seconds = 60;
  bool encodings = false;  ///< with the encoding of each instruction (-hex), which has its stall counts and scoreboards
};

/// The SASS listing of a cubin, as `nvdisasm -c` prints it. Optional: the tool comes with the CUDA toolkit. Cubins are
/// made of what strangers sent, so that it runs confined (codegen/compile/confined_process.h): it reads the cubin and
/// the system's libraries, and can neither write a file nor start a program nor reach a network. Errors: unavailable
/// (no nvdisasm), invalid_argument (it refuses the cubin; its message is quoted), timeout, io.
Result<std::string> disassemble(std::string_view cubin, ProcessLauncher& launcher,
                                const DisassemblerOptions& options = {});

}  // namespace stitch::codegen
