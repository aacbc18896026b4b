#include "python/native/errors.h"

#include <nanobind/stl/string.h>

#include <exception>

namespace stitch::python {

void translate_failures(nanobind::module_&) {
  nanobind::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      try {
        const auto make = nanobind::module_::import_("stitch.errors").attr("of_kind");
        const nanobind::object error =
            make(std::string(to_string(failure.error.kind)), failure.error.message, std::string(failure.missing));
        PyErr_SetObject(error.type().ptr(), error.ptr());
      } catch (nanobind::python_error& other) {
        other.restore();
      }
    }
  });
}

}  // namespace stitch::python
