#pragma once

#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace stitch::driver::test {

/// A function of the emulated driver, found as programs find them: by name, in the library that was loaded at run time.
template <class Function>
Function* entry_of(const char* name) {
  static void* library = [] {
    // Each test is a process of its own (ctest): the library reads its settings when it is first used.
    ::setenv("STITCH_EMULATED_QUIET", "1", 0);
    return ::dlopen(STITCH_EMULATED_DRIVER, RTLD_NOW | RTLD_LOCAL);
  }();
  if (library == nullptr) {
    ADD_FAILURE() << ::dlerror();
    std::abort();
  }
  auto* found = reinterpret_cast<Function*>(::dlsym(library, name));
  if (found == nullptr) {
    ADD_FAILURE() << name << " is not exported";
    std::abort();
  }
  return found;
}

}  // namespace stitch::driver::test

#define STITCH_DRIVER_TEXT_INNER(name) #name
#define STITCH_DRIVER_TEXT(name) STITCH_DRIVER_TEXT_INNER(name)
/// Calls a function by the name that cuda.h gives it: CU(cuMemAlloc)(&address, 64).
#define CU(name) (stitch::driver::test::entry_of<decltype(name)>(STITCH_DRIVER_TEXT(name)))
#define EXPECT_CU(call) EXPECT_EQ(call, CUDA_SUCCESS)
#define ASSERT_CU(call) ASSERT_EQ(call, CUDA_SUCCESS)
