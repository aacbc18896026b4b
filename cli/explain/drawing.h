#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace stitch::cli {

/// What a picture of a graph shows, before anything has a place: boxes, some of them within a frame, and arrows between
/// boxes.
///
/// A drawing is made from an explanation (cli/explain/fragment_drawing.h, cli/explain/outline_drawing.h), gets its
/// places from Graphviz (cli/explain/layout.h) and becomes an SVG element (cli/explain/svg.h). The sizes of boxes
/// follow from their texts, by the measures below, so that they are the same on every machine whatever fonts it has.
struct Drawing {
  /// How a box looks: what it stands for, not its colour.
  enum class Look : unsigned char {
    elementwise,
    view,       ///< an operator that moves, repeats or selects elements
    reduction,  ///< an operator that combines elements, or a scan
    boundary,   ///< a matmul, a convolution or anything else that no kernel of ours computes
    tensor,     ///< a parameter or a result
    folded,     ///< many operators or a whole fragment in one box
  };
  struct Box {
    std::vector<std::string> lines;
    std::string tooltip = {};  ///< shown when pointed at
    Look look = Look::elementwise;
    int frame = -1;         ///< index of the frame around it; -1: none
    std::string link = {};  ///< where a click leads ("#f0123"); empty: nowhere
  };
  /// At least one box is in it.
  struct Frame {
    std::vector<std::string> lines;  ///< above its boxes; the first is the title
    std::string tooltip;
    int hue = 0;  ///< degrees on the colour circle
  };
  struct Arrow {
    int from = 0;  ///< index of a box
    int to = 0;    ///< index of a box
    std::string label = {};
    std::string tooltip = {};
  };
  std::vector<Frame> frames;
  std::vector<Box> boxes;
  std::vector<Arrow> arrows;
};

/// Measures of text in a monospaced font, in pixels.
namespace measure {
inline constexpr double advance = 0.61;  ///< width of a character over the font's size: Courier has 0.60, DejaVu 0.602
inline constexpr double box_font = 11, label_font = 9;
inline constexpr double box_line = 14, label_line = 12;
inline constexpr double padding = 8;  ///< between a text and the side of its box
}  // namespace measure

struct Extent {
  double width = 0, height = 0;
};

/// Number of characters (code points) of a UTF-8 text.
int text_length(std::string_view text);

Extent text_extent(const std::vector<std::string>& lines);  ///< of a box's or frame's lines
Extent label_extent(std::string_view label);                ///< of an arrow's label
Extent box_extent(const Drawing::Box& box);                 ///< the text and the padding around it

/// Hue of a frame by its number: neighbours in number differ clearly.
int hue_of(int number);

/// At most `most` characters of the text, with an ellipsis where something was cut off.
std::string shortened(std::string_view text, int most);

}  // namespace stitch::cli
