#pragma once

#include <cuda.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace stitch::driver {

/// Memory that a library's call reads or writes: lines, `pitch` bytes from one to the next.
struct LibraryAccess {
  CUdeviceptr address = 0;
  std::size_t line_bytes = 0, pitch = 0, lines = 1;
  bool writes = false;

  /// From the first line's begin to the last one's end.
  [[nodiscard]] std::size_t span_bytes() const {
    return line_bytes == 0 || lines == 0 ? 0 : (lines - 1) * pitch + line_bytes;
  }
};

/// What a library that comes with the driver has the device do (driver/cublas_lt_main.cpp). Its kernels are machine
/// code, which nobody emulates; what they compute is computed on the host, and what they touch is checked.
struct LibraryWork {
  std::string name;
  std::vector<LibraryAccess> accesses;
  /// Given the bytes that the accesses span, in their order; those of lines that are written go back.
  std::function<void(std::span<std::vector<std::byte>> memory)> run;
};

}  // namespace stitch::driver

/// Exported by the emulated driver: puts a library's call on a stream, or into the graph that it is captured into.
extern "C" CUresult stitch_emulated_library_call(CUstream stream, const stitch::driver::LibraryWork& work);
