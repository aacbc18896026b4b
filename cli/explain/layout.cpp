#include "cli/explain/layout.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace stitch::cli {
namespace {

using nlohmann::json;

constexpr double points_per_inch = 72;  // Graphviz gives sizes of boxes in inches, and places in points

/// More boxes than this are joined by straight pieces: curves around so many take longer than the rest of the layout.
constexpr std::size_t most_curved = 400;

/// A label of the given size without any text: an HTML-like table with one empty cell.
std::string blank(Extent size) {
  return fmt::format(
      R"(<<TABLE BORDER="0" CELLBORDER="0" FIXEDSIZE="TRUE" WIDTH="{:.0f}" HEIGHT="{:.0f}"><TR><TD></TD></TR></TABLE>>)",
      size.width, size.height);
}

std::string dot_of_box(const Drawing& drawing, int number) {
  const Extent size = box_extent(drawing.boxes[number]);
  return fmt::format("b{} [width={:.4f} height={:.4f}]\n", number, size.width / points_per_inch,
                     size.height / points_per_inch);
}

std::vector<double> numbers_in(std::string text) {
  for (char& c : text) {
    if (c == ',' || c == ';') c = ' ';
  }
  std::istringstream stream(text);
  stream.imbue(std::locale::classic());
  std::vector<double> numbers;
  for (double number = 0; stream >> number;) numbers.push_back(number);
  return numbers;
}

/// Reads Graphviz's document, whose y goes upwards.
class LayoutReader {
 public:
  LayoutReader(const Drawing& drawing, const json& document) : drawing_(drawing), document_(document) {}

  Result<Layout> read() {
    STITCH_ASSIGN(const std::vector<double> bounds, numbers(document_, "bb", 4));
    height_ = bounds[3];
    layout_.size = {bounds[2], bounds[3]};
    layout_.boxes.resize(drawing_.boxes.size());
    layout_.frames.resize(drawing_.frames.size());
    layout_.titles.resize(drawing_.frames.size());
    layout_.arrows.resize(drawing_.arrows.size());
    for (const json& object : array("objects")) STITCH_TRY(read_object(object));
    for (const json& edge : array("edges")) STITCH_TRY(read_arrow(edge));
    return std::move(layout_);
  }

 private:
  /// The document's array of that name; empty where it has none.
  [[nodiscard]] json array(const char* name) const { return document_.value(name, json::array()); }

  static Result<std::vector<double>> numbers(const json& object, const char* name, std::size_t count) {
    std::vector<double> found = numbers_in(object.value(name, std::string()));
    if (found.size() < count) return make_error(ErrorKind::parse, "dot gave no '{}' to one of its objects", name);
    return found;
  }

  /// The number after the letter in a name that to_dot gave: "b12". Errors: it is not below `limit`.
  static Result<std::size_t> number_of(const std::string& name, std::size_t prefix, std::size_t limit) {
    const std::size_t number = std::strtoul(name.c_str() + prefix, nullptr, 10);
    if (number >= limit) return make_error(ErrorKind::parse, "dot names '{}', which was not drawn", name);
    return number;
  }

  [[nodiscard]] Point place(double x, double y) const { return {x, height_ - y}; }

  [[nodiscard]] Rectangle around(Point middle, Extent size) const {
    return {{middle.x - size.width / 2, middle.y - size.height / 2},
            {middle.x + size.width / 2, middle.y + size.height / 2}};
  }

  Status read_object(const json& object) {
    const std::string name = object.value("name", std::string());
    if (name.starts_with("cluster")) return read_frame(object, name);
    STITCH_ASSIGN(const std::size_t number, number_of(name, 1, layout_.boxes.size()));
    STITCH_ASSIGN(const auto middle, numbers(object, "pos", 2));
    STITCH_ASSIGN(const auto width, numbers(object, "width", 1));
    STITCH_ASSIGN(const auto height, numbers(object, "height", 1));
    layout_.boxes[number] =
        around(place(middle[0], middle[1]), {width[0] * points_per_inch, height[0] * points_per_inch});
    return {};
  }

  Status read_frame(const json& object, const std::string& name) {
    STITCH_ASSIGN(const std::size_t number, number_of(name, std::string_view("cluster").size(), layout_.frames.size()));
    STITCH_ASSIGN(const auto bounds, numbers(object, "bb", 4));
    STITCH_ASSIGN(const auto title, numbers(object, "lp", 2));
    layout_.frames[number] = {place(bounds[0], bounds[3]), place(bounds[2], bounds[1])};
    layout_.titles[number] = around(place(title[0], title[1]), text_extent(drawing_.frames[number].lines));
    return {};
  }

  /// "e,x,y x,y x,y …": where the head ends, then the curve.
  Status read_arrow(const json& edge) {
    STITCH_ASSIGN(const std::size_t number, number_of(edge.value("id", std::string("a")), 1, layout_.arrows.size()));
    const std::string path = edge.value("pos", std::string());
    if (!path.starts_with("e,")) return make_error(ErrorKind::parse, "dot left out arrow {}", number);
    const std::vector<double> values = numbers_in(path.substr(2));
    if (values.size() < 10) return make_error(ErrorKind::parse, "dot gave arrow {} no curve", number);
    Layout::Curve& curve = layout_.arrows[number];
    curve.tip = place(values[0], values[1]);
    for (std::size_t i = 2; i + 1 < values.size(); i += 2) curve.points.push_back(place(values[i], values[i + 1]));
    const std::string& label = drawing_.arrows[number].label;
    if (label.empty()) return {};
    STITCH_ASSIGN(const auto middle, numbers(edge, "lp", 2));
    curve.label = around(place(middle[0], middle[1]), label_extent(label));
    return {};
  }

  const Drawing& drawing_;
  const json& document_;
  Layout layout_;
  double height_ = 0;
};

Result<Layout> run_dot(const Drawing& drawing, ProcessLauncher& launcher, Deadline deadline) {
  ProcessOptions options;
  options.arguments = {"dot", "-Tjson0"};
  const Result<ProcessOutput> done = run_process(launcher, options, to_dot(drawing), deadline);
  if (!done && done.error().kind == ErrorKind::not_found) {
    return make_error(ErrorKind::unavailable, "drawings need Graphviz's program dot (Debian's package graphviz)");
  }
  if (!done) return done.error().within("dot");
  if (!done->status.success()) {
    return make_error(ErrorKind::internal, "dot: {}: {}", done->status.describe(),
                      shortened(done->standard_error, 200));
  }
  return read_layout(drawing, done->standard_output);
}

}  // namespace

std::string to_dot(const Drawing& drawing) {
  const bool curved = drawing.boxes.size() <= most_curved;
  std::string dot = fmt::format(
      "digraph g {{\ngraph [newrank=true splines={} nodesep=0.15 ranksep=0.3 nslimit=8 nslimit1=8 labeljust=l "
      "margin=8]\n"
      "node [shape=box fixedsize=true label=\"\"]\nedge [arrowsize=0.6]\n",
      curved ? "true" : "polyline");
  for (int f = 0; f < std::ssize(drawing.frames); ++f) {
    dot += fmt::format("subgraph cluster{} {{\nlabel={}\n", f, blank(text_extent(drawing.frames[f].lines)));
    for (int b = 0; b < std::ssize(drawing.boxes); ++b) {
      if (drawing.boxes[b].frame == f) dot += dot_of_box(drawing, b);
    }
    dot += "}\n";
  }
  for (int b = 0; b < std::ssize(drawing.boxes); ++b) {
    if (drawing.boxes[b].frame < 0) dot += dot_of_box(drawing, b);
  }
  for (int a = 0; a < std::ssize(drawing.arrows); ++a) {
    const Drawing::Arrow& arrow = drawing.arrows[a];
    const std::string label = arrow.label.empty() ? "" : " label=" + blank(label_extent(arrow.label));
    dot += fmt::format("b{} -> b{} [id=a{}{}]\n", arrow.from, arrow.to, a, label);
  }
  return dot + "}\n";
}

Result<Layout> read_layout(const Drawing& drawing, std::string_view text) {
  const json document = json::parse(text, nullptr, false);
  if (!document.is_object()) return make_error(ErrorKind::parse, "what dot printed is not JSON");
  try {
    return LayoutReader(drawing, document).read();
  } catch (const json::exception& error) {
    return make_error(ErrorKind::parse, "what dot printed: {}", error.what());
  }
}

Result<Layout> lay_out(const Drawing& drawing, ProcessLauncher& launcher, Deadline deadline) {
  if (drawing.boxes.empty()) return Layout{};
  Result<Layout> layout = run_dot(drawing, launcher, deadline);
  if (layout || layout.error().kind != ErrorKind::internal) return layout;
  Drawing bare = drawing;
  for (Drawing::Arrow& arrow : bare.arrows) arrow.label.clear();
  return run_dot(bare, launcher, deadline);
}

}  // namespace stitch::cli
