#include "daemon/http/call_fields.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "api/protocol.h"

namespace stitch::daemon::handlers {
namespace {

Result<std::int64_t> number(std::string_view where, std::string_view text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    return make_error(ErrorKind::invalid_argument, "{}: '{}' is not a number between {} and {}", where, text, least,
                      most);
  }
  return value;
}

Result<Hash128> hash(std::string_view where, std::string_view text) {
  const auto value = Hash128::from_hex(text);
  if (!value) return make_error(ErrorKind::invalid_argument, "{}: '{}' is not 32 hexadecimal digits", where, text);
  return *value;
}

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

}  // namespace

Result<Hash128> hash_in_path(const Call& call, std::string_view name) {
  return hash(fmt::format("path: {}", name), call.path.find(name)->second);
}

Result<Sha256> content_name_in_path(const Call& call, std::string_view name) {
  const std::string& text = call.path.find(name)->second;
  const auto value = Sha256::from_hex(text);
  if (!value)
    return make_error(ErrorKind::invalid_argument, "path: {}: '{}' is not the 64 hexadecimal digits of a SHA-256", name,
                      text);
  return *value;
}

Result<std::int64_t> number_in_path(const Call& call, std::string_view name) {
  return number(fmt::format("path: {}", name), call.path.find(name)->second, 1, most);
}

Status only(const Call& call, std::initializer_list<std::string_view> names) {
  for (const auto& [name, value] : call.target.query) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return make_error(ErrorKind::invalid_argument, "query: unknown field '{}'", name);
    }
  }
  return {};
}

std::optional<std::string> text_in_query(const Call& call, std::string_view name) {
  const auto field = call.target.query.find(std::string(name));
  return field == call.target.query.end() ? std::nullopt : std::optional(field->second);
}

Result<std::int64_t> number_in_query(const Call& call, std::string_view name, std::int64_t least, std::int64_t largest,
                                     std::int64_t otherwise) {
  const std::optional<std::string> text = text_in_query(call, name);
  return text ? number(fmt::format("query: {}", name), *text, least, largest) : otherwise;
}

Result<graph::Constraints> constraints_in_query(const Call& call) {
  Result<graph::Constraints> asked = graph::parse_constraints(text_in_query(call, "constraints").value_or(""));
  if (!asked) return asked.error().within("query: constraints");
  return asked;
}

Result<std::optional<std::int64_t>> trials_in_query(const Call& call) {
  constexpr std::int64_t most_trials = 1'000'000, unsaid = -1;
  STITCH_ASSIGN(const std::int64_t trials, number_in_query(call, "trials", 0, most_trials, unsaid));
  return trials == unsaid ? std::optional<std::int64_t>() : trials;
}

Result<std::optional<Hash128>> hash_in_query(const Call& call, std::string_view name) {
  const std::optional<std::string> text = text_in_query(call, name);
  if (!text) return std::optional<Hash128>();
  STITCH_ASSIGN(const Hash128 value, hash(fmt::format("query: {}", name), *text));
  return std::optional(value);
}

Result<db::Page> page_in_query(const Call& call) {
  db::Page page;
  STITCH_ASSIGN(const std::int64_t limit, number_in_query(call, "limit", 1, 1000, 100));
  STITCH_ASSIGN(page.after, number_in_query(call, "after", 0, most, 0));
  STITCH_ASSIGN(const std::int64_t newest_first, number_in_query(call, "newest_first", 0, 1, 0));
  page.limit = limit;
  page.newest_first = newest_first == 1;
  return page;
}

http::Response answer(const Call& call, const nlohmann::json& document, int status) {
  http::Response response;
  response.status = status;
  response.content_type = http::content_type_of(call.answer_in);
  response.body = api::encode_document(document, call.answer_in);
  return response;
}

http::Response refusal(const Call& call, const Error& error) { return http::error_response(error, call.answer_in); }

http::Response bad_document(const Call& call, const Error& error) {
  const int status = error.kind == ErrorKind::resource_exhausted ? 413 : http::status_of(error.kind);
  return http::error_response(status, error, call.answer_in);
}

}  // namespace stitch::daemon::handlers
