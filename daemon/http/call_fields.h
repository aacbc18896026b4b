#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/sha256.h"
#include "daemon/http/call.h"
#include "db/store_types.h"
#include "graph/constraints.h"

// Reading a call's path and query, and making its answer. Errors are invalid_argument and name the field.
namespace stitch::daemon::handlers {

Result<Hash128> hash_in_path(const Call& call, std::string_view name);
Result<Sha256> content_name_in_path(const Call& call, std::string_view name);
Result<std::int64_t> number_in_path(const Call& call, std::string_view name);

/// Refuses query fields that are not among these.
Status only(const Call& call, std::initializer_list<std::string_view> names);
std::optional<std::string> text_in_query(const Call& call, std::string_view name);
Result<std::int64_t> number_in_query(const Call& call, std::string_view name, std::int64_t least, std::int64_t most,
                                     std::int64_t otherwise);
/// constraints: graph::parse_constraints.
Result<graph::Constraints> constraints_in_query(const Call& call);
/// trials: 0 … 1,000,000.
Result<std::optional<std::int64_t>> trials_in_query(const Call& call);
Result<std::optional<Hash128>> hash_in_query(const Call& call, std::string_view name);
/// A word of a table such as db::label_of.
template <class T>
Result<std::optional<T>> word_in_query(const Call& call, std::string_view name,
                                       std::optional<T> (*find)(std::string_view)) {
  const std::optional<std::string> text = text_in_query(call, name);
  if (!text) return std::optional<T>();
  const std::optional<T> value = find(*text);
  if (!value) return make_error(ErrorKind::invalid_argument, "query: {}: '{}' is not a word known here", name, *text);
  return value;
}
/// limit (1 … 1000, 100 by default), after, newest_first (0 or 1).
Result<db::Page> page_in_query(const Call& call);

http::Response answer(const Call& call, const nlohmann::json& document, int status = 200);
http::Response refusal(const Call& call, const Error& error);
/// A document that could not be read: too large is 413.
http::Response bad_document(const Call& call, const Error& error);

}  // namespace stitch::daemon::handlers
