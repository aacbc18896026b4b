#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/client.h"

namespace stitch::client {

/// A field in which a fragment's key and that of the nearest stored plan differ: "toolkit", wanted "13.0", stored
/// "12.9". Of the fragment itself ("shape", "fragment") its inputs' types.
struct KeyDifference {
  std::string field, wanted, stored;
};

/// What a server has stored for a fragment.
struct StoredPlan {
  Hash128 fragment;
  api::PlanTarget target;          ///< that plans are made for
  std::optional<Hash128> plan;     ///< what is served for it
  std::optional<Hash128> closest;  ///< the nearest plan, where nothing is; none: nothing of its family is stored
  std::vector<KeyDifference> differs;
};

/// Why a server has no plan for a fragment, or which one it has. Nothing is predicted or tuned for the question.
/// `options`: name, constraints and device are looked at. Errors: those of Client::look_up and Client::plan.
Result<StoredPlan> why(Client& server, const graph::Graph& fragment, FetchOptions options = {});

/// The types of a graph's parameters or a plan's: "f32[8,768], f32[768]".
std::string types_of(const std::vector<graph::TensorType>& types);
std::string parameter_types(const graph::Graph& graph);

}  // namespace stitch::client
