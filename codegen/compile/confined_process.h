#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"

// Programs that work on what strangers sent run through stitch-compiler, which confines itself (base/confinement.h)
// before it compiles, or before another program takes its place.
namespace stitch::codegen {

/// stitch-compiler beside the running program, or on PATH.
std::string compiler_program();

/// A process with nothing of our environment but what its loader, its locale and a build with sanitizers or coverage
/// look at, which ends with us. `program`: stitch-compiler; empty: compiler_program().
ProcessOptions compiler_process(const std::string& program);

/// What another program may do that works on what came of strangers.
struct ConfinedProgram {
  std::vector<std::string> arguments;           ///< the program (looked up on PATH unless it has a slash), and its own
  std::vector<std::filesystem::path> readable;  ///< besides the system's libraries and the program itself
  std::int64_t memory_bytes = 0;
};

/// A process in which it runs so. Error: not_found (no such program).
Result<ProcessOptions> confined_process(const ConfinedProgram& program);

}  // namespace stitch::codegen
