#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/program/in_place.h"
#include "kernel/program/unwaited_loads.h"
#include "kernel/structure/scalar_program.h"

namespace stitch::codegen {

/// One 8-byte kernel argument.
struct Argument {
  enum class Kind : std::uint8_t {
    buffer,   ///< address of an input, output or scratch tensor
    integer,  ///< a number known when the kernel was generated (extents and tile offsets of packed groups)
  };
  Kind kind = Kind::buffer;
  kernel::Buffer buffer;
  std::int64_t integer = 0;
  bool operator==(const Argument&) const = default;
};

/// Device memory that a kernel needs besides its inputs and outputs.
struct ScratchBuffer {
  std::int64_t bytes = 0;
  bool zeroed = false;  ///< must be zero before the first launch; the kernel leaves it ready for the next one
  bool operator==(const ScratchBuffer&) const = default;
};

/// A kernel as source, with everything needed to launch it. Arguments are laid out one after the other, 8 bytes each.
struct GeneratedKernel {
  std::string name;
  std::string source;
  std::vector<Argument> arguments;
  std::vector<ScratchBuffer> scratch;  ///< Buffer::Kind::scratch numbers refer to these
  std::int64_t blocks = 1;             ///< grid (1-D)
  int threads = 1;                     ///< block (1-D)
  int cluster = 1;
  std::int64_t shared_bytes = 0;          ///< dynamic
  bool cooperative = false;               ///< all blocks must be resident together
  std::vector<kernel::InPlace> in_place;  ///< results that may lie where arguments do: its buffers of these numbers
  /// What it loads before it waits for the launch before: GenerateOptions::unwaited, as far as it has such loads.
  kernel::UnwaitedInputs unwaited = 0;
  /// What it must be compiled with, whoever compiles it (CompileRequest::options).
  std::vector<std::string> compile_options;
};

struct GenerateOptions {
  std::string name = "stitch_kernel";
  std::string comment;  ///< first lines of the source
  /// Blocks that must fit an SM together: the compiler keeps the registers within that, and takes as many as that
  /// leaves to have more loads in flight. 0: it keeps them few, and issues loads one after the other for it.
  int blocks_per_sm = 0;
  /// Inputs that nobody writes while the launch before still runs, wherever the kernel is launched.
  kernel::UnwaitedInputs unwaited = 0;
};

}  // namespace stitch::codegen
