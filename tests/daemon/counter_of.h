#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stitch::daemon {

/// A counter's value in a text of /metrics, named with its labels; -1 where it is not there.
inline std::int64_t counter_of(std::string_view metrics, std::string_view counter) {
  const std::string line = "\n" + std::string(counter) + " ";
  const std::size_t at = metrics.find(line);
  return at == std::string_view::npos ? -1 : std::stoll(std::string(metrics.substr(at + line.size(), 20)));
}

}  // namespace stitch::daemon
