#include "codegen/contraction/window_text.h"

#include <fmt/format.h>

#include "codegen/index_text.h"

namespace stitch::codegen {

std::string coordinate_of(const kernel::WindowDimension& window) {
  const auto term = [](const kernel::WindowDimension::Position& position, const char* variable) -> std::string {
    if (position.extent == 1 || position.step == 0) return "";
    std::string digit = position.divisor == 1 ? variable : fmt::format("{} / {}", variable, position.divisor);
    if (!position.outermost) digit = fmt::format("{} % {}", digit, position.extent);
    return position.step == 1 ? digit : fmt::format("({}) * {}", digit, position.step);
  };
  return sum_of(
      {term(window.free, "row"), term(window.contracted, "k"), window.base == 0 ? "" : std::to_string(window.base)});
}

}  // namespace stitch::codegen
