#include "graph/codec/document_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace stitch::graph::fields {

// ---- what errors say

Error Dialect::missing(const std::string& path) const { return make_error(ErrorKind::parse, "{}: missing", path); }

Error Dialect::wrong(const std::string& path, Expected expected, const Json& found) const {
  constexpr std::string_view names[] = {
      "true or false", "an integer", "a number", "a string",  "bytes",
      "a hash",        "a SHA-256",  "an array", "an object", "a tensor type such as \"f32[4,8]\""};
  const std::string_view name = names[static_cast<std::size_t>(expected)];
  if (expected == Expected::hash && found.is_string()) {
    return make_error(ErrorKind::parse, "{}: expected 32 hexadecimal digits", path);
  }
  if (expected == Expected::content_name && found.is_string()) {
    return make_error(ErrorKind::parse, "{}: expected the 64 hexadecimal digits of a SHA-256", path);
  }
  if (expected == Expected::number && found.is_number()) {
    return make_error(ErrorKind::parse, "{}: expected a finite number", path);
  }
  return make_error(ErrorKind::parse, "{}: expected {}, found {}", path.empty() ? "document" : path, name,
                    found.type_name());
}

Error Dialect::too_large(const std::string& path, const Json& found) const {
  return make_error(ErrorKind::parse, "{}: {} is too large", path, found.dump());
}

Error Dialect::unknown_word(const std::string& path, std::string_view word) const {
  return make_error(ErrorKind::parse, "{}: '{}' is not a word known here", path, word);
}

const Dialect& message_dialect() {
  static const Dialect dialect;
  return dialect;
}

std::string Place::path() const {
  std::string path = outer == nullptr ? std::string() : outer->path();
  if (!path.empty() && !name.empty()) path += '.';
  path += name;
  if (index >= 0) path += fmt::format("[{}]", index);
  return path;
}

// ---- values

void Found::read(bool& into) const {
  if (expect(json.is_boolean(), Expected::boolean)) into = json.get<bool>();
}

void Found::read(std::int64_t& into) const {
  if (!expect(json.is_number_integer(), Expected::integer)) return;
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > most)
    return fail(dialect().too_large(place.path(), json));
  into = json.get<std::int64_t>();
}

void Found::read(std::uint64_t& into) const {
  if (!expect(json.is_number_integer(), Expected::integer)) return;
  if (!json.is_number_unsigned() && json.get<std::int64_t>() < 0) return fail(dialect().too_large(place.path(), json));
  into = json.get<std::uint64_t>();
}

void Found::read(int& into) const {
  std::int64_t wide = 0;
  read(wide);
  const int narrow = wide;
  if (ok() && narrow != wide) return fail(dialect().too_large(place.path(), json));
  into = narrow;
}

void Found::read(double& into) const {
  if (!expect(json.is_number(), Expected::number)) return;
  into = json.get<double>();
  expect(dialect().any_number || std::isfinite(into), Expected::number);
}

void Found::read(std::string& into) const {
  if (expect(json.is_string(), Expected::text)) into = json.get_ref<const std::string&>();
}

void Found::read_bytes(std::string& into) const {
  if (expect(json.is_binary(), Expected::bytes)) into.assign(json.get_binary().begin(), json.get_binary().end());
}

void Found::read(Hash128& into) const {
  if (!dialect().binary_hashes) {
    if (!expect(json.is_string(), Expected::hash)) return;
    const auto hash = Hash128::from_hex(json.get_ref<const std::string&>());
    if (expect(hash.has_value(), Expected::hash)) into = *hash;
    return;
  }
  std::string raw;
  read_bytes(raw);
  if (!ok() || !expect(raw.size() == 16, Expected::hash)) return;
  into = {};
  for (std::size_t i = 0; i < 8; ++i) {
    into.high = into.high << 8 | static_cast<unsigned char>(raw[i]);
    into.low = into.low << 8 | static_cast<unsigned char>(raw[8 + i]);
  }
}

void Found::read(Sha256& into) const {
  if (!dialect().binary_hashes) {
    if (!expect(json.is_string(), Expected::content_name)) return;
    const auto name = Sha256::from_hex(json.get_ref<const std::string&>());
    if (expect(name.has_value(), Expected::content_name)) into = *name;
    return;
  }
  std::string raw;
  read_bytes(raw);
  if (dialect().short_names && raw.size() == 16) raw.resize(Sha256::size);
  const auto name = Sha256::from_bytes(raw);
  if (ok() && expect(name.has_value(), Expected::content_name)) into = *name;
}

void Found::read(TensorType& into) const {
  if (!expect(json.is_string(), Expected::tensor_type)) return;
  Result<TensorType> type = parse_tensor_type(json.get_ref<const std::string&>());
  if (!type) return fail(make_error(ErrorKind::parse, "{}: {}", place.path(), type.error().message));
  into = *std::move(type);
}

void Found::read(Graph& into) const {
  Result<Graph> graph = from_document(json, message_limits);
  if (!graph) return fail_here(graph.error());
  into = *std::move(graph);
}

// ---- records

Reader::Reader(const Found& object, bool as_list) : object_(object), reading_(object.reading()) {
  const bool fits = as_list ? object.json.is_array() : object.json.is_object();
  if (as_list) next_ = 0;
  if (fits) return;
  fail(reading_.dialect.wrong(place().path(), as_list ? Expected::list : Expected::object, object.json));
}

const Json* Reader::find(std::string_view name, bool needed) {
  if (!ok()) return nullptr;
  if (next_ >= 0) {
    if (next_ < std::ssize(object_.json)) return &object_.json[next_++];
  } else {
    asked_.push_back(name);
    const auto member = object_.json.find(name);
    if (member != object_.json.end()) return &*member;
  }
  if (needed) fail(reading_.dialect.missing(Place{&place(), name}.path()));
  return nullptr;
}

void Reader::none_of(std::initializer_list<std::string_view> names) {
  if (ok()) fail(reading_.dialect.missing(Place{&place(), fmt::format("{}", fmt::join(names, " or "))}.path()));
}

void Reader::check(const Place& here, const Fault& fault) {
  if (fault) fail(make_error(ErrorKind::parse, "{}: {}", here.path(), *fault));
}

Reader& Reader::require(bool holds, std::string_view name, std::string_view what) {
  if (!holds) check(Place{&place(), name}, std::string(what));
  return *this;
}

Reader& Reader::nothing_else() {
  if (!ok()) return *this;
  for (const auto& [name, value] : object_.json.items()) {
    const bool known = std::find(asked_.begin(), asked_.end(), name) != asked_.end();
    require(known, name, "unknown field");
  }
  return *this;
}

}  // namespace stitch::graph::fields
