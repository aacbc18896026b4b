#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

#include "api/protocol.h"
#include "graph/graph.h"
#include "import/imported.h"

namespace stitch::python {

/// A verified graph that Python holds: stitch.Fragment.
struct Fragment {
  graph::Graph graph;
  std::vector<std::string> parameters, results;  ///< names
  std::vector<import::Boundary> boundaries;      ///< what nobody here computes
  std::vector<import::Weight> weights;           ///< of ONNX files, where they were asked for
};
Fragment fragment_of(import::Imported imported);

/// (element type, extents): ("f32", (8, 768))
using TypeTuple = std::pair<std::string, std::vector<std::int64_t>>;
TypeTuple tuple_of(const graph::TensorType& type);

/// (parameter, result)
std::vector<std::pair<std::int64_t, std::int64_t>> pairs_of(const std::vector<api::InPlace>& pairs);

/// stitch.Fragment, and the functions that make one of documents and model files.
void bind_fragment(nanobind::module_& module);

}  // namespace stitch::python
