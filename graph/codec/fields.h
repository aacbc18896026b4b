#pragma once

#include <fmt/format.h>

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/result.h"

// The fields of a record, listed once. A record is a plain struct; beside it stands one function that names its fields:
//
//   void visit_fields(auto& archive, Of<Plan> auto& plan) {
//     archive("id", plan.id)("bytes", plan.bytes, not_negative)("label", plan.label);
//     archive.optional("measured_us", plan.measured_us);
//   }
//
// Whatever is done field by field is an archive that walks over it: Writer and Reader make documents (JSON, CBOR) of
// records and records of documents; in db/, Columns, Binder and RowReader are the columns of a table, and Validation
// looks at the rules. So a field that is written is read, and to add one is to add one line. The words of archives:
//
//   a("name", x, notes...)         A field that is always there. An std::optional without a value is null.
//   a.bytes("name", text)          The text is bytes: binary in CBOR, a BLOB in SQL.
//   a.optional("name", x)          Left out of documents while it has no value (or is an empty text or list).
//   a.defaulted("name", x)         Written always; where it is missing, the reader leaves x as it is.
//   a.stored("name", x)            What a store counts or derives for itself: a column, but in no document.
//   a.group("name", list)          An object around some of this record's fields, which `list(archive)` visits.
//   a.as("name", x, type<T>)       Written as the T that is made of x, and x is made of the T that is read.
//   a.choice(v, alternative<T>("name")...)   The one of these fields whose type the variant v holds.
//   a.nothing_else()               Readers refuse fields that were not visited.
//
// A field may be a bool, a number, a text, an enumeration (its words by to_string), a Hash128, a Sha256, a tensor
// type, a graph, another record, and optionals, vectors and maps of these. Other types bring write_value and
// read_value.
namespace stitch::graph::fields {

/// Of<Plan>: a Plan that an archive reads into, or a constant one that it writes.
template <class T, class Record>
concept Of = std::same_as<std::remove_const_t<T>, Record>;

template <class T>
struct Type {};
template <class T>
inline constexpr Type<T> type{};

/// One type that a variant may hold, and what it is written as.
template <class T, class Written>
struct Alternative {
  std::string_view name;
};
template <class T, class Written = T>
constexpr Alternative<T, Written> alternative(std::string_view name) {
  return {name};
}

/// What a text that is bytes is written as: a.as("data", text, type<Bytes>) is a.bytes("data", text).
struct Bytes {
  std::string data;
  Bytes() = default;
  explicit Bytes(std::string bytes) : data(std::move(bytes)) {}
  explicit operator std::string() && { return std::move(data); }
};

/// Set to true for a record that is written as a list of its fields' values, in order and without their names.
template <class Record>
inline constexpr bool written_as_list = false;

/// Notes that are rules: what must hold of a field's value. `fault` says what is wrong with one that breaks it, so that
/// "bytes is {}" and "launches[1].bytes: {}" are sentences.
struct Rule {
  std::string_view subject = {};  ///< what sentences call the field, where that is not its name
};
/// The rule, with another subject.
template <std::derived_from<Rule> Some>
constexpr Some called(std::string_view subject, Some rule) {
  rule.subject = subject;
  return rule;
}
using Fault = std::optional<std::string>;

struct NotEmpty : Rule {
  [[nodiscard]] Fault fault(std::string_view value) const { return value.empty() ? Fault("empty") : std::nullopt; }
};
inline constexpr NotEmpty not_empty;

struct NotNegative : Rule {
  template <class Number>
  [[nodiscard]] Fault fault(Number value) const {
    return value < 0 ? Fault("negative") : std::nullopt;
  }
};
inline constexpr NotNegative not_negative;

template <class Number>
struct Between : Rule {
  Number least, most;
  Between(Number first, Number last) : least(first), most(last) {}
  [[nodiscard]] Fault fault(Number value) const {
    if (value >= least && value <= most) return std::nullopt;
    return fmt::format("not between {} and {}", least, most);
  }
};

/// The first rule among a field's notes that its value breaks, by what is wrong. Nothing is wrong with no value.
template <class T, class Note>
Fault fault_of(const T& value, const Note& note) {
  if constexpr (std::derived_from<Note, Rule>) {
    return note.fault(value);
  } else {
    return std::nullopt;
  }
}
template <class T, class Note>
Fault fault_of(const std::optional<T>& value, const Note& note) {
  return value ? fault_of(*value, note) : std::nullopt;
}

/// The value of an enumeration that to_string names so. Beyond its last value to_string has one text for all.
template <class Enum>
std::optional<Enum> value_named(std::string_view word) {
  const std::string_view none = to_string(static_cast<Enum>(255));
  for (int i = 0; i < 255; ++i) {
    const auto value = static_cast<Enum>(i);
    const std::string_view name = to_string(value);
    if (name == none) break;
    if (name == word) return value;
  }
  return std::nullopt;
}

/// Whether visit_fields lists the fields of a T; any archive will do to ask.
template <class T>
concept Record = std::is_class_v<T> && requires(T& record, Type<void>& archive) {
  visit_fields(archive, record);
};

}  // namespace stitch::graph::fields

namespace stitch {

void visit_fields(auto& archive, graph::fields::Of<Error> auto& error) {
  archive("kind", error.kind)("message", error.message);
}

}  // namespace stitch
