// Modules, libraries, and the kernels and variables in them.
#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "driver/api/entry.h"
#include "driver/api/jit_log.h"
#include "driver/state/image.h"

using namespace stitch::driver;
namespace emulator = stitch::emulator;

namespace {

/// "sm_90a" as 90; "compute_90" does not occur in PTX.
int architecture_of(const std::string& target) {
  int number = 0;
  for (const char c : target) {
    if (c >= '0' && c <= '9') number = number * 10 + c - '0';
  }
  return number;
}

bool is_specific(const std::string& target) { return target.ends_with('a'); }

CUresult load_text(Call& call, const void* image, const JitLog& log, std::shared_ptr<LoadedText>& text) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ImageText found = text_of_image(image);
  if (found.result != CUDA_SUCCESS) {
    log.write(found.message);
    return call.refuse(found.result, found.message);
  }
  auto loaded = LoadedText::load(std::move(found.ptx), call.driver.next_serial());
  if (!loaded) {
    log.write(loaded.error().message);
    return call.refuse(CUDA_ERROR_INVALID_PTX, loaded.error().message);
  }
  const std::string& target = (*loaded)->contents().target;
  const auto& spec = call.driver.devices.front().spec;
  const int device = spec.compute_major * 10 + spec.compute_minor;
  const int wanted = architecture_of(target);
  if (wanted > device || (is_specific(target) && wanted != device)) {
    const std::string why = fmt::format("PTX for {} does not run on sm_{}", target, device);
    log.write(why);
    return call.refuse(CUDA_ERROR_NO_BINARY_FOR_GPU, why);
  }
  log.write("");
  text = *std::move(loaded);
  ++call.driver.images_loaded;
  return CUDA_SUCCESS;
}

CUresult place_variables(Call& call, const LoadedText& text, CUcontext context) {
  Allocation details;
  details.kind = MemoryKind::variable;
  details.context = context;
  details.device = context->device;
  const auto placed = call.driver.memory.place(text.contents().module, text.contents().variables, details);
  return placed ? CUDA_SUCCESS : call.refuse(CUDA_ERROR_OUT_OF_MEMORY, placed.error().message);
}

CUresult new_module(Call& call, CUcontext context, std::shared_ptr<LoadedText> text, CUlibrary library,
                    CUmodule& module) {
  STITCH_CU_TRY(place_variables(call, *text, context));
  module = new CUmod_st;
  module->text = std::move(text);
  module->context = context;
  module->library = library;
  call.driver.modules.insert(module);
  return CUDA_SUCCESS;
}

/// Decodes a kernel: what the emulator cannot do is an error here.
CUresult decode(Call& call, LoadedText& text, const char* name, std::optional<emulator::Program>& program) {
  if (text.kernel(name) == nullptr) return CUDA_ERROR_NOT_FOUND;
  auto decoded = text.program(name);
  if (!decoded) {
    return call.refuse(CUDA_ERROR_NOT_SUPPORTED, fmt::format("kernel {}: {}", name, decoded.error().message),
                       MisuseKind::unsupported);
  }
  program = *std::move(decoded);
  return CUDA_SUCCESS;
}

CUresult function_of(Call& call, CUmodule module, const char* name, CUfunction& function) {
  std::shared_ptr<CUfunc_st>& known = module->functions[name];
  if (known == nullptr) {
    std::optional<emulator::Program> program;
    if (const CUresult result = decode(call, *module->text, name, program); result != CUDA_SUCCESS) {
      module->functions.erase(name);
      return result;
    }
    known = std::make_shared<CUfunc_st>(*std::move(program));
    known->text = module->text;
    known->declared = module->text->kernel(name);
    known->module = module;
    call.driver.kernels[known.get()] = known;
  }
  function = known.get();
  return CUDA_SUCCESS;
}

CUresult kernel_of(Call& call, CUlibrary library, const char* name, CUkernel& kernel) {
  std::shared_ptr<CUkern_st>& known = library->kernels[name];
  if (known == nullptr) {
    std::optional<emulator::Program> program;
    if (const CUresult result = decode(call, *library->text, name, program); result != CUDA_SUCCESS) {
      library->kernels.erase(name);
      return result;
    }
    known = std::make_shared<CUkern_st>(*std::move(program));
    known->text = library->text;
    known->declared = library->text->kernel(name);
    known->library = library;
    call.driver.kernels[known.get()] = known;
  }
  kernel = known.get();
  return CUDA_SUCCESS;
}

/// A library's instance in the current context.
CUresult instance_of(Call& call, CUlibrary library, CUmodule& module) {
  CUcontext context = nullptr;
  STITCH_CU_TRY(call.context(context));
  CUmodule& known = library->modules[context];
  if (known == nullptr) STITCH_CU_TRY(new_module(call, context, library->text, library, known));
  module = known;
  return CUDA_SUCCESS;
}

CUresult variable_of(Call& call, CUmodule module, const char* name, CUdeviceptr* address, size_t* bytes) {
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& contents = module->text->contents();
  const auto found = std::ranges::find(contents.variables, std::string(name), &emulator::ModuleVariable::name);
  if (found == contents.variables.end()) return CUDA_ERROR_NOT_FOUND;
  Allocation details;
  const auto buffers = call.driver.memory.place(contents.module, {&*found, 1}, details);
  if (!buffers) return CUDA_ERROR_OUT_OF_MEMORY;
  if (address != nullptr) *address = buffers->front().address;
  if (bytes != nullptr) *bytes = found->bytes;
  return CUDA_SUCCESS;
}

CUresult load_module(CUmodule* module, const void* image, const JitLog& log) {
  return entry([&](Call& call) -> CUresult {
    CUcontext context = nullptr;
    STITCH_CU_TRY(call.context(context));
    if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<LoadedText> text;
    STITCH_CU_TRY(load_text(call, image, log, text));
    return new_module(call, context, std::move(text), nullptr, *module);
  });
}

CUresult read_file(const char* path, std::string& contents) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  std::ostringstream text;
  text << file.rdbuf();
  contents = text.str();
  return CUDA_SUCCESS;
}

CUresult parameter_info(const Kernel& kernel, size_t index, size_t* offset, size_t* size) {
  const auto& parameters = kernel.program.parameters();
  if (offset == nullptr || index >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = parameters[index].offset;
  if (size != nullptr) *size = parameters[index].bytes;
  return CUDA_SUCCESS;
}

/// The body of a function about a kernel, by either kind of handle.
template <class Body>
CUresult kernel_entry(const void* handle, Body&& body) {
  return entry([&](Call& call) -> CUresult {
    const auto found = call.driver.kernels.find(handle);
    if (found == call.driver.kernels.end()) return CUDA_ERROR_INVALID_HANDLE;
    return body(call, *found->second);
  });
}

const EmulatedDevice& device_of(Call& call, CUdevice ordinal) {
  return call.driver.devices[std::clamp<int>(ordinal, 0, static_cast<int>(call.driver.devices.size()) - 1)];
}

CUdevice current_device() { return context_stack().empty() ? 0 : context_stack().back()->device; }

}  // namespace

CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  return load_module(module, image, JitLog(0, nullptr, nullptr));
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, CUjit_option* options,
                                    void** values) {
  return load_module(module, image, JitLog(count, options, values));
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return load_module(module, image, JitLog(0, nullptr, nullptr));
}

CUresult CUDAAPI cuModuleLoad(CUmodule* module, const char* path) {
  std::string image;
  STITCH_CU_TRY(read_file(path, image));
  return cuModuleLoadData(module, image.c_str());
}

CUresult CUDAAPI cuModuleUnload(CUmodule module) {
  return entry([&](Call& call) -> CUresult {
    STITCH_CU_TRY(call.need(call.driver.modules, module));
    CUcontext context = module->context;
    if (context->fault.load() != CUDA_SUCCESS) return static_cast<CUresult>(context->fault.load());
    call.driver.wait(call.lock, call.driver.all_of(context));
    call.driver.unload(module);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return entry([&](Call& call) -> CUresult {
    if (!all_given(function, name)) return CUDA_ERROR_INVALID_VALUE;
    STITCH_CU_TRY(call.need(call.driver.modules, module));
    return function_of(call, module, name, *function);
  });
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned* count, CUmodule module) {
  return entry([&](Call& call) -> CUresult {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    STITCH_CU_TRY(call.need(call.driver.modules, module));
    *count = static_cast<unsigned>(module->text->contents().kernels.size());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule module) {
  return entry([&](Call& call) -> CUresult {
    if (functions == nullptr) return CUDA_ERROR_INVALID_VALUE;
    STITCH_CU_TRY(call.need(call.driver.modules, module));
    const auto& kernels = module->text->contents().kernels;
    for (unsigned i = 0; i < count && i < kernels.size(); ++i) {
      STITCH_CU_TRY(function_of(call, module, kernels[i].name.c_str(), functions[i]));
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
  return entry([&](Call& call) -> CUresult {
    STITCH_CU_TRY(call.need(call.driver.modules, module));
    return variable_of(call, module, name, address, bytes);
  });
}

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary* library, const void* code, CUjit_option* options, void** values,
                                   unsigned count, CUlibraryOption*, void**, unsigned) {
  return entry([&](Call& call) -> CUresult {
    if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<LoadedText> text;
    STITCH_CU_TRY(load_text(call, code, JitLog(count, options, values), text));
    *library = new CUlib_st;
    (*library)->text = std::move(text);
    call.driver.libraries.insert(*library);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* options, void** values,
                                       unsigned count, CUlibraryOption* library_options, void** library_values,
                                       unsigned library_count) {
  std::string image;
  STITCH_CU_TRY(read_file(path, image));
  return cuLibraryLoadData(library, image.c_str(), options, values, count, library_options, library_values,
                           library_count);
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library) {
  return entry([&](Call& call) -> CUresult {
    STITCH_CU_TRY(call.need(call.driver.libraries, library));
    for (const auto& [context, module] : std::map(library->modules)) {
      if (!call.driver.contexts.contains(context)) continue;
      call.driver.wait(call.lock, call.driver.all_of(context));
      call.driver.unload(module);
    }
    for (const auto& [name, kernel] : library->kernels) call.driver.kernels.erase(kernel.get());
    call.driver.libraries.erase(library);
    delete library;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel* kernel, CUlibrary library, const char* name) {
  return entry([&](Call& call) -> CUresult {
    if (!all_given(kernel, name)) return CUDA_ERROR_INVALID_VALUE;
    STITCH_CU_TRY(call.need(call.driver.libraries, library));
    return kernel_of(call, library, name, *kernel);
  });
}

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned* count, CUlibrary library) {
  return entry([&](Call& call) -> CUresult {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    STITCH_CU_TRY(call.need(call.driver.libraries, library));
    *count = static_cast<unsigned>(library->text->contents().kernels.size());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary library) {
  return entry([&](Call& call) -> CUresult {
    if (kernels == nullptr) return CUDA_ERROR_INVALID_VALUE;
    STITCH_CU_TRY(call.need(call.driver.libraries, library));
    const auto& declared = library->text->contents().kernels;
    for (unsigned i = 0; i < count && i < declared.size(); ++i) {
      STITCH_CU_TRY(kernel_of(call, library, declared[i].name.c_str(), kernels[i]));
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule* module, CUlibrary library) {
  return entry([&](Call& call) -> CUresult {
    if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
    STITCH_CU_TRY(call.need(call.driver.libraries, library));
    return instance_of(call, library, *module);
  });
}

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary library, const char* name) {
  return entry([&](Call& call) -> CUresult {
    STITCH_CU_TRY(call.need(call.driver.libraries, library));
    CUmodule module = nullptr;
    STITCH_CU_TRY(instance_of(call, library, module));
    return variable_of(call, module, name, address, bytes);
  });
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction* function, CUkernel kernel) {
  return entry([&](Call& call) -> CUresult {
    if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!call.driver.kernels.contains(kernel)) return CUDA_ERROR_INVALID_HANDLE;
    CUmodule module = nullptr;
    STITCH_CU_TRY(instance_of(call, kernel->library, module));
    return function_of(call, module, kernel->name().c_str(), *function);
  });
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary* library, CUkernel kernel) {
  return kernel_entry(kernel, [&](Call&, Kernel& found) -> CUresult {
    if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *library = found.library;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuKernelGetName(const char** name, CUkernel kernel) {
  return kernel_entry(kernel, [&](Call&, Kernel& found) -> CUresult {
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *name = found.name().c_str();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t* offset, size_t* size) {
  return kernel_entry(kernel, [&](Call& call, Kernel& found) -> CUresult {
    // A library's kernel is looked at in the current context.
    CUcontext context = nullptr;
    STITCH_CU_TRY(call.context(context));
    return parameter_info(found, index, offset, size);
  });
}

CUresult CUDAAPI cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel kernel, CUdevice device) {
  return kernel_entry(kernel, [&](Call& call, Kernel& found) -> CUresult {
    const auto known = attribute_of(found, device_of(call, device), attribute);
    if (value == nullptr || !known) return CUDA_ERROR_INVALID_VALUE;
    *value = *known;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel, CUdevice device) {
  return kernel_entry(kernel, [&](Call& call, Kernel& found) {
    return set_attribute(found, device_of(call, device), attribute, value);
  });
}

CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache, CUdevice) {
  return kernel_entry(kernel, [](Call&, Kernel&) { return CUDA_SUCCESS; });
}

CUresult CUDAAPI cuFuncGetModule(CUmodule* module, CUfunction function) {
  return kernel_entry(function, [&](Call& call, Kernel& found) -> CUresult {
    if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (found.module == nullptr) return instance_of(call, found.library, *module);
    *module = found.module;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuFuncGetName(const char** name, CUfunction function) {
  return kernel_entry(function, [&](Call&, Kernel& found) -> CUresult {
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *name = found.name().c_str();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction function, size_t index, size_t* offset, size_t* size) {
  return kernel_entry(function, [&](Call&, Kernel& found) { return parameter_info(found, index, offset, size); });
}

CUresult CUDAAPI cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return kernel_entry(function, [&](Call& call, Kernel& found) -> CUresult {
    const auto known = attribute_of(found, device_of(call, current_device()), attribute);
    if (value == nullptr || !known) return CUDA_ERROR_INVALID_VALUE;
    *value = *known;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return kernel_entry(function, [&](Call& call, Kernel& found) {
    return set_attribute(found, device_of(call, current_device()), attribute, value);
  });
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return kernel_entry(function, [](Call&, Kernel&) { return CUDA_SUCCESS; });
}

CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction function) {
  return kernel_entry(function, [&](Call&, Kernel&) -> CUresult {
    if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuFuncLoad(CUfunction function) {
  return kernel_entry(function, [](Call&, Kernel&) { return CUDA_SUCCESS; });
}
