#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/subprocess.h"
#include "cli/explain/drawing.h"

namespace stitch::cli {

struct Point {
  double x = 0, y = 0;
};

struct Rectangle {
  Point from, to;  ///< upper left and lower right corner
  [[nodiscard]] double width() const { return to.x - from.x; }
  [[nodiscard]] double height() const { return to.y - from.y; }
};

/// Where everything of a drawing stands: pixels from the upper left corner, y downwards. The vectors are in the order
/// of the drawing's.
struct Layout {
  struct Curve {
    std::vector<Point> points;  ///< of cubic Bézier curves, one after the other: 3n + 1 points
    Point tip;                  ///< of the arrow's head, which begins at the last point
    Rectangle label;            ///< place kept for the label; empty where it has none
  };
  Extent size;
  std::vector<Rectangle> boxes;
  std::vector<Rectangle> frames;
  std::vector<Rectangle> titles;  ///< place kept for the frames' lines
  std::vector<Curve> arrows;
};

/// The drawing as Graphviz source. It has no text: every box, title and label is a rectangle of the size that its text
/// needs, so that no font is looked for.
std::string to_dot(const Drawing& drawing);

/// Reads what `dot -Tjson0` says of to_dot(drawing). Errors: parse.
Result<Layout> read_layout(const Drawing& drawing, std::string_view json);

/// Layers, orders and routes the drawing by Graphviz's program `dot`, in a process of its own: the library (libgvc
/// 2.42) ended ours with a corrupt heap for some of 2,000 random graphs with frames and labels, and cannot be stopped
/// when it takes too long. Where dot fails, it is asked once more without labels, which leaves their arrows bare.
/// Errors: unavailable (no such program: "Debian's package graphviz"), timeout, internal (it failed), parse.
Result<Layout> lay_out(const Drawing& drawing, ProcessLauncher& launcher, Deadline deadline);

}  // namespace stitch::cli
