#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "emulator/decode/code.h"

namespace stitch::emulator {

/// A kernel as its module declares it, before anything of it is decoded.
struct DeclaredKernel {
  std::string name;
  std::vector<KernelParameter> parameters;
  // Programmatic dependent launch, as the text has it:
  bool waits_for_primary = false;  ///< has a griddepcontrol.wait
  bool releases_early = false;     ///< has a griddepcontrol.launch_dependents that no wait stands before
};

/// What a PTX module holds.
struct ModuleContents {
  Hash128 module;   ///< as Code::module
  int version = 0;  ///< of the PTX ISA: 90 for 9.0
  std::string target;
  std::vector<DeclaredKernel> kernels;
  std::vector<ModuleVariable> variables;  ///< .global and .const, in order of appearance
};

/// Reads a module's declarations; its instructions need not be known. Error: parse (naming the PTX line).
Result<ModuleContents> read_module(std::string_view ptx);

}  // namespace stitch::emulator
