#include "cli/explain/svg.h"

#include <fmt/format.h>

namespace stitch::cli {
namespace {

std::string_view class_of(Drawing::Look look) {
  switch (look) {
    case Drawing::Look::elementwise: return "elementwise";
    case Drawing::Look::view: return "view";
    case Drawing::Look::reduction: return "reduction";
    case Drawing::Look::boundary: return "boundary";
    case Drawing::Look::tensor: return "tensor";
    case Drawing::Look::folded: return "folded";
  }
  return "";
}

/// How round the corners are: parameters and results are pills, boundaries have none.
double corner_of(Drawing::Look look, const Rectangle& place) {
  if (look == Drawing::Look::tensor) return place.height() / 2;
  return look == Drawing::Look::boundary ? 0 : 4;
}

std::string title_of(std::string_view tooltip) {
  return tooltip.empty() ? "" : fmt::format("<title>{}</title>", escape_xml(tooltip));
}

std::string svg_of_frame(const Drawing::Frame& frame, const Rectangle& place) {
  return fmt::format(
      "<g class=\"frame\" style=\"--hue:{}\">{}<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
      "rx=\"8\"/></g>\n",
      frame.hue, title_of(frame.tooltip), place.from.x, place.from.y, place.width(), place.height());
}

std::string svg_of_title(const Drawing::Frame& frame, const Rectangle& title) {
  std::string svg = fmt::format("<g class=\"frame\" style=\"--hue:{}\">{}", frame.hue, title_of(frame.tooltip));
  for (std::size_t i = 0; i < frame.lines.size(); ++i) {
    svg += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", i == 0 ? "head" : "note", title.from.x,
                       title.from.y + (i + 0.8) * measure::box_line, escape_xml(frame.lines[i]));
  }
  return svg + "</g>\n";
}

std::string svg_of_box(const Drawing::Box& box, const Rectangle& place) {
  std::string svg = fmt::format(
      "<g class=\"box {}\">{}<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"{:.1f}\"/>",
      class_of(box.look), title_of(box.tooltip), place.from.x, place.from.y, place.width(), place.height(),
      corner_of(box.look, place));
  const double middle = (place.from.x + place.to.x) / 2;
  const double top = place.from.y + measure::padding / 2;
  for (std::size_t i = 0; i < box.lines.size(); ++i) {
    svg += fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", i == 0 ? "name" : "note", middle,
                       top + (i + 0.75) * measure::box_line, escape_xml(box.lines[i]));
  }
  svg += "</g>\n";
  return box.link.empty() ? svg : fmt::format("<a href=\"{}\">{}</a>", escape_xml(box.link), svg);
}

std::string path_of(const Layout::Curve& curve) {
  std::string path = fmt::format("M{:.1f} {:.1f}C", curve.points.front().x, curve.points.front().y);
  for (std::size_t i = 1; i < curve.points.size(); ++i) {
    path += fmt::format("{:.1f} {:.1f} ", curve.points[i].x, curve.points[i].y);
  }
  return path;
}

/// A triangle from the curve's last point to the tip.
std::string head_of(const Layout::Curve& curve) {
  const Point base = curve.points.back();
  const Point along = {curve.tip.x - base.x, curve.tip.y - base.y};
  constexpr double half_width = 0.4;  // of the head's length
  const Point across = {-along.y * half_width, along.x * half_width};
  return fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}L{:.1f} {:.1f}z", curve.tip.x, curve.tip.y, base.x + across.x,
                     base.y + across.y, base.x - across.x, base.y - across.y);
}

std::string svg_of_arrow(const Drawing::Arrow& arrow, const Layout::Curve& curve) {
  std::string svg = fmt::format("<g class=\"arrow\">{}<path d=\"{}\"/><path class=\"tip\" d=\"{}\"/>",
                                title_of(arrow.tooltip), path_of(curve), head_of(curve));
  if (curve.label.width() > 0) {
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", (curve.label.from.x + curve.label.to.x) / 2,
                       curve.label.to.y - 3, escape_xml(arrow.label));
  }
  return svg + "</g>\n";
}

}  // namespace

std::string escape_xml(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '<': result += "&lt;"; break;
      case '>': result += "&gt;"; break;
      case '&': result += "&amp;"; break;
      case '"': result += "&quot;"; break;
      case '\n':
      case '\t': result += c; break;
      default: {
        const bool is_control = static_cast<unsigned char>(c) < 0x20;
        if (!is_control) result += c;
      }
    }
  }
  return result;
}

std::string to_svg(const Drawing& drawing, const Layout& layout) {
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
      "{1:.0f}\">\n",
      layout.size.width, layout.size.height);
  for (std::size_t f = 0; f < drawing.frames.size(); ++f) svg += svg_of_frame(drawing.frames[f], layout.frames[f]);
  for (std::size_t a = 0; a < drawing.arrows.size(); ++a) svg += svg_of_arrow(drawing.arrows[a], layout.arrows[a]);
  // Titles are written over the arrows that lead into their frames.
  for (std::size_t f = 0; f < drawing.frames.size(); ++f) svg += svg_of_title(drawing.frames[f], layout.titles[f]);
  for (std::size_t b = 0; b < drawing.boxes.size(); ++b) svg += svg_of_box(drawing.boxes[b], layout.boxes[b]);
  return svg + "</svg>\n";
}

std::string_view svg_style() {
  return R"(svg{font-family:"DejaVu Sans Mono","Liberation Mono",Menlo,Consolas,"Courier New",monospace;display:block}
svg .box text{font-size:11px;text-anchor:middle;fill:var(--ink)}svg .box .note{fill:var(--soft)}
svg .frame text{font-size:11px;fill:var(--ink);paint-order:stroke;stroke-width:4px;
stroke:hsl(var(--hue) 60% var(--frame-light))}svg .frame .head{font-weight:bold}svg .frame .note{fill:var(--soft)}
svg .arrow text{font-size:9px;text-anchor:middle;fill:var(--soft)}
svg .arrow path{fill:none;stroke:var(--line)}svg .arrow:hover path{stroke:var(--ink);stroke-width:2}
svg .arrow .tip{fill:var(--line)}
svg .frame rect{fill:hsl(var(--hue) 60% var(--frame-light));stroke:hsl(var(--hue) 45% 55%)}
svg .box rect{fill:var(--box);stroke:var(--line)}svg .box:hover rect{stroke:var(--ink);stroke-width:2}
svg .view rect{stroke-dasharray:3 2}svg .view .name{fill:var(--soft)}
svg .reduction rect{fill:var(--reduction)}svg .boundary rect{fill:var(--boundary);stroke-width:2}
svg .tensor rect{fill:var(--tensor)}svg .folded rect{fill:var(--folded)}
)";
}

}  // namespace stitch::cli
