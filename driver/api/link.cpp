// The linker of modules: PTX in, PTX out. What it makes is loaded as a cubin is.
#include <fstream>
#include <set>
#include <sstream>

#include "driver/api/entry.h"
#include "driver/api/jit_log.h"
#include "driver/state/image.h"
#include "driver/state/link.h"

struct CUlinkState_st {
  std::vector<stitch::driver::LinkInput> inputs;
  stitch::driver::JitLog log{0, nullptr, nullptr};
  std::string linked;  ///< until the state is destroyed
};

namespace stitch::driver {
namespace {

/// Which handles are linkers'; under the driver's lock.
std::set<CUlinkState>& linkers() {
  static std::set<CUlinkState> all;
  return all;
}

/// The PTX of an input, or why there is none.
CUresult text_of_input(Call& call, CUlinkState state, CUjitInputType type, const void* data, std::size_t bytes,
                       const std::string& name, std::string& text) {
  switch (type) {
    case CU_JIT_INPUT_PTX: {
      text.assign(static_cast<const char*>(data), bytes);
      text = text.c_str();  // the size may count the end
      return CUDA_SUCCESS;
    }
    case CU_JIT_INPUT_CUBIN:
    case CU_JIT_INPUT_FATBINARY: {
      ImageText found = text_of_image(data);
      if (found.result == CUDA_SUCCESS) {
        text = std::move(found.ptx);
        return CUDA_SUCCESS;
      }
      const std::string why = fmt::format("{}: {}", name, found.message);
      state->log.write(why);
      return call.refuse(found.result, why);
    }
    default: {
      const std::string why = fmt::format("{}: the emulated driver links PTX, not objects and libraries", name);
      state->log.write(why);
      return call.refuse(CUDA_ERROR_NOT_SUPPORTED, why, MisuseKind::unsupported);
    }
  }
}

}  // namespace
}  // namespace stitch::driver

using namespace stitch::driver;

CUresult CUDAAPI cuLinkCreate(unsigned count, CUjit_option* options, void** values, CUlinkState* state) {
  return entry([&](Call& call) -> CUresult {
    CUcontext context = nullptr;
    STITCH_CU_TRY(call.context(context));
    if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *state = new CUlinkState_st;
    (*state)->log = JitLog(count, options, values);
    linkers().insert(*state);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLinkAddData(CUlinkState state, CUjitInputType type, void* data, size_t bytes, const char* name,
                               unsigned, CUjit_option*, void**) {
  return entry([&](Call& call) -> CUresult {
    STITCH_CU_TRY(call.need(linkers(), state));
    if (data == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    LinkInput input;
    input.name = name != nullptr ? name : fmt::format("input {}", state->inputs.size() + 1);
    STITCH_CU_TRY(text_of_input(call, state, type, data, bytes, input.name, input.ptx));
    state->inputs.push_back(std::move(input));
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLinkAddFile(CUlinkState state, CUjitInputType type, const char* path, unsigned count,
                               CUjit_option* options, void** values) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::ostringstream contents;
  contents << file.rdbuf();
  std::string text = contents.str();
  return cuLinkAddData(state, type, text.data(), text.size(), path, count, options, values);
}

CUresult CUDAAPI cuLinkComplete(CUlinkState state, void** cubin, size_t* bytes) {
  return entry([&](Call& call) -> CUresult {
    STITCH_CU_TRY(call.need(linkers(), state));
    if (cubin == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto linked = link_modules(state->inputs);
    auto loaded = linked ? LoadedText::load(*linked, call.driver.next_serial()) : linked.error();
    if (!loaded) {
      state->log.write(loaded.error().message);
      return call.refuse(CUDA_ERROR_INVALID_PTX, fmt::format("cuLinkComplete: {}", loaded.error().message));
    }
    state->log.write("");
    state->linked = *std::move(linked);
    *cubin = state->linked.data();
    if (bytes != nullptr) *bytes = state->linked.size() + 1;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLinkDestroy(CUlinkState state) {
  return entry([&](Call& call) -> CUresult {
    STITCH_CU_TRY(call.need(linkers(), state));
    linkers().erase(state);
    delete state;
    return CUDA_SUCCESS;
  });
}
