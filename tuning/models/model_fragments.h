#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "graph/cut.h"
#include "import/import.h"
#include "tuning/models/model_outline.h"
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

/// A model cut into fragments: equal ones share an entry.
struct ModelFragments {
  struct Entry {
    Hash128 key, family;
    graph::Graph graph;            ///< canonical
    std::int64_t occurrences = 0;  ///< how often it runs in one run of the model
    std::string name;              ///< where it first stands: "body of while.3, level 2"
  };
  std::vector<Entry> entries;      ///< in order of appearance
  std::int64_t operators = 0;      ///< before simplification, regions once
  std::int64_t library_calls = 0;  ///< weighted by occurrences, opaque operators included
  std::int64_t opaque = 0;         ///< of them operators that neither a kernel nor a library's call computes
  std::vector<import::Boundary> boundaries;
  std::vector<graph::DonationOutcome> donations;  ///< of the model's own graph
  ModelOutline outline;                           ///< how fragments and boundaries hang together
};

/// Simplifies the graph and cuts every region of it; loops for which `whole_loop` (graph::CutOptions) holds stay whole.
/// Errors: those of simplification and canonical forms; cancelled once `stop` fires.
Result<ModelFragments> cut_model(import::Imported model,
                                 const std::function<bool(const graph::Graph&)>& whole_loop = {},
                                 const std::stop_token& stop = {});
/// Whole are the loops of which the tuner's explorers expect more in one kernel than turn by turn. Errors: also
/// cancelled, once `stop` fires.
Result<ModelFragments> cut_model(import::Imported model, const Tuner& tuner, const std::stop_token& stop = {});

}  // namespace stitch::tuning
