#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "graph/donation.h"
#include "graph/graph.h"

// What every importer makes of a model: its graph, and what the source tells besides (import/import.h).

namespace stitch::import {

/// An operator that we do not generate and that therefore became an opaque node.
struct Boundary {
  std::string op;                ///< as named in the source: "sort", "custom-call foo", "NonMaxSuppression"
  std::string place;             ///< where: "line 12, sort.3" (HLO), "node 17 '/layer/nms'" (ONNX)
  std::int64_t occurrences = 1;  ///< how often it runs: the trip counts of the loops around it, 1 when unknown
  std::string reason;            ///< why it is opaque

  bool operator==(const Boundary&) const = default;
};

/// What the source tells about the values of an integer parameter (an embedding's indices); whoever makes up inputs
/// should stay inside. Both ends are included.
struct ParameterRange {
  std::int64_t parameter = 0;  ///< position in Graph::parameters()
  std::int64_t low = 0;
  std::int64_t high = 0;

  bool operator==(const ParameterRange&) const = default;
};

/// What an ONNX file has for a parameter that was an initializer: its elements, or where they are stored.
struct Weight {
  std::int64_t parameter = 0;   ///< position in Graph::parameters()
  std::vector<std::byte> data;  ///< empty where `location` is not
  std::string location;         ///< of a file beside the model's, as the model names it
  std::int64_t offset = 0;      ///< bytes into that file
};

/// A model as the rest of Stitch sees it. Every node's `name` and `line` are those of the source.
struct Imported {
  graph::Graph graph;
  std::vector<Boundary> boundaries;     ///< in the order of their nodes, regions included
  std::vector<ParameterRange> ranges;   ///< by parameter, at most one each
  std::string format;                   ///< "hlo", "onnx", "fragment-json", "fragment-cbor"
  std::vector<std::string> parameters;  ///< names, by position in Graph::parameters()
  std::vector<std::string> results;     ///< names, by position in Graph::results()
  /// Parameters that results may overwrite: what the source says (HLO's input_output_alias) and what ImportOptions
  /// adds.
  std::vector<graph::Donation> donations = {};
  std::vector<Weight> weights = {};  ///< by parameter; where ImportOptions::keep_weights asks for them
  /// Open dimensions of the source and the extents that they were taken to have.
  std::vector<std::pair<std::string, std::int64_t>> extents = {};
};

}  // namespace stitch::import
