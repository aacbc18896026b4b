#include <nlohmann/json.hpp>

#include "graph/codec/codec.h"
#include "import/import.h"

namespace stitch::import {
namespace {

std::vector<Boundary> boundaries_of(const graph::Graph& graph) {
  std::vector<Boundary> found;
  graph::for_each_region(graph, [&](const graph::RegionSite& site) {
    for (graph::NodeId id = 0; id < site.graph.size(); ++id) {
      const graph::Node& node = site.graph.node(id);
      if (node.op != graph::Op::opaque) continue;
      found.push_back({node.as<graph::OpaqueAttributes>().target,
                       fmt::format("node {} '{}'{}{}", id, node.name, site.path.empty() ? "" : " in ", site.path),
                       site.occurrences, "opaque in the fragment"});
    }
  });
  return found;
}

/// A fragment by itself, or the one that a report of wrong kernels is about.
Result<graph::Graph> decode_fragment(std::string_view bytes, graph::Encoding encoding,
                                     const graph::DecodeLimits& limits) {
  constexpr std::string_view fault_format = "stitch-fault";
  // Only such a report has the word among its first ones.
  if (encoding != graph::Encoding::json || bytes.substr(0, 200).find(fault_format) == std::string_view::npos)
    return graph::decode(bytes, encoding, limits);
  STITCH_ASSIGN(const nlohmann::json document, graph::parse_document(bytes, encoding, limits.bytes));
  const auto format = document.find("format");
  if (format == document.end() || *format != fault_format) return graph::decode(bytes, encoding, limits);
  const auto graph = document.find("graph");
  if (graph == document.end()) return make_error(ErrorKind::invalid_argument, "graph: the report has none");
  const Result<graph::Graph> decoded = graph::from_document(*graph, limits);
  return decoded ? decoded : decoded.error().within("graph");
}

}  // namespace

Result<Imported> import_fragment(std::string_view bytes, const ImportOptions& options) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  const bool json = first != std::string_view::npos && bytes[first] == '{';
  graph::DecodeLimits limits;
  limits.bytes = options.max_bytes;
  limits.nodes = options.max_nodes;
  limits.constant_bytes = std::int64_t{1} << 28;  // a file of some bytes may say "splat"
  Imported imported;
  imported.format = json ? "fragment-json" : "fragment-cbor";
  STITCH_ASSIGN(imported.graph, decode_fragment(bytes, json ? graph::Encoding::json : graph::Encoding::cbor, limits));
  imported.boundaries = boundaries_of(imported.graph);
  for (const graph::NodeId id : imported.graph.parameters()) {
    imported.parameters.push_back(imported.graph.node(id).name);
  }
  for (const graph::Value& value : imported.graph.results()) {
    imported.results.push_back(imported.graph.node(value.node).name);
  }
  return imported;
}

}  // namespace stitch::import
