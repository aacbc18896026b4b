#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/sha256.h"
#include "graph/codec/fields.h"
#include "graph/tensor_type.h"

namespace stitch::graph::fields {

/// The archive that hashes a record's fields, names and values, without making a document of it: whether two records
/// are equal in all that they are written with.
class FieldHasher {
 public:
  explicit FieldHasher(Hasher& hasher) : hasher_(hasher) {}

  template <class T, class... Notes>
  FieldHasher& operator()(std::string_view name, const T& value, const Notes&...) {
    hasher_.text(name);
    add(value);
    return *this;
  }
  template <class... Notes>
  FieldHasher& bytes(std::string_view name, const std::string& value, const Notes&...) {
    return (*this)(name, value);
  }
  template <class T, class... Notes>
  FieldHasher& optional(std::string_view name, const T& value, const Notes&...) {
    return (*this)(name, value);
  }
  template <class T, class... Notes>
  FieldHasher& defaulted(std::string_view name, const T& value, const Notes&...) {
    return (*this)(name, value);
  }
  template <class T, class... Notes>
  FieldHasher& stored(std::string_view, const T&, const Notes&...) {
    return *this;
  }
  template <class List>
  FieldHasher& group(std::string_view name, const List& list) {
    hasher_.text(name);
    list(*this);
    return *this;
  }
  template <class T, class Written, class... Notes>
  FieldHasher& as(std::string_view name, const T& value, Type<Written>, const Notes&...) {
    return (*this)(name, Written(value));
  }
  template <class Variant, class... T, class... Written>
  FieldHasher& choice(const Variant& value, const Alternative<T, Written>&... ones) {
    (add_held(ones, std::get_if<T>(&value)), ...);
    return *this;
  }
  FieldHasher& nothing_else() { return *this; }

 private:
  void add(const std::string& text) { hasher_.text(text); }
  void add(const Hash128& hash) { hasher_.hash(hash); }
  void add(const Sha256& name) { hasher_.bytes(std::as_bytes(std::span(name.octets))); }
  void add(const Bytes& bytes) { hasher_.text(bytes.data); }
  void add(const TensorType& type) { hasher_.text(to_string(type)); }
  template <class T>
  void add(const std::optional<T>& value) {
    hasher_.integer(value ? 1 : 0);
    if (value) add(*value);
  }
  template <class T>
  void add(const std::vector<T>& values) {
    hasher_.integer(values.size());
    for (const T& value : values) add(value);
  }
  template <class T, std::size_t N>
  void add(const std::array<T, N>& values) {
    for (const T& value : values) add(value);
  }
  template <class T>
  void add(const std::map<std::string, T>& values) {
    hasher_.integer(values.size());
    for (const auto& [name, value] : values) (*this)(name, value);
  }
  template <class T>
  void add(const T& value) {
    if constexpr (std::floating_point<T>) {
      hasher_.integer(std::bit_cast<std::uint64_t>(static_cast<double>(value)));
    } else if constexpr (std::is_arithmetic_v<T>) {
      hasher_.integer(static_cast<std::uint64_t>(value));
    } else if constexpr (std::is_enum_v<T>) {
      hasher_.text(to_string(value));
    } else {
      visit_fields(*this, value);
    }
  }
  template <class T, class Written>
  void add_held(const Alternative<T, Written>& one, const T* held) {
    if (held != nullptr) (*this)(one.name, Written(*held));
  }

  Hasher& hasher_;
};

}  // namespace stitch::graph::fields
