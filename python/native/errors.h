#pragma once

#include <nanobind/nanobind.h>

#include <string_view>
#include <utility>

#include "base/result.h"

namespace stitch::python {

/// What is not there where an Error is `unavailable`, if that is known: whoever asks next must not take a missing
/// device for a server that is gone.
inline constexpr std::string_view a_server = "server", a_device = "device";

/// An Error on its way to Python, where stitch.errors has the class of its kind.
struct Failure {
  Error error;
  std::string_view missing = {};
};

/// A result's value; its error is thrown as a Failure. `missing`: as of Failure, should it be unavailable.
template <class T>
T value_of(Result<T> result, std::string_view missing = {}) {
  if (!result) throw Failure{result.error(), missing};
  return std::move(*result);
}

inline void check(const Status& status) {
  if (!status) throw Failure{status.error()};
}

/// From now on a Failure that leaves a function becomes stitch.errors.of_kind(kind, message, missing).
void translate_failures(nanobind::module_& module);

}  // namespace stitch::python
