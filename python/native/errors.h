#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "base/result.h"

namespace stitch::python {

/// An Error on its way to Python, where stitch.errors has the class of its kind.
struct Failure {
  Error error;
};

/// A result's value; its error is thrown as a Failure.
template <class T>
T value_of(Result<T> result) {
  if (!result) throw Failure{result.error()};
  return std::move(*result);
}

inline void check(const Status& status) {
  if (!status) throw Failure{status.error()};
}

/// From now on a Failure that leaves a function becomes stitch.errors.of_kind(kind, message).
void translate_failures(nanobind::module_& module);

}  // namespace stitch::python
