#pragma once

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

namespace stitch::driver {

/// What a caller wants to hear of the compiler of PTX.
class JitLog {
 public:
  JitLog(unsigned count, CUjit_option* options, void** values) {
    for (unsigned i = 0; options != nullptr && i < count; ++i) {
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER) buffer_ = static_cast<char*>(values[i]);
      if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
        size_ = &values[i];
        room_ = static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(values[i]));
      }
      if (options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) info_size_ = &values[i];
    }
  }
  void write(const std::string& text) const {
    if (info_size_ != nullptr) *info_size_ = nullptr;
    if (size_ == nullptr) return;
    const std::size_t bytes = buffer_ == nullptr || room_ == 0 ? 0 : std::min(text.size(), room_ - 1);
    if (buffer_ != nullptr && room_ > 0) {
      std::memcpy(buffer_, text.data(), bytes);
      buffer_[bytes] = '\0';
    }
    *size_ = reinterpret_cast<void*>(bytes);
  }

 private:
  char* buffer_ = nullptr;
  void** size_ = nullptr;  ///< in: the room; out: what was written
  std::size_t room_ = 0;
  void** info_size_ = nullptr;
};

}  // namespace stitch::driver
