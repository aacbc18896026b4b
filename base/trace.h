#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/json_text.h"

/// What a process did, for who looks at it later (`stitch trace`): where STITCH_TRACE names a folder, a file of its own
/// there, a JSON object a line, "event" and "ts" (µs since 1970) first (docs/tracing.md lists them). Names, ids, times
/// and reasons; never contents of tensors. A line is one write to the end of the file, so that what is there stays when
/// the process is killed; a folder that cannot be written, or a full disk, costs one warning on standard error and
/// nothing else. The variable is read at every call. Safe to use from any number of threads, and in forked children,
/// which have files of their own.
///
///   trace::event("swap", {{"from", before}, {"to", after}});
///   trace::Phase phase("load", {{"plan", plan.id.hex()}});  // written when it ends, with how long it took
namespace stitch::trace {

/// One member of an event: text, a truth value or a number.
struct Field {
  template <class T>
  Field(std::string_view name_, const T& value) : name(name_) {
    if constexpr (std::same_as<T, bool>) {
      json = value ? "true" : "false";
    } else if constexpr (std::integral<T>) {
      json = std::to_string(value);
    } else if constexpr (std::floating_point<T>) {
      json = number(value);
    } else {
      json = json_text(std::string_view(value));
    }
  }

  std::string name;
  std::string json;  ///< its value

 private:
  static std::string number(double value);
};

/// Whether STITCH_TRACE names a folder now: for who would have to work for an event.
bool enabled();

/// The monotonic clock by which phases begin, µs.
std::int64_t now_us();

void event(std::string_view name, std::initializer_list<Field> fields = {});
/// One with a duration: from `began_us` (of now_us) until now. `members`: of a JSON object, without its braces.
void event_since(std::string_view name, std::int64_t began_us, std::string_view members);
/// One of now, likewise.
void event_of(std::string_view name, std::string_view members);

/// A stretch of work: an event with its duration, written when it ends, and counted (base/tally.h) by its name.
class Phase {
 public:
  explicit Phase(std::string_view name, std::initializer_list<Field> fields = {});
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
  ~Phase();

  /// What is known by its end only.
  void add(const Field& field);

 private:
  const bool enabled_;
  bool failed_ = false;
  std::string name_, members_;
  std::int64_t began_us_ = 0;
};

/// A value or status as it comes, its error noted in the phase that it ends.
template <class Outcome>
Outcome noted(Phase& phase, Outcome outcome) {
  if (!outcome.ok()) phase.add({"error", outcome.error().message});
  return outcome;
}

}  // namespace stitch::trace
