#pragma once

#include <string>
#include <string_view>

namespace stitch {

/// `text` as JSON has strings, quotes included; bytes that are no UTF-8 become U+FFFD.
std::string json_text(std::string_view text);

}  // namespace stitch
