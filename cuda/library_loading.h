#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace stitch::cuda {

/// Finds a loaded library's functions, and remembers the first one that is missed.
class FunctionFinder {
 public:
  /// `library`: of dlopen.
  explicit FunctionFinder(void* library) : library_(library) {}

  template <class Function>
  void find(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(address(name));
    if (function == nullptr && missing_ == nullptr) missing_ = name;
  }
  /// Null: all are there.
  [[nodiscard]] const char* missing() const { return missing_; }

 private:
  [[nodiscard]] void* address(const char* name) const;

  void* library_;
  const char* missing_ = nullptr;
};

/// Loads the first of these libraries that there is and that has all functions that `find` asks for; it stays loaded.
/// `name`: of what it is, for people. Error: unavailable, in the loader's words.
Status load_first(const std::vector<std::string>& libraries, const char* name,
                  const std::function<void(FunctionFinder&)>& find);

}  // namespace stitch::cuda
