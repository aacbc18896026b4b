#include "graph/print.h"

#include <fmt/ranges.h>

#include <cmath>
#include <unordered_map>

#include "base/hash.h"
#include "graph/literal.h"

namespace stitch::graph {
namespace {

/// Constants of up to this many elements show all of them.
constexpr std::int64_t most_shown = 8;

std::string element_text(const ConstantAttributes& constant, std::int64_t i) {
  const DType dtype = constant.type.dtype;
  if (is_floating(dtype)) {
    const double value = element(constant, i);
    // Shortest text that reads back as the same value of the dtype: f32's 0.1 is not 0.10000000149011612.
    return dtype == DType::f64 ? fmt::format("{}", value) : fmt::format("{}", static_cast<float>(value));
  }
  const std::int64_t value = load_integer(dtype, element_at(constant, i));
  if (dtype == DType::pred) return value != 0 ? "true" : "false";
  return dtype == DType::u64 ? fmt::format("{}", static_cast<std::uint64_t>(value)) : fmt::format("{}", value);
}

std::string constant_text(const ConstantAttributes& constant) {
  const std::int64_t count = constant.type.elements();
  if (constant.type.dims.empty()) return element_text(constant, 0);
  if (count > 1 && is_splat(constant)) return fmt::format("splat {}", element_text(constant, 0));
  if (count > most_shown) return fmt::format("data #{}", hash_bytes(std::span(constant.data)).hex().substr(0, 16));
  std::vector<std::string> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(element_text(constant, i));
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string field_text(std::int64_t value) { return fmt::format("{}", value); }
std::string field_text(bool value) { return value ? "true" : "false"; }
std::string field_text(const std::string& value) { return fmt::format("\"{}\"", value); }
std::string field_text(DType value) { return std::string(to_string(value)); }
std::string field_text(ReduceKind value) { return std::string(to_string(value)); }
std::string field_text(Comparison value) { return std::string(to_string(value)); }
std::string field_text(const TensorType& value) { return to_string(value); }

template <class T>
std::string field_text(const std::vector<T>& list) {
  std::vector<std::string> parts;
  for (const T& value : list) parts.push_back(field_text(value));
  return fmt::format("[{}]", fmt::join(parts, ","));
}

/// "{kind=sum, dimensions=[1]}"; nothing for operators without attributes, and for what the result type says already.
std::string attributes_text(const Node& node) {
  if (const auto* constant = std::get_if<ConstantAttributes>(&node.attributes)) {
    return fmt::format("{{{}}}", constant_text(*constant));
  }
  const bool type_says_it =
      node.op == Op::parameter || node.op == Op::reshape || node.op == Op::convert || node.op == Op::bitcast_convert;
  if (type_says_it) return "";
  std::vector<std::string> parts;
  std::visit(
      [&](const auto& a) {
        using A = std::decay_t<decltype(a)>;
        if constexpr (!std::is_same_v<A, ConstantAttributes>) {
          A::fields(a, [&](std::string_view name, const auto& field) {
            if (name == "type") return;
            parts.push_back(fmt::format("{}={}", name, field_text(field)));
          });
        }
      },
      node.attributes);
  return parts.empty() ? "" : fmt::format("{{{}}}", fmt::join(parts, ", "));
}

std::string value_text(Value value) {
  return value.result == 0 ? fmt::format("%{}", value.node) : fmt::format("%{}.{}", value.node, value.result);
}

std::string values_text(std::span<const Value> values) {
  std::vector<std::string> parts;
  for (const Value& value : values) parts.push_back(value_text(value));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string types_text(const Node& node) {
  if (node.results.size() == 1) return to_string(node.type());
  std::vector<std::string> parts;
  for (const TensorType& type : node.results) parts.push_back(to_string(type));
  return fmt::format("({})", fmt::join(parts, ", "));
}

std::string_view region_label(const Node& node, std::size_t index) {
  if (node.op == Op::loop) return index == 0 ? "body" : "condition";
  return node.op == Op::associative_scan ? "combiner" : "branch";
}

/// Names come from files: one line, whatever they hold.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) c = static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return line;
}

void write_graph(const Graph& graph, const std::string& indent, std::string_view label, std::string& out) {
  out += fmt::format("{}{} \"{}\"", indent, label, one_line(graph.name));
  if (graph.constraints.any()) out += fmt::format(" under {}", to_string(graph.constraints));
  out += " {\n";
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    out += fmt::format("{}  {}", indent, to_text(graph, id));
    if (!node.name.empty()) out += fmt::format("  // {}", one_line(node.name));
    out += '\n';
    for (std::size_t i = 0; i < node.regions.size(); ++i) {
      write_graph(*node.regions[i], indent + "    ", fmt::format("{} {}", region_label(node, i), i), out);
    }
  }
  out += fmt::format("{}  return {}\n{}}}\n", indent, values_text(graph.results()), indent);
}

}  // namespace

std::string to_text(const Graph& graph) {
  std::string out;
  write_graph(graph, "", "graph", out);
  return out;
}

std::string to_text(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  std::string text = fmt::format("%{} = {} {}", id, to_string(node.op), types_text(node));
  if (!node.operands.empty()) text += fmt::format(" {}", values_text(node.operands));
  const std::string attributes = attributes_text(node);
  if (!attributes.empty()) text += fmt::format(" {}", attributes);
  return text;
}

namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

/// A constant small enough to be drawn inside its users.
bool is_inline(const Graph& graph, NodeId id) {
  return graph.node(id).op == Op::constant && graph.node(id).type().elements() == 1;
}

class Drawing {
 public:
  std::string out = "digraph stitch {\n  node [shape=box, style=filled, fillcolor=white, fontname=\"Helvetica\"];\n";

  /// `prefix` tells the nodes of one region from those of another.
  void graph(const Graph& graph, const std::string& prefix, const std::string& indent,
             std::span<const NodeCluster> clusters) {
    std::unordered_map<NodeId, bool> drawn;
    for (std::size_t c = 0; c < clusters.size(); ++c) {
      out += fmt::format("{}subgraph \"cluster_{}{}\" {{\n{}  label={};\n{}  style=rounded;\n", indent, prefix, c,
                         indent, quoted(clusters[c].label), indent);
      for (const NodeId id : clusters[c].nodes) {
        if (id < 0 || id >= graph.size() || drawn[id]) continue;
        node(graph, id, prefix, indent + "  ");
        drawn[id] = true;
      }
      out += fmt::format("{}}}\n", indent);
    }
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (!drawn[id]) node(graph, id, prefix, indent);
    }
    for (NodeId id = 0; id < graph.size(); ++id) edges(graph, id, prefix, indent);
    for (std::size_t r = 0; r < graph.results().size(); ++r) {
      const Value value = graph.results()[r];
      if (is_inline(graph, value.node)) continue;
      out += fmt::format("{}\"{}r{}\" [label=\"result {}\", shape=oval];\n{}\"{}n{}\" -> \"{}r{}\";\n", indent, prefix,
                         r, r, indent, prefix, value.node, prefix, r);
    }
  }

 private:
  static std::string_view color(const Node& node) {
    switch (info(node.op).category) {
      case OpCategory::source: return "#e8e8e8";
      case OpCategory::elementwise: return info(node.op).cost == OpCost::expensive ? "#fff2cc" : "#ffffff";
      case OpCategory::layout: return "#deebf7";
      case OpCategory::reduction: return "#f8cbad";
      default: return "#d9c3e8";
    }
  }

  void node(const Graph& graph, NodeId id, const std::string& prefix, const std::string& indent) {
    if (is_inline(graph, id)) return;
    const Node& n = graph.node(id);
    std::string label = fmt::format("%{} {}", id, to_string(n.op));
    for (std::size_t i = 0; i < n.operands.size(); ++i) {
      const Value operand = n.operands[i];
      if (!is_inline(graph, operand.node)) continue;
      label += fmt::format("\n#{} = {}", i, element_text(graph.node(operand.node).as<ConstantAttributes>(), 0));
    }
    label += fmt::format("\n{}", types_text(n));
    if (const std::string attributes = attributes_text(n); !attributes.empty() && n.op != Op::opaque) {
      label += fmt::format("\n{}", attributes);
    }
    if (n.op == Op::opaque) label += fmt::format("\n{}", n.as<OpaqueAttributes>().target);
    out += fmt::format("{}\"{}n{}\" [label={}, fillcolor=\"{}\"];\n", indent, prefix, id, quoted(label), color(n));
    for (std::size_t r = 0; r < n.regions.size(); ++r) {
      const std::string inner = fmt::format("{}n{}_{}_", prefix, id, r);
      out += fmt::format("{}subgraph \"cluster_{}\" {{\n{}  label={};\n{}  style=dashed;\n", indent, inner, indent,
                         quoted(fmt::format("%{} {}", id, region_label(n, r))), indent);
      this->graph(*n.regions[r], inner, indent + "  ", {});
      out += fmt::format("{}}}\n", indent);
    }
  }

  void edges(const Graph& graph, NodeId id, const std::string& prefix, const std::string& indent) {
    for (const Value& operand : graph.node(id).operands) {
      if (is_inline(graph, operand.node)) continue;
      out += fmt::format("{}\"{}n{}\" -> \"{}n{}\"", indent, prefix, operand.node, prefix, id);
      out += operand.result == 0 ? ";\n" : fmt::format(" [taillabel=\"{}\"];\n", operand.result);
    }
  }
};

}  // namespace

std::string to_graphviz(const Graph& graph, std::span<const NodeCluster> clusters) {
  Drawing drawing;
  drawing.graph(graph, "", "  ", clusters);
  return drawing.out + "}\n";
}

}  // namespace stitch::graph
