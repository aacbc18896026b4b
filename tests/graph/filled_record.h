#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/sha256.h"
#include "graph/codec/fields.h"
#include "graph/tensor_type.h"

// Records whose every field holds a value of its own, other than the default: what a round trip forgets is seen.
namespace stitch::graph {

/// The archive (graph/codec/fields.h) that fills a record. Texts are JSON, shares and times are between 0 and 1, lists
/// have two elements. Types with a write_value bring `void fill_value(T&, int number)`. It also looks whether a member
/// of the struct is listed nowhere: then there is a gap between the fields that is too wide to be padding.
class Filler {
 public:
  /// Fills a record, counting values on from `number`.
  template <class Record>
  static void fill_record(Record& record, int& number) {
    Filler filler(number);
    visit_fields(filler, record);
    if (!filler.covered_.empty()) filler.expect_no_gaps(&record, sizeof record, typeid(Record).name());
  }

  template <class T, class... Notes>
  Filler& operator()(std::string_view, T& value, const Notes&...) {
    cover(&value, sizeof value);
    fill(value);
    return *this;
  }
  template <class... Notes>
  Filler& bytes(std::string_view name, std::string& value, const Notes&...) {
    return (*this)(name, value);
  }
  template <class T, class... Notes>
  Filler& optional(std::string_view name, T& value, const Notes&...) {
    return (*this)(name, value);
  }
  template <class T, class... Notes>
  Filler& defaulted(std::string_view name, T& value, const Notes&...) {
    return (*this)(name, value);
  }
  template <class T, class... Notes>
  Filler& stored(std::string_view name, T& value, const Notes&...) {
    return (*this)(name, value);
  }
  template <class List>
  Filler& group(std::string_view, const List& list) {
    list(*this);
    return *this;
  }
  template <class T, class Written, class... Notes>
  Filler& as(std::string_view, T& value, fields::Type<Written>, const Notes&...) {
    cover(&value, sizeof value);
    value = made_of<T, Written>();
    return *this;
  }
  template <class Variant, class... T, class... Written>
  Filler& choice(Variant& value, const fields::Alternative<T, Written>&...) {
    const std::size_t chosen = static_cast<std::size_t>(++number_) % sizeof...(T);
    std::size_t index = 0;
    ((index++ == chosen ? void(value.template emplace<T>(made_of<T, Written>())) : void()), ...);
    return *this;
  }
  Filler& nothing_else() { return *this; }

 private:
  explicit Filler(int& number) : number_(number) {}

  template <class T, class Written>
  T made_of() {
    Written written;
    fill(written);
    return static_cast<T>(std::move(written));
  }

  void fill(bool& value) { value = !value; }
  void fill(std::string& value) { value = fmt::format("\"text {}\"", ++number_); }
  void fill(fields::Bytes& value) { fill(value.data); }
  void fill(Hash128& value) { value = hash_bytes(fmt::format("{}", ++number_)); }
  void fill(Sha256& value) { value = sha256(fmt::format("{}", ++number_)); }
  void fill(TensorType& value) { value = {DType::f32, {++number_}}; }
  template <class T>
  void fill(std::optional<T>& value) {
    fill(value.emplace(T{}));
  }
  template <class T>
  void fill(std::vector<T>& values) {
    values.resize(2);
    for (T& value : values) fill(value);
  }
  template <class T, std::size_t N>
  void fill(std::array<T, N>& values) {
    for (T& value : values) fill(value);
  }
  template <class T>
  void fill(std::map<std::string, T>& values) {
    fill(values["one"]);
    fill(values["two"]);
  }
  template <class T>
  void fill(T& value) {
    if constexpr (requires { fill_value(value, 1); }) {
      fill_value(value, ++number_);
    } else if constexpr (std::is_integral_v<T>) {
      value = static_cast<T>(++number_);
    } else if constexpr (std::is_floating_point_v<T>) {
      value = 1.0 / ++number_;
    } else if constexpr (std::is_enum_v<T>) {
      const bool second = to_string(static_cast<T>(1)) != to_string(static_cast<T>(255));
      value = second ? static_cast<T>(1) : static_cast<T>(0);
    } else {
      fill_record(value, number_);
    }
  }

  void cover(const void* field, std::size_t size) {
    const auto* begin = static_cast<const std::byte*>(field);
    covered_.emplace_back(begin, begin + size);
  }
  void expect_no_gaps(const void* record, std::size_t size, const char* name) {
    const auto* at = static_cast<const std::byte*>(record);
    const std::byte* end = at + size;
    std::sort(covered_.begin(), covered_.end());
    for (const auto& [begin, after] : covered_) {
      if (begin < at || after > end) continue;
      EXPECT_LT(begin - at, 8) << name << ": a member is not listed, at byte "
                               << size - static_cast<std::size_t>(end - at);
      at = after;
    }
    EXPECT_LT(end - at, 8) << name << ": its last member is not listed";
  }

  int& number_;
  std::vector<std::pair<const std::byte*, const std::byte*>> covered_;
};

/// A record filled from `number` on.
template <class Record>
Record filled(int number = 0) {
  Record record;
  Filler::fill_record(record, number);
  return record;
}

}  // namespace stitch::graph
