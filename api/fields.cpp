#include "api/fields.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace stitch::api::fields {

Error wrong(const std::string& path, std::string_view expected, const Json& found) {
  return make_error(ErrorKind::parse, "{}: expected {}, found {}", path.empty() ? "document" : path, expected,
                    found.type_name());
}

Status read(const Json& value, const std::string& path, bool& into) {
  if (!value.is_boolean()) return wrong(path, "true or false", value);
  into = value.get<bool>();
  return {};
}

Status read(const Json& value, const std::string& path, std::int64_t& into) {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  if (!value.is_number_integer()) return wrong(path, "an integer", value);
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > most) {
    return make_error(ErrorKind::parse, "{}: {} is too large", path, value.get<std::uint64_t>());
  }
  into = value.get<std::int64_t>();
  return {};
}

Status read(const Json& value, const std::string& path, int& into) {
  std::int64_t wide = 0;
  STITCH_TRY(read(value, path, wide));
  if (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()) {
    return make_error(ErrorKind::parse, "{}: {} is too large", path, wide);
  }
  into = static_cast<int>(wide);
  return {};
}

Status read(const Json& value, const std::string& path, double& into) {
  if (!value.is_number()) return wrong(path, "a number", value);
  into = value.get<double>();
  if (!std::isfinite(into)) return make_error(ErrorKind::parse, "{}: expected a finite number", path);
  return {};
}

Status read(const Json& value, const std::string& path, std::string& into) {
  if (!value.is_string()) return wrong(path, "a string", value);
  into = value.get<std::string>();
  return {};
}

Status read(const Json& value, const std::string& path, Hash128& into) {
  if (!value.is_string()) return wrong(path, "a hash", value);
  const auto hash = Hash128::from_hex(value.get_ref<const std::string&>());
  if (!hash) return make_error(ErrorKind::parse, "{}: expected 32 hexadecimal digits", path);
  into = *hash;
  return {};
}

Status read(const Json& value, const std::string& path, graph::TensorType& into) {
  if (!value.is_string()) return wrong(path, "a tensor type such as \"f32[4,8]\"", value);
  Result<graph::TensorType> type = graph::parse_tensor_type(value.get_ref<const std::string&>());
  if (!type) return make_error(ErrorKind::parse, "{}: {}", path, type.error().message);
  into = *std::move(type);
  return {};
}

Members::Members(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is_object()) status_ = wrong(path_, "an object", object);
}

std::string Members::at(std::string_view name) const {
  return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
}

const Json* Members::find(std::string_view name, bool needed) {
  if (!status_.ok()) return nullptr;
  asked_.emplace_back(name);
  const auto member = object_.find(name);
  if (member != object_.end()) return &*member;
  if (needed) keep(make_error(ErrorKind::parse, "{}: missing", at(name)));
  return nullptr;
}

Members& Members::require(bool holds, std::string_view name, std::string_view what) {
  if (!holds) keep(make_error(ErrorKind::parse, "{}: {}", at(name), what));
  return *this;
}

Members& Members::nothing_else() {
  if (!status_.ok()) return *this;
  for (const auto& [name, value] : object_.items()) {
    if (std::find(asked_.begin(), asked_.end(), name) == asked_.end()) {
      keep(make_error(ErrorKind::parse, "{}: unknown field", at(name)));
    }
  }
  return *this;
}

}  // namespace stitch::api::fields
