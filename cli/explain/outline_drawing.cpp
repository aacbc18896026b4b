#include "cli/explain/outline_drawing.h"

#include <fmt/format.h>

#include "cli/explain/fragment_drawing.h"

namespace stitch::cli {
namespace {

using tuning::ModelOutline;

constexpr int most_box_characters = 40;  ///< of a line in a box

std::string times(std::int64_t count) { return count == 1 ? "" : fmt::format(" ×{}", count); }

Drawing::Box fragment_box(const FragmentExplanation& fragment, std::int64_t sites) {
  double bytes = 0;
  for (const KernelExplanation& kernel : fragment.kernels) bytes += kernel.bytes;
  const std::size_t kernels = fragment.kernels.size();
  Drawing::Box box;
  box.lines = {fragment.name + times(sites),
               fmt::format("{} operators in {} kernel{}", graph::operator_count(fragment.graph), kernels,
                           kernels == 1 ? "" : "s"),
               fmt::format("{:.2f} us · {}", fragment.predicted_us, bytes_text(bytes))};
  box.tooltip = fmt::format("fragment {}", fragment.key.hex());
  for (const KernelExplanation& kernel : fragment.kernels) {
    box.tooltip += fmt::format("\n{:.2f} us: {}", kernel.score.us, kernel.description);
  }
  box.look = Drawing::Look::folded;
  box.link = "#f" + fragment.key.hex();
  return box;
}

Drawing::Box boundary_box(const ModelOutline::Part& part) {
  Drawing::Box box;
  box.lines = {shortened(part.text, most_box_characters) + times(part.sites)};
  box.tooltip = part.text;
  box.look = Drawing::Look::boundary;
  return box;
}

/// Names the flow in the tooltips of its ends.
void mention(const ModelOutline::Flow& flow, Drawing& drawing) {
  Drawing::Box& from = drawing.boxes[flow.from];
  Drawing::Box& to = drawing.boxes[flow.to];
  from.tooltip += "\nalso read by: " + to.lines.front();
  to.tooltip += "\nalso reads: " + from.lines.front();
}

}  // namespace

bool leaves_out_flows(const ModelOutline& outline) {
  constexpr std::size_t most_flows = 40;
  return outline.flows.size() > most_flows;
}

Drawing draw_outline(const ModelOutline& outline, const std::vector<FragmentExplanation>& fragments) {
  Drawing drawing;
  for (int r = 1; r < std::ssize(outline.regions); ++r) {
    drawing.frames.push_back(
        {{"body of " + shortened(outline.regions[r], most_box_characters)}, outline.regions[r], hue_of(r)});
  }
  for (const ModelOutline::Part& part : outline.parts) {
    const bool is_fragment = part.kind == ModelOutline::Part::Kind::fragment;
    drawing.boxes.push_back(is_fragment ? fragment_box(fragments[part.entry], part.sites) : boundary_box(part));
    drawing.boxes.back().frame = part.region - 1;
  }
  const bool all = !leaves_out_flows(outline);
  for (const ModelOutline::Flow& flow : outline.flows) {
    if (!all && !flow.is_latest) {
      mention(flow, drawing);
      continue;
    }
    const std::string label = flow.is_uniform ? graph::to_string(flow.type) : std::to_string(flow.values) + " values";
    drawing.arrows.push_back({flow.from, flow.to, label, fmt::format("{} values", flow.values)});
  }
  return drawing;
}

}  // namespace stitch::cli
