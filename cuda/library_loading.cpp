#include "cuda/library_loading.h"

#include <dlfcn.h>

namespace stitch::cuda {

void* FunctionFinder::address(const char* name) const { return ::dlsym(library_, name); }

Status load_first(const std::vector<std::string>& libraries, const char* name,
                  const std::function<void(FunctionFinder&)>& find) {
  std::string why;
  for (const std::string& library : libraries) {
    void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* said = ::dlerror();
      why += (why.empty() ? "" : "; ") + std::string(said != nullptr ? said : library.c_str());
      continue;
    }
    FunctionFinder finder(handle);
    find(finder);
    if (finder.missing() == nullptr) return {};
    why += fmt::format("{}{} has no {}", why.empty() ? "" : "; ", library, finder.missing());
  }
  return make_error(ErrorKind::unavailable, "no {}: {}", name, why);
}

}  // namespace stitch::cuda
