#include "graph/constraints.h"

#include <algorithm>

namespace stitch::graph {
namespace {

std::string_view without_blanks(std::string_view text) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace

std::string to_string(const Constraints& constraints) {
  std::string text;
  Constraints::fields(constraints, [&](std::string_view name, bool asked) {
    if (asked) text += fmt::format("{}{}", text.empty() ? "" : ",", name);
  });
  return text;
}

Result<Constraints> parse_constraints(std::string_view text) {
  Constraints constraints;
  if (without_blanks(text).empty()) return constraints;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view word = without_blanks(text.substr(at, end - at));
    bool known = false;
    std::string names;
    Constraints::fields(constraints, [&](std::string_view name, bool& asked) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
      if (word != name) return;
      asked = known = true;
    });
    if (!known) return make_error(ErrorKind::invalid_argument, "'{}' is no constraint; there are {}", word, names);
    at = end + 1;
  }
  return constraints;
}

}  // namespace stitch::graph
