#pragma once

#include <string_view>

#include "base/result.h"

namespace stitch::costmodel {

/// A kernel in a cubin, as far as its own headers tell.
struct CubinKernel {
  std::string_view entry;
  std::string_view code;  ///< 16 bytes an instruction; refers to the cubin
  int architecture = 0;   ///< 90: sm_90, sm_90a
  int registers = 0;      ///< of a thread
  int threads = 0;        ///< of a block, at most or always; 0 where the source does not say
  int shared_bytes = 0;   ///< static ones, with what the system reserves where the linker counts it
};

/// Finds `entry`, or the only kernel there is when it is empty. Sections and attributes are those that ptxas 12 and 13
/// write (`.text.ENTRY`, `.nv.info`: EIATTR_REGCOUNT, EIATTR_MAX_THREADS, EIATTR_REQNTID). Errors: parse, naming what
/// is missing; an architecture before sm_70, whose instructions are encoded otherwise.
Result<CubinKernel> find_kernel(std::string_view cubin, std::string_view entry = {});

}  // namespace stitch::costmodel
