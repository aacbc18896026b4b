#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stitch::cli {

/// A directed acyclic graph to be drawn. Nodes come in topological order.
struct Drawing {
  struct Node {
    std::string label;    ///< a few words
    std::string tooltip;  ///< shown when pointed at
    int group = -1;       ///< decides the colour; -1: none
  };
  std::vector<Node> nodes;
  std::vector<std::pair<int, int>> edges;  ///< from, to
};

/// Position of a node: layer (longest way from a source) and place within the layer.
struct NodePlace {
  int layer = 0;
  int position = 0;
};

/// Layered layout (Sugiyama, Tagawa, Toda 1981): layers by longest path, order within a layer by four sweeps of the
/// barycentre of the neighbours.
std::vector<NodePlace> lay_out(const Drawing& drawing);

/// The drawing as an SVG element: boxes coloured by group, arrows downwards.
std::string to_svg(const Drawing& drawing);

/// Colour of a group, as CSS takes it; neighbours in number differ clearly.
std::string group_colour(int group);

/// Text with the characters that mean something in HTML replaced.
std::string escape_html(std::string_view text);

}  // namespace stitch::cli
