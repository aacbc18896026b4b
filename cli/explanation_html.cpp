#include <map>
#include <set>

#include "cli/explanation.h"
#include "cli/graph_drawing.h"
#include "graph/print.h"

namespace stitch::cli {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Op;

/// More operators than this are not drawn one by one: their kernels are.
constexpr std::size_t most_operators = 250;

constexpr std::string_view style =
    "body{font:14px system-ui,sans-serif;margin:2em;max-width:120em}"
    "svg text{font:11px ui-monospace,monospace}pre{background:#f6f6f6;padding:1em;overflow:auto}"
    ".drawing{overflow:auto;border:1px solid #ddd}.key{display:inline-block;margin:.2em .8em .2em 0}"
    ".key i{display:inline-block;width:1em;height:1em;border:1px solid #555;margin-right:.4em;vertical-align:-2px}"
    "table{border-collapse:collapse}td,th{border:1px solid #ddd;padding:.2em .6em;text-align:left}";

/// Kernel of each node; a node that several kernels compute for themselves belongs to the first.
std::map<NodeId, int> kernels_of(const FragmentExplanation& fragment) {
  std::map<NodeId, int> kernel;
  for (std::size_t k = 0; k < fragment.kernels.size(); ++k) {
    for (const NodeId node : fragment.kernels[k].nodes) kernel.emplace(node, static_cast<int>(k));
  }
  return kernel;
}

/// Parameters and operators; constants stand in the tooltips of those who read them.
Drawing draw_operators(const FragmentExplanation& fragment) {
  const Graph& graph = fragment.graph;
  const auto kernel = kernels_of(fragment);
  Drawing drawing;
  std::map<NodeId, int> place;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const graph::Node& node = graph.node(id);
    if (node.op == Op::constant) continue;
    const auto found = kernel.find(id);
    place[id] = static_cast<int>(drawing.nodes.size());
    drawing.nodes.push_back({fmt::format("{} {}", graph::to_string(node.op), graph::to_string(node.type())),
                             graph::to_text(graph, id), found == kernel.end() ? -1 : found->second});
    std::set<NodeId> operands;
    for (const graph::Value operand : node.operands) operands.insert(operand.node);
    for (const NodeId operand : operands) {
      if (place.contains(operand)) drawing.edges.emplace_back(place.at(operand), place.at(id));
    }
  }
  return drawing;
}

Drawing draw_kernels(const FragmentExplanation& fragment) {
  Drawing drawing;
  for (std::size_t k = 0; k < fragment.kernels.size(); ++k) {
    const KernelExplanation& kernel = fragment.kernels[k];
    drawing.nodes.push_back(
        {fmt::format("{}: {} operators", k, kernel.nodes.size()), kernel.description, static_cast<int>(k)});
  }
  for (const BoundaryExplanation& boundary : fragment.boundaries) {
    if (boundary.bytes > 0) drawing.edges.emplace_back(boundary.from, boundary.to);
  }
  return drawing;
}

std::string legend(const FragmentExplanation& fragment) {
  std::string html = "<p>";
  for (std::size_t k = 0; k < fragment.kernels.size(); ++k) {
    const KernelExplanation& kernel = fragment.kernels[k];
    html += fmt::format("<span class=\"key\"><i style=\"background:{}\"></i>{}: {}, {:.2f} us</span>",
                        group_colour(static_cast<int>(k)), k, escape_html(kernel.description), kernel.score.us);
  }
  return html + "</p>\n";
}

std::string section(const FragmentExplanation& fragment) {
  const bool small = static_cast<std::size_t>(graph::operator_count(fragment.graph)) <= most_operators;
  std::string html = fmt::format("<h2 id=\"f{}\">{}</h2>\n", fragment.key.hex(), escape_html(fragment.name));
  html += legend(fragment);
  html += fmt::format("<div class=\"drawing\">{}</div>\n",
                      to_svg(small ? draw_operators(fragment) : draw_kernels(fragment)));
  html += fmt::format("<pre>{}</pre>\n", escape_html(to_text(fragment)));
  for (std::size_t k = 0; k < fragment.kernels.size(); ++k) {
    if (!fragment.kernels[k].report) continue;
    html += fmt::format("<details><summary>source of kernel {}</summary><pre>{}</pre></details>\n", k,
                        escape_html(fragment.kernels[k].report->source));
  }
  return html;
}

}  // namespace

std::string to_html(std::string_view title, const std::vector<FragmentExplanation>& fragments) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title><style>{1}</style></head>"
      "<body>\n<h1>{0}</h1>\n<table><tr><th>fragment</th><th>runs</th><th>operators</th><th>kernels</th>"
      "<th>predicted us</th><th>unfused kernels</th><th>unfused us</th></tr>\n",
      escape_html(title), style);
  for (const FragmentExplanation& fragment : fragments) {
    html += fmt::format(
        "<tr><td><a href=\"#f{}\">{}</a></td><td>{}</td><td>{}</td><td>{}</td><td>{:.2f}</td><td>{}</td><td>{:.2f}"
        "</td></tr>\n",
        fragment.key.hex(), escape_html(fragment.name), fragment.occurrences, graph::operator_count(fragment.graph),
        fragment.kernels.size(), fragment.predicted_us, fragment.unfused_kernels, fragment.unfused_us);
  }
  html += "</table>\n";
  for (const FragmentExplanation& fragment : fragments) html += section(fragment);
  return html + "</body></html>\n";
}

}  // namespace stitch::cli
