#pragma once

#include <string>
#include <string_view>

#include "cli/explain/drawing.h"
#include "cli/explain/layout.h"

namespace stitch::cli {

/// The drawing as an SVG element. Its colours are CSS variables and classes that svg_style defines, for light and dark;
/// what is pointed at shows its tooltip (a <title> element), without any script.
std::string to_svg(const Drawing& drawing, const Layout& layout);

/// The style sheet of such elements; a page needs it once.
std::string_view svg_style();

/// Text with the characters that mean something in XML replaced, and without those that XML does not allow.
std::string escape_xml(std::string_view text);

}  // namespace stitch::cli
