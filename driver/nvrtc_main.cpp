// NVRTC for programs that run on the emulated driver. Machine code cannot be emulated, and many programs ask NVRTC for
// nothing else; but NVRTC has made it from PTX, which it tells as well. So this library stands in front of the
// toolkit's: it passes every call on, and when a program takes a cubin, files the PTX in the folder STITCH_EMULATED_PTX
// under the cubin's hash, where the driver finds it (state/image.h).
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "driver/state/image.h"

#if !defined(__x86_64__)
#error "the trampolines are x86-64's"
#endif

// Every function of NVRTC but the one that is watched: a jump through a slot that is filled when the library is loaded.
#define STITCH_NVRTC_FUNCTIONS(row)                                                                                    \
  row(nvrtcAddNameExpression) row(nvrtcCompileProgram) row(nvrtcCreateProgram) row(nvrtcDestroyProgram)                \
      row(nvrtcFlowCallback) row(nvrtcGetCUBINSize) row(nvrtcGetErrorString) row(nvrtcGetLTOIR) row(nvrtcGetLTOIRSize) \
          row(nvrtcGetLoweredName) row(nvrtcGetNVVM) row(nvrtcGetNVVMSize) row(nvrtcGetNumSupportedArchs)              \
              row(nvrtcGetOptiXIR) row(nvrtcGetOptiXIRSize) row(nvrtcGetPCHCreateStatus) row(nvrtcGetPCHHeapSize)      \
                  row(nvrtcGetPCHHeapSizeRequired) row(nvrtcGetPTX) row(nvrtcGetPTXSize) row(nvrtcGetProgramLog)       \
                      row(nvrtcGetProgramLogSize) row(nvrtcGetSupportedArchs) row(nvrtcSetFlowCallback)                \
                          row(nvrtcSetPCHHeapSize) row(nvrtcVersion)

extern "C" {
#define STITCH_SLOT(name) void* stitch_slot_##name;
STITCH_NVRTC_FUNCTIONS(STITCH_SLOT)
#undef STITCH_SLOT
void* stitch_slot_nvrtcGetCUBIN;
}

#define STITCH_TRAMPOLINE(name) \
  asm(".globl " #name "\n.type " #name ", @function\n" #name ": jmp *stitch_slot_" #name "(%rip)\n");
STITCH_NVRTC_FUNCTIONS(STITCH_TRAMPOLINE)
#undef STITCH_TRAMPOLINE

namespace {

/// What a function that this NVRTC lacks returns: NVRTC_ERROR_INTERNAL_ERROR.
int no_such_function() { return 11; }

void* find(void* library, const char* name) {
  void* found = ::dlsym(library, name);
  return found != nullptr ? found : reinterpret_cast<void*>(no_such_function);
}

__attribute__((constructor)) void fill_slots() {
  const char* chosen = std::getenv("STITCH_NVRTC");
  const char* path = chosen != nullptr && *chosen != '\0' ? chosen : STITCH_NVRTC_LIBRARY;
  void* library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) std::fprintf(stderr, "stitch emulated driver: no NVRTC: %s\n", ::dlerror());
#define STITCH_FILL(name) \
  stitch_slot_##name = library == nullptr ? reinterpret_cast<void*>(no_such_function) : find(library, #name);
  STITCH_NVRTC_FUNCTIONS(STITCH_FILL)
  STITCH_FILL(nvrtcGetCUBIN)
#undef STITCH_FILL
}

template <class Function>
Function* slot(void* address) {
  return reinterpret_cast<Function*>(address);
}

/// Files the program's PTX under the name of its cubin, whole or not at all.
void keep_ptx(void* program, const char* cubin) {
  const char* folder = std::getenv("STITCH_EMULATED_PTX");
  if (folder == nullptr || *folder == '\0') return;
  std::size_t bytes = 0;
  if (slot<int(void*, std::size_t*)>(stitch_slot_nvrtcGetPTXSize)(program, &bytes) != 0 || bytes <= 1) return;
  std::string text(bytes, '\0');
  if (slot<int(void*, char*)>(stitch_slot_nvrtcGetPTX)(program, text.data()) != 0) return;
  text.resize(bytes - 1);
  const std::string path = std::string(folder) + "/" + stitch::driver::ptx_name(cubin);
  std::ofstream(path + ".new") << text;
  std::error_code ignored;
  std::filesystem::rename(path + ".new", path, ignored);
}

}  // namespace

extern "C" int nvrtcGetCUBIN(void* program, char* cubin);
extern "C" int nvrtcGetCUBIN(void* program, char* cubin) {
  const int result = slot<int(void*, char*)>(stitch_slot_nvrtcGetCUBIN)(program, cubin);
  if (result == 0) keep_ptx(program, cubin);
  return result;
}
