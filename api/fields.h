#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "graph/tensor_type.h"

// Reading documents field by field. Every error is of kind parse and starts with the field's path.
namespace stitch::api::fields {

using Json = nlohmann::json;

/// "launches[2].threads: expected an integer, found a string".
Error wrong(const std::string& path, std::string_view expected, const Json& found);

Status read(const Json& value, const std::string& path, bool& into);
Status read(const Json& value, const std::string& path, int& into);
Status read(const Json& value, const std::string& path, std::int64_t& into);
Status read(const Json& value, const std::string& path, double& into);  ///< finite
Status read(const Json& value, const std::string& path, std::string& into);
Status read(const Json& value, const std::string& path, Hash128& into);
Status read(const Json& value, const std::string& path, graph::TensorType& into);

template <class T>
Status read(const Json& value, const std::string& path, std::vector<T>& into) {
  if (!value.is_array()) return wrong(path, "an array", value);
  into.clear();
  into.reserve(value.size());
  for (std::size_t i = 0; i < value.size(); ++i) {
    T element{};
    STITCH_TRY(read(value[i], fmt::format("{}[{}]", path, i), element));
    into.push_back(std::move(element));
  }
  return {};
}

template <class T>
Status read(const Json& value, const std::string& path, std::optional<T>& into) {
  into.reset();
  if (value.is_null()) return {};
  return read(value, path, into.emplace());
}

/// The members of one object. The first failure sticks; later calls do nothing.
class Members {
 public:
  Members(const Json& object, std::string path);

  template <class T>
  Members& required(std::string_view name, T& into) {
    if (const Json* value = find(name, true)) keep(read(*value, at(name), into));
    return *this;
  }
  /// Leaves `into` as it is when the member is absent.
  template <class T>
  Members& optional(std::string_view name, T& into) {
    if (const Json* value = find(name, false)) keep(read(*value, at(name), into));
    return *this;
  }
  /// A word of a small set, by what `to_string` of each value gives.
  template <class Enum>
  Members& word(std::string_view name, Enum last, Enum& into) {
    std::string text;
    required(name, text);
    if (!status_.ok()) return *this;
    for (int i = 0; i <= static_cast<int>(last); ++i) {
      if (to_string(static_cast<Enum>(i)) != text) continue;
      into = static_cast<Enum>(i);
      return *this;
    }
    keep(make_error(ErrorKind::parse, "{}: '{}' is not a word known here", at(name), text));
    return *this;
  }
  /// Refuses the document unless `holds`.
  Members& require(bool holds, std::string_view name, std::string_view what);
  /// Counts a member as known; its value, or null when absent.
  const Json* take(std::string_view name) { return find(name, true); }
  /// Refuses members that nobody asked for.
  Members& nothing_else();

  [[nodiscard]] Status status() const { return status_; }

 private:
  const Json* find(std::string_view name, bool needed);
  [[nodiscard]] std::string at(std::string_view name) const;
  void keep(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  const Json& object_;
  std::string path_;
  std::vector<std::string> asked_;
  Status status_;
};

}  // namespace stitch::api::fields
