#include "python/native/errors.h"

#include <exception>
#include <string_view>

namespace stitch::python {
namespace {

/// A message may quote a stranger's bytes, which are no UTF-8 then.
nanobind::object text_of(std::string_view message) {
  return nanobind::steal(PyUnicode_DecodeUTF8(message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
}

}  // namespace

void translate_failures(nanobind::module_&) {
  nanobind::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Failure& failure) {
      try {
        const auto make = nanobind::module_::import_("stitch.errors").attr("of_kind");
        const nanobind::object error =
            make(text_of(to_string(failure.error.kind)), text_of(failure.error.message), text_of(failure.missing));
        PyErr_SetObject(error.type().ptr(), error.ptr());
      } catch (nanobind::python_error& other) {
        other.restore();
      }
    }
  });
}

}  // namespace stitch::python
