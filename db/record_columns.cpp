#include "db/record_columns.h"

#include <bit>

namespace stitch::db {
namespace {

/// The pieces that `piece(name)` makes of each name, with commas between.
template <class Piece>
std::string joined(const std::vector<std::string>& names, const Piece& piece) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + piece(name);
  return text;
}

}  // namespace

std::string Columns::list() const {
  return joined(names_, [](const std::string& name) { return name; });
}
std::string Columns::places() const {
  return joined(names_, [](const std::string&) { return std::string("?"); });
}
std::string Columns::settings() const {
  return joined(names_, [](const std::string& name) { return name + " = ?"; });
}
std::string Columns::replacements() const {
  return joined(names_, [](const std::string& name) { return name + " = excluded." + name; });
}

Columns& Columns::instead_of(std::string_view column, std::string expression) {
  for (std::string& name : names_) {
    if (name == column) name = std::move(expression);
  }
  return *this;
}

void Columns::add(std::string_view name, const Target& target) {
  if (purpose_ == Purpose::insert) {
    names_.emplace_back(name);
    return;
  }
  Columns fields(purpose_, "t.");
  visit_fields(fields, target);
  names_.insert(names_.end(), fields.names_.begin(), fields.names_.end());
}

void Columns::add(std::string_view name, const std::optional<Error>&) {
  for (const std::string_view part : {"kind", "message"}) names_.push_back(fmt::format("{}{}_{}", prefix_, name, part));
}

// A seed has 64 bits, SQLite's integers have a sign.
void Binder::bind(std::uint64_t value) { statement_.bind(std::bit_cast<std::int64_t>(value)); }
void RowReader::read(std::uint64_t& into) { into = std::bit_cast<std::uint64_t>(row_.integer()); }

void Binder::bind(const std::optional<Error>& error) {
  if (error) {
    statement_.bind(to_string(error->kind));
    statement_.bind(error->message);
  } else {
    statement_.bind(std::nullopt);
    statement_.bind(std::nullopt);
  }
}

void RowReader::read(std::optional<Error>& into) {
  into.reset();
  if (row_.next_is_null()) {
    row_.skip();
    row_.skip();
    return;
  }
  const ErrorKind kind = row_.word(graph::fields::value_named<ErrorKind>);
  into = Error{kind, row_.text()};
}

// Samples are IEEE doubles, little-endian, in one BLOB.

void Binder::bind(const std::vector<double>& samples) {
  std::string bytes;
  bytes.reserve(samples.size() * 8);
  for (const double sample : samples) {
    const auto word = std::bit_cast<std::uint64_t>(sample);
    for (int i = 0; i < 8; ++i) bytes += static_cast<char>(word >> (8 * i));
  }
  statement_.bind(sqlite::Blob{bytes});
}

void RowReader::read(std::vector<double>& samples) {
  const std::string_view bytes = row_.view();
  samples.clear();
  samples.reserve(bytes.size() / 8);
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    for (std::size_t i = 8; i-- > 0;) word = word << 8 | static_cast<unsigned char>(bytes[at + i]);
    samples.push_back(std::bit_cast<double>(word));
  }
}

}  // namespace stitch::db
