#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/sha256.h"
#include "graph/codec/fields.h"
#include "graph/tensor_type.h"

// Records that differ from a given one in a single field, each field in turn, as the record's own list of fields has
// them: what looks at some fields and not at others is asked about all, those included that are added later.
namespace stitch::graph {

/// The archive (graph/codec/fields.h) that gives one field another value.
class FieldChanger {
 public:
  /// The field to be changed: how many are visited before it.
  explicit FieldChanger(int which) : left_(which) {}

  /// "target.toolkit"; empty while no field was the one.
  [[nodiscard]] const std::string& changed() const { return changed_; }

  template <class T, class... Notes>
  FieldChanger& operator()(std::string_view name, T& value, const Notes&...) {
    visit(name, value);
    return *this;
  }
  template <class... Notes>
  FieldChanger& bytes(std::string_view name, std::string& value, const Notes&...) {
    return (*this)(name, value);
  }
  template <class T, class... Notes>
  FieldChanger& optional(std::string_view name, T& value, const Notes&...) {
    return (*this)(name, value);
  }
  template <class T, class... Notes>
  FieldChanger& defaulted(std::string_view name, T& value, const Notes&...) {
    return (*this)(name, value);
  }
  template <class T, class... Notes>
  FieldChanger& stored(std::string_view name, T& value, const Notes&...) {
    return (*this)(name, value);
  }
  template <class List>
  FieldChanger& group(std::string_view, const List& list) {
    list(*this);
    return *this;
  }
  FieldChanger& nothing_else() { return *this; }

 private:
  template <class T>
  void visit(std::string_view name, T& value) {
    const std::size_t outer = path_.size();
    path_ += (path_.empty() ? "" : ".") + std::string(name);
    change(value);
    path_.resize(outer);
  }
  [[nodiscard]] bool is_it() {
    if (left_-- != 0) return false;
    changed_ = path_;
    return true;
  }

  void change(bool& value) {
    if (is_it()) value = !value;
  }
  void change(std::string& value) {
    if (is_it()) value += "+";
  }
  void change(Hash128& value) {
    if (is_it()) value = hash_bytes(value.hex());
  }
  void change(Sha256& value) {
    if (is_it()) value = sha256(value.hex());
  }
  void change(TensorType& value) {
    if (is_it()) value.dims.push_back(2);
  }
  template <class T>
  void change(std::optional<T>& value) {
    if (!value) {
      if (is_it()) value.emplace();
      return;
    }
    change(*value);
  }
  /// One more, and each field of the first.
  template <class T>
  void change(std::vector<T>& values) {
    if (is_it()) values.emplace_back();
    if (!values.empty()) visit("0", values.front());
  }
  template <class T>
  void change(T& value) {
    if constexpr (std::is_integral_v<T>) {
      if (is_it()) value = static_cast<T>(value + 1);
    } else if constexpr (std::is_floating_point_v<T>) {
      if (is_it()) value += 0.25;
    } else if constexpr (std::is_enum_v<T>) {
      if (is_it()) value = static_cast<T>(value == static_cast<T>(0) ? 1 : 0);
    } else {
      visit_fields(*this, value);
    }
  }

  int left_;
  std::string path_, changed_;
};

/// Calls seen(path, record) with a copy of the record for each of its fields, in which that one differs.
template <class Record, class Seen>
void for_each_changed_field(const Record& record, const Seen& seen) {
  for (int which = 0;; ++which) {
    Record copy = record;
    FieldChanger changer(which);
    visit_fields(changer, copy);
    if (changer.changed().empty()) return;
    seen(changer.changed(), copy);
  }
}

}  // namespace stitch::graph
