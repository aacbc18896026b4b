#include "client/program_step.h"

#include <array>

namespace stitch::client {

std::string_view to_string(StepBy by) {
  constexpr std::array<std::string_view, 4> names = {"device", "library", "host", "reference"};
  const auto index = static_cast<std::size_t>(by);
  return index < names.size() ? names[index] : "unknown";
}

}  // namespace stitch::client
