#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/sha256.h"
#include "graph/codec/codec.h"
#include "graph/codec/fields.h"
#include "graph/tensor_type.h"

namespace stitch::graph::fields {

/// How documents hold what JSON has no type for.
struct DocumentForm {
  bool binary_hashes = false;          ///< as bytes, most significant first, instead of hexadecimal digits
  Encoding encoding = Encoding::json;  ///< of the constants of graphs
};

nlohmann::json binary_of(std::string_view bytes);
nlohmann::json binary_of(const Hash128& hash);
nlohmann::json binary_of(const Sha256& name);

/// The archive that makes a document of a record. `Json` is nlohmann::json, whose members are sorted (equal records,
/// equal bytes), or nlohmann::ordered_json, which keeps the order of the fields. A type that is no record has
/// `Json write_value(const T&, const DocumentForm&)` in its namespace.
template <class Json>
class BasicWriter {
 public:
  explicit BasicWriter(const DocumentForm& form = {}, Json start = Json::object())
      : form_(form), json_(std::move(start)) {}

  template <class T, class... Notes>
  BasicWriter& operator()(std::string_view name, const T& value, const Notes&...) {
    return put(name, document_of(value, form_));
  }
  template <class... Notes>
  BasicWriter& bytes(std::string_view name, const std::string& value, const Notes&...) {
    return put(name, binary_of(value));
  }
  template <class T, class... Notes>
  BasicWriter& optional(std::string_view name, const std::optional<T>& value, const Notes&...) {
    return value ? put(name, document_of(*value, form_)) : *this;
  }
  template <class... Notes>
  BasicWriter& optional(std::string_view name, const std::string& value, const Notes&...) {
    return value.empty() ? *this : put(name, value);
  }
  template <class T, class... Notes>
  BasicWriter& optional(std::string_view name, const std::vector<T>& values, const Notes&...) {
    return values.empty() ? *this : put(name, document_of(values, form_));
  }
  template <class T, class... Notes>
  BasicWriter& defaulted(std::string_view name, const T& value, const Notes&...) {
    return put(name, document_of(value, form_));
  }
  template <class T, class... Notes>
  BasicWriter& stored(std::string_view, const T&, const Notes&...) {
    return *this;
  }
  template <class List>
  BasicWriter& group(std::string_view name, const List& list) {
    BasicWriter inside(form_);
    list(inside);
    return put(name, std::move(inside.json_));
  }
  template <class T, class Written, class... Notes>
  BasicWriter& as(std::string_view name, const T& value, Type<Written>, const Notes&...) {
    return put(name, document_of(Written(value), form_));
  }
  template <class Variant, class... T, class... Written>
  BasicWriter& choice(const Variant& value, const Alternative<T, Written>&... ones) {
    (put_held(ones, std::get_if<T>(&value)), ...);
    return *this;
  }
  BasicWriter& nothing_else() { return *this; }

  [[nodiscard]] Json finish() && { return std::move(json_); }

  static Json document_of(bool value, const DocumentForm&) { return value; }
  static Json document_of(const std::string& value, const DocumentForm&) { return value; }
  static Json document_of(const Hash128& value, const DocumentForm& form) {
    return form.binary_hashes ? Json(binary_of(value)) : Json(value.hex());
  }
  static Json document_of(const Sha256& value, const DocumentForm& form) {
    return form.binary_hashes ? Json(binary_of(value)) : Json(value.hex());
  }
  static Json document_of(const Bytes& value, const DocumentForm&) { return binary_of(value.data); }
  static Json document_of(const TensorType& value, const DocumentForm&) { return to_string(value); }
  static Json document_of(const Graph& value, const DocumentForm& form) { return to_document(value, form.encoding); }
  template <class T>
  static Json document_of(const std::optional<T>& value, const DocumentForm& form) {
    return value ? document_of(*value, form) : Json();
  }
  template <class T>
  static Json document_of(const std::vector<T>& values, const DocumentForm& form) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(document_of(value, form));
    return list;
  }
  template <class T, std::size_t N>
  static Json document_of(const std::array<T, N>& values, const DocumentForm& form) {
    Json list = Json::array();
    for (const T& value : values) list.push_back(document_of(value, form));
    return list;
  }
  template <class T>
  static Json document_of(const std::map<std::string, T>& values, const DocumentForm& form) {
    Json object = Json::object();
    for (const auto& [name, value] : values) object[name] = document_of(value, form);
    return object;
  }
  template <class T>
  static Json document_of(const T& value, const DocumentForm& form) {
    if constexpr (std::is_arithmetic_v<T>) {
      return value;
    } else if constexpr (requires { write_value(value, form); }) {
      return write_value(value, form);
    } else if constexpr (std::is_enum_v<T>) {
      return std::string(to_string(value));
    } else {
      BasicWriter inside(form, written_as_list<T> ? Json::array() : Json::object());
      visit_fields(inside, value);
      return std::move(inside).finish();
    }
  }

 private:
  template <class T, class Written>
  void put_held(const Alternative<T, Written>& one, const T* held) {
    if (held == nullptr) return;
    if constexpr (std::same_as<T, Written>) {
      put(one.name, document_of(*held, form_));
    } else {
      put(one.name, document_of(Written(*held), form_));
    }
  }
  BasicWriter& put(std::string_view name, Json value) {
    if (json_.is_array()) {
      json_.push_back(std::move(value));
    } else {
      json_[std::string(name)] = std::move(value);
    }
    return *this;
  }

  DocumentForm form_;
  Json json_;
};

using Writer = BasicWriter<nlohmann::json>;

/// A value, most often a record, as a document.
template <class T>
nlohmann::json document_of(const T& value, const DocumentForm& form = {}) {
  return Writer::document_of(value, form);
}

}  // namespace stitch::graph::fields
