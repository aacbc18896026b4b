#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/codec/encoding.h"
#include "graph/graph.h"

// Graphs as documents: for files, for the client's requests and for the store. One structure, in JSON for people and in
// CBOR for programs (docs/fragment-format.md):
//
//     {"format": "stitch-graph", "version": 1,
//      "nodes": [{"op": "parameter", "attributes": {"type": "f32[8,768]"}}, {"op": "exp", "operands": [0]}],
//      "results": [1]}
//
// Operators and attributes go by their names in graph/op_table.inl and graph/attributes.h, so a new operator needs
// nothing here. What is read is foreign: every field is checked, and the error says where.

namespace stitch::graph {

inline constexpr std::string_view graph_format_name = "stitch-graph";
inline constexpr std::int64_t graph_format_version = 1;

/// What a decoder accepts; beyond it is ErrorKind::resource_exhausted.
struct DecodeLimits {
  std::int64_t bytes = std::int64_t{1} << 28;           ///< of the encoded document
  std::int64_t nodes = std::int64_t{1} << 20;           ///< of all graphs and regions together
  std::int64_t constant_bytes = std::int64_t{1} << 30;  ///< of all constants together; a splat is one element
  int region_depth = 16;                                ///< regions inside regions
};

/// What is read of a stranger's message.
inline constexpr DecodeLimits message_limits{.constant_bytes = std::int64_t{64} << 20};

/// The graph with its regions, names and lines. JSON on one line, or indented by `indent` spaces.
std::string encode(const Graph& graph, Encoding encoding, int indent = -1);

/// Reads what encode wrote, validates all of it and verifies the graph. Never throws. Errors: parse (not JSON/CBOR;
/// names the byte), version_mismatch (another format or version), invalid_argument (names the place as
/// "nodes[12].attributes.dims[0]"), resource_exhausted.
Result<Graph> decode(std::string_view bytes, Encoding encoding, const DecodeLimits& limits = {});

/// The document as a value, to be part of a larger one (a request, a record). `encoding` decides how constants' bytes
/// are held: base64 text or binary.
nlohmann::json to_document(const Graph& graph, Encoding encoding);
Result<Graph> from_document(const nlohmann::json& document, const DecodeLimits& limits = {});

/// Parses untrusted bytes into a document without exceptions: bounded in size and nesting, duplicate keys refused.
/// Errors: parse, with the byte position; resource_exhausted.
Result<nlohmann::json> parse_document(std::string_view bytes, Encoding encoding, std::int64_t most_bytes = 1 << 28);

}  // namespace stitch::graph
