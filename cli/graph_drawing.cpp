#include "cli/graph_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace stitch::cli {
namespace {

constexpr int box_width = 150, box_height = 26, gap_x = 18, gap_y = 34, margin = 10;
constexpr int sweeps = 4;

using Neighbours = std::vector<std::vector<int>>;

/// Orders one layer by the mean position of the neighbours in the layer that was ordered before.
void order_layer(std::vector<int>& layer, const Neighbours& neighbours, std::vector<NodePlace>& places) {
  std::vector<double> weight(places.size());
  for (const int node : layer) {
    const auto& around = neighbours[node];
    double sum = 0;
    for (const int other : around) sum += places[other].position;
    const bool alone = around.empty();
    weight[node] = alone ? places[node].position : sum / static_cast<double>(around.size());
  }
  std::stable_sort(layer.begin(), layer.end(), [&](int a, int b) { return weight[a] < weight[b]; });
  for (std::size_t i = 0; i < layer.size(); ++i) {
    places[layer[i]].position = static_cast<int>(i);
  }
}

}  // namespace

std::vector<NodePlace> lay_out(const Drawing& drawing) {
  std::vector<NodePlace> places(drawing.nodes.size());
  Neighbours producers(places.size()), consumers(places.size());
  for (const auto& [from, to] : drawing.edges) {
    producers[to].push_back(from);
    consumers[from].push_back(to);
  }
  int last = 0;
  for (std::size_t n = 0; n < places.size(); ++n) {
    for (const int from : producers[n]) {
      places[n].layer = std::max(places[n].layer, places[from].layer + 1);
    }
    last = std::max(last, places[n].layer);
  }
  // A source stands right above its first reader, not at the very top.
  for (std::size_t n = 0; n < places.size(); ++n) {
    if (!producers[n].empty() || consumers[n].empty()) continue;
    int first = last;
    for (const int to : consumers[n]) first = std::min(first, places[to].layer);
    places[n].layer = std::max(0, first - 1);
  }
  std::vector<std::vector<int>> layers(static_cast<std::size_t>(last) + 1);
  for (std::size_t n = 0; n < places.size(); ++n) {
    std::vector<int>& layer = layers[places[n].layer];
    places[n].position = static_cast<int>(layer.size());
    layer.push_back(static_cast<int>(n));
  }
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    if (sweep % 2 == 0) {
      for (std::vector<int>& layer : layers) order_layer(layer, producers, places);
    } else {
      std::for_each(layers.rbegin(), layers.rend(), [&](auto& layer) { order_layer(layer, consumers, places); });
    }
  }
  return places;
}

std::string group_colour(int group) {
  // Steps of the golden angle never come close to a hue that was used a moment ago.
  constexpr double golden_angle = 137.508;
  const double hue = golden_angle * group - 360.0 * static_cast<int>(golden_angle * group / 360.0);
  return fmt::format("hsl({:.0f} 65% 80%)", hue);
}

std::string escape_html(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '&': result += "&amp;"; break;
      case '"': result += "&quot;"; break;
      default: result += c;
    }
  }
  return result;
}

std::string to_svg(const Drawing& drawing) {
  const std::vector<NodePlace> places = lay_out(drawing);
  int columns = 1, rows = 1;
  for (const NodePlace& place : places) {
    columns = std::max(columns, place.position + 1);
    rows = std::max(rows, place.layer + 1);
  }
  std::vector<int> widths(static_cast<std::size_t>(rows), 0);
  for (const NodePlace& place : places) {
    int& width = widths[place.layer];
    width = std::max(width, place.position + 1);
  }
  const auto left = [&](const NodePlace& place) {
    const int free = columns - widths[place.layer];  // layers are centred
    return margin + place.position * (box_width + gap_x) + free * (box_width + gap_x) / 2;
  };
  const auto top = [](const NodePlace& place) { return margin + place.layer * (box_height + gap_y); };
  const int width = 2 * margin + columns * (box_width + gap_x), height = 2 * margin + rows * (box_height + gap_y);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
      "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"6\" markerHeight=\"6\" "
      "orient=\"auto\"><path d=\"M0 0 8 4 0 8z\" fill=\"#777\"/></marker></defs>\n",
      width, height);
  for (const auto& [from, to] : drawing.edges) {
    const NodePlace &a = places[from], &b = places[to];
    const int x1 = left(a) + box_width / 2, y1 = top(a) + box_height, x2 = left(b) + box_width / 2, y2 = top(b);
    svg += fmt::format(
        "<path d=\"M{} {} C{} {} {} {} {} {}\" fill=\"none\" stroke=\"#999\" marker-end=\"url(#arrow)\"/>\n", x1, y1,
        x1, y1 + gap_y / 2, x2, y2 - gap_y / 2, x2, y2);
  }
  for (std::size_t n = 0; n < places.size(); ++n) {
    const Drawing::Node& node = drawing.nodes[n];
    const int x = left(places[n]), y = top(places[n]);
    svg += fmt::format(
        "<g><title>{}</title><rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"5\" fill=\"{}\" "
        "stroke=\"#555\"/><text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text></g>\n",
        escape_html(node.tooltip), x, y, box_width, box_height, node.group < 0 ? "#fff" : group_colour(node.group),
        x + box_width / 2, y + box_height / 2 + 4, escape_html(node.label));
  }
  return svg + "</svg>\n";
}

}  // namespace stitch::cli
