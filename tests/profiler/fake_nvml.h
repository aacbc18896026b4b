#pragma once

#include <dlfcn.h>

#include <string>

/// tests/profiler/fake_nvml.cpp, and what it is to say for as long as this lives.
namespace stitch::profiler::test {

class FakeNvml {
 public:
  FakeNvml() : handle_(::dlopen(library().c_str(), RTLD_NOW | RTLD_LOCAL)) {}
  ~FakeNvml() {
    if (handle_ == nullptr) return;  // it was not brought along to a machine with a GPU, where its tests are skipped
    throttle(0, 0, 0);
    know_power(true);
  }
  FakeNvml(const FakeNvml&) = delete;
  FakeNvml& operator=(const FakeNvml&) = delete;

  static std::string library() { return STITCH_FAKE_NVML; }

  /// Reasons (nvmlClocksEventReasons) that the next `of_first` questions are answered with, and those behind them.
  void throttle(unsigned long long first, int of_first, unsigned long long later) {
    entry<void (*)(unsigned long long, int, unsigned long long)>("fake_nvml_throttle")(first, of_first, later);
  }
  void know_power(bool knows) { entry<void (*)(int)>("fake_nvml_know_power")(knows ? 1 : 0); }

 private:
  template <class Entry>
  Entry entry(const char* name) {
    return reinterpret_cast<Entry>(::dlsym(handle_, name));
  }
  void* handle_;
};

}  // namespace stitch::profiler::test
