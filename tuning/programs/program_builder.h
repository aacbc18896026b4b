#pragma once

#include <functional>

#include "api/program_document.h"
#include "base/result.h"
#include "graph/calls/library_call.h"
#include "graph/graph.h"

namespace stitch::tuning {

struct ProgramOptions {
  /// Which loops are fragments as a whole (graph::CutOptions::whole_loop).
  std::function<bool(const graph::Graph&)> whole_loop;
  /// Which library calls, attentions and products with longer epilogues (their graphs) are fragments, with kernels of
  /// ours; null: none.
  graph::OwnCall own_product = {};
  graph::Constraints constraints = {};  ///< of the model, for the bodies of its loops as well
  bool quick_layouts = false;           ///< graph::LibraryOptions::quick_layouts, where all products are a library's
};

/// The program of a simplified graph, without plans: the graph and each of its regions cut into fragments and library
/// calls, in an order that keeps little memory alive, with a memory plan. Fragments are in order of appearance, and
/// equal ones are one. Of a loop whose trip count is known the condition is no part. Ports have types; names and ranges
/// are the caller's. Errors: those of canonical forms; internal (pieces that wait for each other).
Result<api::Program> build_program(const graph::Graph& graph, const ProgramOptions& options = {});

}  // namespace stitch::tuning
