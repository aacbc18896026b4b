#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "graph/codec/codec.h"

// Untrusted bytes to a document, checked while it is built.

namespace stitch::graph {
namespace {

using Json = nlohmann::json;

constexpr std::size_t deepest = 128;
constexpr std::int64_t most_document_values = std::int64_t{1}
                                              << 24;  ///< a document of small numbers takes 16 bytes for each

/// Builds a document from the parser's events, and stops at what is too deep or too much, before the parser recurses
/// further.
class JsonBuilder : public nlohmann::json_sax<Json> {
 public:
  std::optional<Error> error;
  Json document;

  bool null() override { return add(Json()); }
  bool boolean(bool value) override { return add(Json(value)); }
  bool number_integer(number_integer_t value) override { return add(Json(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(Json(value)); }
  bool number_float(number_float_t value, const string_t&) override { return add(Json(value)); }
  bool string(string_t& value) override { return add(Json(std::move(value))); }
  bool binary(binary_t& value) override { return add(Json(std::move(value))); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    const auto [member, fresh] = open_.back()->get_ref<Json::object_t&>().try_emplace(std::move(name));
    member_ = &member->second;
    if (!fresh) error = make_error(ErrorKind::parse, "key '{}' appears twice in one object", member->first);
    return fresh;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& exception) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: …": the part in brackets says nothing.
    std::string_view what = exception.what();
    if (const std::size_t end = what.find("] "); end != std::string_view::npos) what.remove_prefix(end + 2);
    error = make_error(ErrorKind::parse, "byte {}: {}", position, what);
    return false;
  }

 private:
  bool add(Json&& value) {
    if (!count()) return false;
    *next_place() = std::move(value);
    return true;
  }
  bool count() {
    if (++values_ <= most_document_values) return true;
    error = make_error(ErrorKind::resource_exhausted, "more than {} values", most_document_values);
    return false;
  }
  /// Where the next value goes. Places stay where they are while something inside them is open.
  Json* next_place() {
    if (open_.empty()) return &document;
    if (open_.back()->is_object()) return member_;
    return &open_.back()->get_ref<Json::array_t&>().emplace_back();
  }
  bool open(Json&& container) {
    if (open_.size() == deepest) {
      error = make_error(ErrorKind::resource_exhausted, "nested more than {} levels deep", deepest);
      return false;
    }
    if (!count()) return false;
    Json* const place = next_place();
    *place = std::move(container);
    open_.push_back(place);
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  std::int64_t values_ = 0;
  std::vector<Json*> open_;
  Json* member_ = nullptr;  ///< whose key was read
};

/// Bytes of the head of a CBOR item whose first byte ends in `extra`.
std::size_t head_bytes(unsigned extra) { return extra < 24 || extra > 27 ? 1 : 1 + (std::size_t{1} << (extra - 24)); }

/// Where a string of unknown length holds another one, which RFC 8949 (3.2.3) forbids. The library's parser recurses
/// into those, and no event of the builder bounds it. Whatever else is wrong is left to the parser.
std::optional<std::size_t> nested_string(std::string_view bytes) {
  bool in_pieces = false;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto first = static_cast<unsigned char>(bytes[at]);
    const unsigned major = first >> 5, extra = first & 31;
    const bool is_string = major == 2 || major == 3;
    const std::size_t head = head_bytes(extra);
    if (is_string && extra == 31) {
      if (in_pieces) return at;
      in_pieces = true;
    } else if (first == 0xFF) {
      in_pieces = false;
    }
    if (head > bytes.size() - at) return std::nullopt;
    std::uint64_t length = is_string && extra < 24 ? extra : 0;
    for (std::size_t i = 1; is_string && i < head; ++i) {
      length = length << 8 | static_cast<unsigned char>(bytes[at + i]);
    }
    at += head;
    if (length > bytes.size() - at) return std::nullopt;
    at += length;
  }
  return std::nullopt;
}

}  // namespace

Result<Json> parse_document(std::string_view bytes, Encoding encoding, std::int64_t most_bytes) {
  if (std::ssize(bytes) > most_bytes) {
    return make_error(ErrorKind::resource_exhausted, "a document of {} bytes, at most {} are accepted", bytes.size(),
                      most_bytes);
  }
  using Format = nlohmann::detail::input_format_t;
  const Format format = encoding == Encoding::json ? Format::json : Format::cbor;
  if (const auto at = encoding == Encoding::cbor ? nested_string(bytes) : std::nullopt) {
    return make_error(ErrorKind::parse, "byte {}: a string of unknown length inside another", *at);
  }
  try {
    JsonBuilder builder;
    const bool sound = Json::sax_parse(bytes, &builder, format);
    if (builder.error) return *std::move(builder.error);
    if (!sound) return make_error(ErrorKind::parse, "not a document");
    return std::move(builder.document);
  } catch (const Json::exception& exception) {
    return make_error(ErrorKind::parse, "{}", exception.what());
  }
}

}  // namespace stitch::graph
