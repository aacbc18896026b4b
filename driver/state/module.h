#pragma once

#include <cuda.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/state/device.h"
#include "emulator/decode/module_contents.h"
#include "emulator/decode/program.h"

namespace stitch::driver {

/// A module's text, read once; what modules and libraries have in common. Immutable but for kernels that are decoded
/// when they are first asked for: only then is an instruction that the emulator lacks an error.
class LoadedText {
 public:
  /// `serial`: makes the variables of equal texts that are loaded twice two. Error: parse.
  static Result<std::shared_ptr<LoadedText>> load(std::string ptx, std::uint64_t serial);

  [[nodiscard]] const emulator::ModuleContents& contents() const { return contents_; }
  [[nodiscard]] const emulator::DeclaredKernel* kernel(std::string_view name) const;
  /// Errors: unsupported, parse (naming the PTX line).
  Result<emulator::Program> program(const std::string& name);

 private:
  std::string ptx_;
  emulator::ModuleContents contents_;
  std::mutex mutex_;
  std::map<std::string, emulator::Program> programs_;
};

/// A kernel as a handle names it, with the attributes that can be set.
struct Kernel {
  std::shared_ptr<LoadedText> text;
  emulator::Program program;
  const emulator::DeclaredKernel* declared = nullptr;
  CUmodule module = nullptr;    ///< of a function; null of a library's kernel
  CUlibrary library = nullptr;  ///< of a library's kernel
  int dynamic_shared = 0;       ///< the most that it may be launched with; 0: what is had without asking
  int carveout = -1;
  bool large_clusters = false;
  std::array<int, 3> cluster = {0, 0, 0};

  explicit Kernel(emulator::Program decoded) : program(std::move(decoded)) {}
  [[nodiscard]] const std::string& name() const { return program.name(); }
  /// The most dynamic shared memory that a launch may have.
  [[nodiscard]] std::int64_t shared_limit(const EmulatedDevice& device) const;
};

/// As cuFuncGetAttribute tells it. Registers are those of machine code, of which there is none: 32, or what launch
/// bounds leave.
std::optional<int> attribute_of(const Kernel& kernel, const EmulatedDevice& device, CUfunction_attribute which);
/// As cuFuncSetAttribute sets it.
CUresult set_attribute(Kernel& kernel, const EmulatedDevice& device, CUfunction_attribute which, int value);

/// Blocks of a kernel that fit an SM at a time: by threads, blocks, registers and shared memory.
int resident_blocks(const Kernel& kernel, const EmulatedDevice& device, std::uint64_t threads,
                    std::uint64_t dynamic_shared);

}  // namespace stitch::driver

/// cuda.h's handles, as the emulated driver has them.
struct CUfunc_st : stitch::driver::Kernel {
  using Kernel::Kernel;
};
struct CUkern_st : stitch::driver::Kernel {
  using Kernel::Kernel;
};
struct CUmod_st {
  std::shared_ptr<stitch::driver::LoadedText> text;
  CUcontext context = nullptr;
  CUlibrary library = nullptr;  ///< of which this is a context's instance
  std::map<std::string, std::shared_ptr<CUfunc_st>> functions;
};
struct CUlib_st {
  std::shared_ptr<stitch::driver::LoadedText> text;
  std::map<std::string, std::shared_ptr<CUkern_st>> kernels;
  std::map<CUcontext, CUmodule> modules;
};
