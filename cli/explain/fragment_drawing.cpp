#include "cli/explain/fragment_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "graph/print.h"

namespace stitch::cli {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::Op;
using graph::OpCategory;
using graph::Value;

constexpr int most_title_characters = 64;  ///< of a line in a frame's title

/// The value of a constant, or of a constant that was spread over a shape; empty: it is neither.
std::string constant_text(const Graph& graph, NodeId id) {
  const graph::Node& node = graph.node(id);
  if (node.op == Op::broadcast || node.op == Op::reshape) return constant_text(graph, node.operands[0].node);
  if (node.op != Op::constant) return {};
  const std::string text = graph::to_text(graph, id);
  const std::size_t from = text.find('{');
  const std::size_t until = text.rfind('}');
  return from < until ? text.substr(from + 1, until - from - 1) : text;
}

bool is_drawn(const Graph& graph, NodeId id) {
  return graph.node(id).op != Op::parameter && constant_text(graph, id).empty();
}

Drawing::Look look_of(const graph::Node& node) {
  switch (graph::info(node.op).category) {
    case OpCategory::layout: return Drawing::Look::view;
    case OpCategory::reduction: return Drawing::Look::reduction;
    case OpCategory::contraction:
    case OpCategory::boundary:
    case OpCategory::control: return Drawing::Look::boundary;
    case OpCategory::source:
    case OpCategory::elementwise: break;
  }
  return Drawing::Look::elementwise;
}

std::string name_of(const graph::Node& node) {
  std::string name(graph::to_string(node.op));
  if (node.op == Op::reduce) name += fmt::format(" {}", to_string(node.as<graph::ReduceAttributes>().kind));
  if (node.op == Op::compare) name += fmt::format(" {}", to_string(node.as<graph::CompareAttributes>().direction));
  return name;
}

Drawing::Box operator_box(const Graph& graph, NodeId id, int frame) {
  const graph::Node& node = graph.node(id);
  Drawing::Box box;
  box.lines = {name_of(node)};
  box.tooltip = graph::to_text(graph, id);
  box.look = look_of(node);
  box.frame = frame;
  std::set<NodeId> seen;
  for (const Value operand : node.operands) {
    const std::string constant = constant_text(graph, operand.node);
    if (constant.empty() || !seen.insert(operand.node).second) continue;
    box.lines.push_back(shortened(constant, 14));
    box.tooltip += "\n" + graph::to_text(graph, operand.node);
  }
  return box;
}

std::string kernel_tooltip(const KernelExplanation& kernel) {
  std::string text = fmt::format(
      "{}: {}\n{} blocks of {} threads, {} registers (estimate), {} bytes shared\npredicted {:.2f} us:", kernel.name,
      kernel.description, kernel.blocks, kernel.threads, kernel.registers, kernel.shared_bytes, kernel.score.us);
  for (const search::ScoreTerm& term : kernel.score.terms) {
    text += fmt::format("\n  {:.3f} us {}{}", term.us, term.name, term.name == kernel.score.binding ? " (binds)" : "");
  }
  return text;
}

Drawing::Frame kernel_frame(const KernelExplanation& kernel, int number) {
  return {{fmt::format("kernel {} · {:.2f} us · {}", number, kernel.score.us, bytes_text(kernel.bytes)),
           shortened(kernel.description, most_title_characters)},
          kernel_tooltip(kernel),
          hue_of(number)};
}

/// What several operators are, the most frequent first: {"multiply ×12", "add ×7", …}.
std::vector<std::string> contents_of(const Graph& graph, const std::vector<NodeId>& nodes) {
  constexpr std::size_t most_lines = 6;
  std::map<std::string, int> counts;
  for (const NodeId id : nodes) {
    if (is_drawn(graph, id)) ++counts[name_of(graph.node(id))];
  }
  std::vector<std::pair<std::string, int>> ordered(counts.begin(), counts.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> lines;
  for (const auto& [name, count] : ordered) {
    if (lines.size() == most_lines) {
      lines.push_back(fmt::format("and {} other kinds", ordered.size() - most_lines));
      break;
    }
    lines.push_back(fmt::format("{} ×{}", name, count));
  }
  return lines;
}

/// Draws one fragment. A *part* is what shares a frame: a kernel, or what no kernel computes (the last part).
class FragmentDrawer {
 public:
  FragmentDrawer(const FragmentExplanation& fragment, int most)
      : graph_(fragment.graph), kernels_(fragment.kernels), most_(most) {}

  Drawing draw() {
    find_parts();
    for (Part& part : parts_) find_clumps(part);
    fold_largest();
    for (int part = 0; part < std::ssize(parts_); ++part) draw_boxes(part);
    for (int part = 0; part < std::ssize(parts_); ++part) join_operands(part);
    join_results();
    for (const auto& [ends, values] : flows_) drawing_.arrows.push_back(arrow_of(ends, values));
    return std::move(drawing_);
  }

 private:
  /// Operators that are drawn as one box.
  struct Clump {
    std::vector<NodeId> nodes;
    int equals = 1;  ///< so many independent parts of the kernel are computed by the same operators
  };
  struct Part {
    std::vector<NodeId> nodes;
    std::vector<Clump> clumps;
    std::map<NodeId, int> boxes;
    std::map<std::pair<int, NodeId>, int> inputs;  ///< parameters drawn for it, by reader where that is a clump
  };

  void find_parts() {
    std::vector<bool> computed(graph_.size());
    const auto add = [&](const std::vector<NodeId>& nodes) {
      Part& part = parts_.emplace_back();
      for (const NodeId id : nodes) {
        computed[id] = true;
        if (!is_drawn(graph_, id)) continue;
        part.nodes.push_back(id);
        home_.emplace(id, std::ssize(parts_) - 1);
      }
    };
    for (const KernelExplanation& kernel : kernels_) add(kernel.nodes);
    std::vector<NodeId> rest;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!computed[id] && is_drawn(graph_, id)) rest.push_back(id);
    }
    if (!rest.empty()) add(rest);
  }

  /// Divides a part's operators into those that hand tensors to one another. Where many such components are computed
  /// by the same operators (the parameters of an optimizer), these become one clump.
  void find_clumps(Part& part) {
    constexpr std::size_t most_alike = 3;
    std::map<std::vector<std::string>, std::vector<std::vector<NodeId>>> alike;
    for (std::vector<NodeId>& component : components_of(part)) {
      std::vector<std::string> names;
      for (const NodeId id : component) names.push_back(name_of(graph_.node(id)));
      std::sort(names.begin(), names.end());
      alike[names].push_back(std::move(component));
    }
    for (const auto& [names, components] : alike) {
      if (components.size() > most_alike) {
        Clump clump;
        clump.equals = components.size();
        for (const auto& component : components) {
          clump.nodes.insert(clump.nodes.end(), component.begin(), component.end());
        }
        part.clumps.push_back(std::move(clump));
        continue;
      }
      for (const auto& component : components) {
        for (const NodeId id : component) part.clumps.push_back({{id}, 1});
      }
    }
    std::sort(part.clumps.begin(), part.clumps.end(),
              [](const Clump& a, const Clump& b) { return a.nodes.front() < b.nodes.front(); });
  }

  [[nodiscard]] std::vector<std::vector<NodeId>> components_of(const Part& part) const {
    std::map<NodeId, NodeId> leader;
    const auto find = [&](NodeId id) {
      while (leader.at(id) != id) {
        NodeId& next = leader.at(id);
        next = leader.at(next);  // halves the way for whoever asks next
        id = next;
      }
      return id;
    };
    for (const NodeId id : part.nodes) {
      leader[id] = id;
      for (const Value operand : graph_.node(id).operands) {
        const bool joins = leader.contains(operand.node) && graph_.type(operand).elements() > 1;
        if (joins) leader[find(operand.node)] = id;
      }
    }
    std::map<NodeId, std::vector<NodeId>> components;
    for (const NodeId id : part.nodes) components[find(id)].push_back(id);
    std::vector<std::vector<NodeId>> result;
    for (auto& [first, nodes] : components) result.push_back(std::move(nodes));
    return result;
  }

  /// Makes one clump of each of the largest parts, until few enough boxes are left.
  void fold_largest() {
    std::vector<Part*> largest;
    std::ptrdiff_t sum = 0;
    for (Part& part : parts_) {
      largest.push_back(&part);
      sum += std::ssize(part.clumps);
    }
    std::stable_sort(largest.begin(), largest.end(),
                     [](const Part* a, const Part* b) { return a->clumps.size() > b->clumps.size(); });
    for (Part* part : largest) {
      if (sum <= most_ || part->nodes.empty()) break;
      sum -= std::ssize(part->clumps) - 1;
      part->clumps = {{part->nodes, 1}};
    }
  }

  int add_box(Drawing::Box box) {
    drawing_.boxes.push_back(std::move(box));
    return drawing_.boxes.size() - 1;
  }

  void draw_boxes(int number) {
    Part& part = parts_[number];
    int frame = -1;
    if (number < std::ssize(kernels_)) {
      frame = drawing_.frames.size();
      drawing_.frames.push_back(kernel_frame(kernels_[number], number));
    }
    if (part.nodes.empty()) add_box({{"constants"}, "", Drawing::Look::folded, frame, ""});
    for (const Clump& clump : part.clumps) {
      const bool single = clump.nodes.size() == 1;
      const int box = add_box(single ? operator_box(graph_, clump.nodes.front(), frame) : box_of_clump(clump, frame));
      if (!single) folded_.insert(box);
      for (const NodeId id : clump.nodes) part.boxes[id] = box;
    }
  }

  [[nodiscard]] Drawing::Box box_of_clump(const Clump& clump, int frame) const {
    Drawing::Box box;
    box.lines = {clump.equals > 1 ? fmt::format("{} alike, together", clump.equals)
                                  : fmt::format("{} operators", clump.nodes.size())};
    const std::vector<std::string> contents = contents_of(graph_, clump.nodes);
    box.lines.insert(box.lines.end(), contents.begin(), contents.end());
    box.look = Drawing::Look::folded;
    box.frame = frame;
    return box;
  }

  /// The box of an operator as `reader` sees it: its own copy, or that of whoever computes it first; -1: none.
  [[nodiscard]] int box_of_node(NodeId id, const Part& reader) const {
    if (const auto own = reader.boxes.find(id); own != reader.boxes.end()) return own->second;
    const auto home = home_.find(id);
    return home == home_.end() ? -1 : parts_[home->second].boxes.at(id);
  }

  /// The box of a parameter for one part; all that a clump reads share one.
  int input_box(NodeId id, int reader, Part& part) {
    const bool many = folded_.contains(reader);
    const std::pair<int, NodeId> key = many ? std::pair{reader, -1} : std::pair{-1, id};
    if (const auto found = part.inputs.find(key); found != part.inputs.end()) return found->second;
    const auto parameters = graph_.parameters();
    const auto position = std::find(parameters.begin(), parameters.end(), id) - parameters.begin();
    Drawing::Box box;
    box.lines = {many ? "parameters" : fmt::format("parameter {}", position)};
    box.tooltip = many ? "" : graph::to_text(graph_, id);
    box.look = Drawing::Look::tensor;
    return part.inputs[key] = add_box(std::move(box));
  }

  void join_operands(int number) {
    Part& part = parts_[number];
    for (const NodeId id : part.nodes) {
      const int to = part.boxes.at(id);
      for (const Value operand : graph_.node(id).operands) {
        const bool is_parameter = graph_.node(operand.node).op == Op::parameter;
        const int from = is_parameter ? input_box(operand.node, to, part) : box_of_node(operand.node, part);
        if (from >= 0 && from != to) flows_[{from, to}].insert(operand);
      }
    }
  }

  /// A few results get boxes of their own; of many, each operator says which it computes.
  void join_results() {
    constexpr std::ptrdiff_t most_boxes = 8;
    const auto results = graph_.results();
    std::map<int, std::vector<int>> by_box;
    for (int r = 0; r < std::ssize(results); ++r) {
      const auto home = home_.find(results[r].node);
      if (home != home_.end()) by_box[parts_[home->second].boxes.at(results[r].node)].push_back(r);
    }
    const bool apart = std::ssize(by_box) <= most_boxes;
    for (const auto& [box, numbers] : by_box) {
      const std::string name =
          numbers.size() == 1 ? fmt::format("result {}", numbers.front()) : fmt::format("{} results", numbers.size());
      if (!apart) {
        drawing_.boxes[box].lines.push_back("= " + name);
        continue;
      }
      const int to = add_box({{name}, "", Drawing::Look::tensor, -1, ""});
      for (const int r : numbers) flows_[{box, to}].insert(results[r]);
    }
  }

  [[nodiscard]] Drawing::Arrow arrow_of(std::pair<int, int> ends, const std::set<Value>& values) const {
    constexpr int most_named = 12;
    Drawing::Arrow arrow{ends.first, ends.second, "", ""};
    double bytes = 0;
    int named = 0;
    for (const Value value : values) {
      bytes += graph_.type(value).bytes();
      ++named;
      if (named == most_named) arrow.tooltip += "\n…";
      if (named < most_named) arrow.tooltip += (named > 1 ? "\n" : "") + graph::to_text(graph_, value.node);
    }
    arrow.label = values.size() == 1 ? graph::to_string(graph_.type(*values.begin()))
                                     : fmt::format("{} values, {}", values.size(), bytes_text(bytes));
    return arrow;
  }

  const Graph& graph_;
  const std::vector<KernelExplanation>& kernels_;
  const int most_;
  Drawing drawing_;
  std::vector<Part> parts_;
  std::map<NodeId, int> home_;                            ///< the part that computes a node first
  std::set<int> folded_;                                  ///< boxes that stand for a clump
  std::map<std::pair<int, int>, std::set<Value>> flows_;  ///< boxes → what goes from one to the other
};

}  // namespace

Drawing draw_fragment(const FragmentExplanation& fragment, int most) { return FragmentDrawer(fragment, most).draw(); }

std::string bytes_text(double bytes) {
  constexpr std::array<std::string_view, 4> units = {"kB", "MB", "GB", "TB"};
  if (bytes < 1000) return fmt::format("{:.0f} B", bytes);
  std::size_t unit = 0;
  double value = bytes / 1000;
  while (value >= 1000 && unit + 1 < units.size()) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 ? 1 : 0, units[unit]);
}

}  // namespace stitch::cli
