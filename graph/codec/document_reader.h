#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/sha256.h"
#include "graph/codec/codec.h"
#include "graph/codec/fields.h"
#include "graph/tensor_type.h"

namespace stitch::graph::fields {

using Json = nlohmann::json;

enum class Expected : std::uint8_t {
  boolean,
  integer,
  number,
  text,
  bytes,
  hash,
  content_name,
  list,
  object,
  tensor_type
};

/// How the documents of a family are read and what errors about them say. This one is that of messages: errors are of
/// kind parse and begin with the path: "launches[2].threads: expected an integer, found string". A store has its own.
class Dialect {
 public:
  virtual ~Dialect() = default;
  [[nodiscard]] virtual Error missing(const std::string& path) const;
  [[nodiscard]] virtual Error wrong(const std::string& path, Expected expected, const Json& found) const;
  [[nodiscard]] virtual Error too_large(const std::string& path, const Json& found) const;
  [[nodiscard]] virtual Error unknown_word(const std::string& path, std::string_view word) const;

  bool binary_hashes = false;  ///< DocumentForm::binary_hashes
  bool short_names = false;    ///< binary names of contents may have 16 bytes; the rest of the 32 is zeros then
  bool rules = true;           ///< whether rules are looked at; else the caller validates whole records
  bool any_number = false;     ///< whether numbers may be infinite or not a number
};

/// Where a value is, from the outside in; spelled only when something is wrong there.
struct Place {
  const Place* outer = nullptr;
  std::string_view name = {};
  std::ptrdiff_t index = -1;               ///< in a list; -1: not in one
  [[nodiscard]] std::string path() const;  ///< "plan.launches[2].threads"
};

/// What one reading shares: the first thing that is not as it should be. Once there is one, nothing more is read.
struct Reading {
  const Dialect& dialect;
  Status status;
};

/// A value of a document, at its place, to be read into a variable. A type that is no record has
/// `void read_value(const Found&, T&)` in its namespace; it reads the parts by `read` of other Founds.
class Found {
 public:
  Found(const Json& value, const Place& where, Reading& reading) : json(value), place(where), reading_(&reading) {}

  const Json& json;
  const Place& place;

  void read(bool& into) const;
  void read(int& into) const;
  void read(std::int64_t& into) const;
  void read(std::uint64_t& into) const;
  void read(double& into) const;
  void read(std::string& into) const;
  void read(Hash128& into) const;
  void read(Sha256& into) const;
  void read(TensorType& into) const;
  void read(Graph& into) const;
  void read_bytes(std::string& into) const;
  void read(Bytes& into) const { read_bytes(into.data); }
  template <class T>
  void read(std::optional<T>& into) const {
    into.reset();
    if (!json.is_null()) read(into.emplace(T()));
  }
  template <class T>
  void read(std::vector<T>& into) const {
    if (!expect(json.is_array(), Expected::list)) return;
    into.clear();
    into.reserve(json.size());
    for (const Json& element : json) {
      const Place here{&place, {}, std::ssize(into)};
      Found(element, here, *reading_).read(into.emplace_back());
      if (!ok()) return;
    }
  }
  template <class T, std::size_t N>
  void read(std::array<T, N>& into) const {
    if (!expect(json.is_array() && json.size() >= N, Expected::list)) return;
    for (std::size_t i = 0; i < N && ok(); ++i) {
      const Place here{&place, {}, static_cast<std::ptrdiff_t>(i)};
      Found(json[i], here, *reading_).read(into[i]);
    }
  }
  template <class T>
  void read(std::map<std::string, T>& into) const {
    if (!expect(json.is_object(), Expected::object)) return;
    into.clear();
    for (const auto& [name, value] : json.items()) {
      const Place here{&place, name};
      Found(value, here, *reading_).read(into[name]);
    }
  }
  template <class T>
  void read(T& into) const;  // enumerations, records and types with a read_value

  [[nodiscard]] bool ok() const { return reading_->status.ok(); }
  [[nodiscard]] const Dialect& dialect() const { return reading_->dialect; }
  [[nodiscard]] Reading& reading() const { return *reading_; }
  void fail(const Error& error) const {
    if (ok()) reading_->status = error;
  }
  /// Fails with the path before the error's message.
  void fail_here(const Error& error) const { fail(error.within(place.path())); }

 private:
  bool expect(bool holds, Expected expected) const {
    if (!holds) fail(dialect().wrong(place.path(), expected, json));
    return holds;
  }
  Reading* reading_;
};

/// The archive that reads a record out of a document. What must hold between fields, and what follows from them, is in
/// `void finish_reading(Reader&, Record&)` in the record's namespace, which is called when all fields were read.
class Reader {
 public:
  Reader(const Found& object, bool as_list);

  template <class T, class... Notes>
  Reader& operator()(std::string_view name, T& into, const Notes&... notes) {
    if (const Json* value = find(name, true)) read(*value, name, into, notes...);
    return *this;
  }
  template <class... Notes>
  Reader& bytes(std::string_view name, std::string& into, const Notes&...) {
    const Place here{&object_.place, name};
    if (const Json* value = find(name, true)) Found(*value, here, reading_).read_bytes(into);
    return *this;
  }
  template <class T, class... Notes>
  Reader& optional(std::string_view name, T& into, const Notes&... notes) {
    into = T();
    return defaulted(name, into, notes...);
  }
  template <class T, class... Notes>
  Reader& defaulted(std::string_view name, T& into, const Notes&... notes) {
    if (const Json* value = find(name, false)) read(*value, name, into, notes...);
    return *this;
  }
  template <class T, class... Notes>
  Reader& stored(std::string_view, T&, const Notes&...) {
    return *this;
  }
  template <class List>
  Reader& group(std::string_view name, const List& list) {
    const Place here{&object_.place, name};
    if (const Json* value = find(name, true)) {
      Reader inside(Found(*value, here, reading_), false);
      list(inside);
    }
    return *this;
  }
  template <class T, class Written, class... Notes>
  Reader& as(std::string_view name, T& into, Type<Written>, const Notes&... notes) {
    Written written;
    (*this)(name, written, notes...);
    if (ok()) into = static_cast<T>(std::move(written));
    return *this;
  }
  template <class Variant, class... T, class... Written>
  Reader& choice(Variant& into, const Alternative<T, Written>&... ones) {
    const bool found = (read_if_there(into, ones) || ...);
    if (!found) none_of({ones.name...});
    return *this;
  }
  Reader& nothing_else();

  /// Refuses the document unless `holds`: "launches[0].cluster: does not divide blocks".
  Reader& require(bool holds, std::string_view name, std::string_view what);
  void fail(const Error& error) { object_.fail(error); }
  [[nodiscard]] bool ok() const { return reading_.status.ok(); }
  [[nodiscard]] const Place& place() const { return object_.place; }
  [[nodiscard]] const Dialect& dialect() const { return reading_.dialect; }

 private:
  template <class Variant, class T, class Written>
  bool read_if_there(Variant& into, const Alternative<T, Written>& one) {
    const Json* value = find(one.name, false);
    if (value == nullptr) return false;
    Written written;
    read(*value, one.name, written);
    if (ok()) into.template emplace<T>(static_cast<T>(std::move(written)));
    return true;
  }
  void none_of(std::initializer_list<std::string_view> names);
  template <class T, class... Notes>
  void read(const Json& value, std::string_view name, T& into, const Notes&... notes) {
    const Place here{&object_.place, name};
    Found(value, here, reading_).read(into);
    if (reading_.dialect.rules) (check(here, fault_of(into, notes)), ...);
  }
  void check(const Place& here, const Fault& fault);
  const Json* find(std::string_view name, bool needed);

  const Found object_;
  Reading& reading_;
  std::ptrdiff_t next_ = -1;  ///< of a record that is a list: the element to be read next
  std::vector<std::string_view> asked_;
};

template <class T>
void Found::read(T& into) const {
  if constexpr (requires { read_value(*this, into); }) {
    read_value(*this, into);
  } else if constexpr (std::is_enum_v<T>) {
    std::string word;
    read(word);
    const auto value = ok() ? value_named<T>(word) : std::optional(into);
    value ? void(into = *value) : fail(dialect().unknown_word(place.path(), word));
  } else {
    Reader fields(*this, written_as_list<T>);
    visit_fields(fields, into);
    if constexpr (requires { finish_reading(fields, into); }) {
      if (ok()) finish_reading(fields, into);
    }
  }
}

/// The dialect of messages.
const Dialect& message_dialect();

/// Reads a document into a value, most often a record. `name` is where it stands in paths; empty: it is the whole.
template <class T>
Status read_document(const Json& document, T& into, std::string_view name = {},
                     const Dialect& dialect = message_dialect()) {
  Reading reading{dialect, {}};
  const Place place{nullptr, name};
  Found(document, place, reading).read(into);
  return reading.status;
}

}  // namespace stitch::graph::fields
