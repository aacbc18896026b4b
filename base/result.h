#pragma once

#include <fmt/format.h>
#include <cassert>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace stitch {

/// What kind of failure an Error is. Callers branch on the kind; people read the message.
enum class ErrorKind : unsigned char {
  invalid_argument,  ///< the caller's input is wrong (a malformed graph, an option out of range)
  parse,             ///< text or bytes that cannot be read; the message names the position
  unsupported,       ///< well-formed, but nothing here handles it
  not_found,
  already_exists,
  io,                  ///< the operating system refused: file, socket, full disk
  corrupt,             ///< stored data does not match its checksum or schema
  version_mismatch,    ///< written by a newer (or unknown) version
  resource_exhausted,  ///< a limit of ours: queue, request size, memory budget
  constraint,          ///< candidate outcome: breaks a limit of the device or a legality rule
  compile,             ///< candidate outcome: NVRTC or ptxas refused it
  timeout,             ///< candidate outcome, or a deadline passed
  runtime,             ///< candidate outcome: it faulted while it ran
  correctness,         ///< candidate outcome: it ran and its result is wrong
  unavailable,         ///< no driver, no device, no server
  cancelled,
  internal,  ///< a bug of ours that was caught
};

std::string_view to_string(ErrorKind kind);

/// Expected failure as a value: its kind, and the text a user needs (what is wrong, and where).
struct Error {
  ErrorKind kind = ErrorKind::internal;
  std::string message;

  /// The same failure, seen from further out: "context: message".
  [[nodiscard]] Error within(std::string_view context) const { return {kind, fmt::format("{}: {}", context, message)}; }

  bool operator==(const Error&) const = default;
};

template <class... Args>
Error make_error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  return {kind, fmt::format(format, std::forward<Args>(args)...)};
}

/// A T or an Error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return assert(ok()), *std::get_if<0>(&state_); }
  const T& value() const& { return assert(ok()), *std::get_if<0>(&state_); }
  T&& value() && { return assert(ok()), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const { return assert(!ok()), *std::get_if<1>(&state_); }
  [[nodiscard]] T value_or(T fallback) const { return ok() ? value() : std::move(fallback); }

 private:
  std::variant<T, Error> state_;
};

/// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  [[nodiscard]] bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  [[nodiscard]] const Error& error() const { return assert(!ok()), *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace stitch

#define STITCH_CONCAT_INNER(a, b) a##b
#define STITCH_CONCAT(a, b) STITCH_CONCAT_INNER(a, b)

/// STITCH_TRY(expression): returns the expression's error from the enclosing function, if it has one.
#define STITCH_TRY(expression)                                                           \
  do {                                                                                   \
    if (auto stitch_status = (expression); !stitch_status) return stitch_status.error(); \
  } while (false)

/// STITCH_ASSIGN(auto x, expression): the expression's value into `auto x`, or return its error.
#define STITCH_ASSIGN(declaration, expression) \
  STITCH_ASSIGN_INNER(STITCH_CONCAT(stitch_result_, __LINE__), declaration, expression)
#define STITCH_ASSIGN_INNER(temporary, declaration, expression) \
  auto temporary = (expression);                                \
  if (!temporary) return temporary.error();                     \
  declaration = std::move(*temporary)
