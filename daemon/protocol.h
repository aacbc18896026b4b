#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "graph/tensor_type.h"

// What travels between stitchd and its clients, as plain values with their JSON form (docs/api.md, docs/openapi.yaml).
// The CBOR form is the same document. This is the one header of daemon/ that client/ includes.
namespace stitch::daemon {

inline constexpr int protocol_version = 1;

/// Where a kernel argument comes from. Arguments are 8 bytes each, in order.
struct LaunchArgument {
  enum class Kind : std::uint8_t {
    parameter,  ///< address of the fragment's parameter `value`
    result,     ///< address of the fragment's result `value`
    workspace,  ///< address of the plan's workspace plus `value` bytes
    integer,    ///< the number `value`
  };
  Kind kind = Kind::parameter;
  std::int64_t value = 0;

  bool operator==(const LaunchArgument&) const = default;
};

/// One launch. Grid and block are one-dimensional. Buffers must be 16-byte aligned.
struct KernelLaunch {
  Hash128 cubin;  ///< artifacts, by content
  Hash128 ptx;
  std::string name;         ///< entry point
  std::string description;  ///< for people: "softmax row sums, 2 phases"
  std::int64_t blocks = 1;
  int threads = 1;
  int cluster = 1;
  std::int64_t shared_bytes = 0;  ///< dynamic shared memory per block
  bool cooperative = false;       ///< must be launched cooperatively
  std::vector<LaunchArgument> arguments;
  std::int64_t bytes = 0;  ///< device memory moved, as planned
  double predicted_us = 0;

  bool operator==(const KernelLaunch&) const = default;
};

/// A part of the workspace that must be zero before the plan's first run; kernels leave it zero.
struct ZeroedRange {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  bool operator==(const ZeroedRange&) const = default;
};

/// Result `to` is the same tensor as parameter or result `from`, and no kernel writes it: copied after the launches.
struct ResultCopy {
  LaunchArgument from;
  std::int64_t to = 0;
  std::int64_t bytes = 0;
  bool operator==(const ResultCopy&) const = default;
};

/// What a plan is good for; all fields must match.
struct PlanTarget {
  std::string device;        ///< entry of the device table: "h100"
  std::string architecture;  ///< "sm_90a"
  std::string toolkit;       ///< "13.0.88"
  std::string version;       ///< of the generator

  bool operator==(const PlanTarget&) const = default;
};

/// What a client runs for one fragment: launches in order on one stream. Parameters and results are those of the
/// *canonical* fragment; the client permutes its own (graph::canonicalise tells how).
struct Plan {
  Hash128 id;
  Hash128 fragment;
  PlanTarget target;
  std::vector<graph::TensorType> parameters;
  std::vector<graph::TensorType> results;
  std::vector<KernelLaunch> launches;
  std::vector<ResultCopy> copies;
  std::int64_t workspace_bytes = 0;  ///< 256-byte aligned; one allocation serves any number of runs in turn
  std::vector<ZeroedRange> zeroed;

  std::string label;               ///< "measured", "near", "predicted", "default"
  std::int64_t sequence = 0;       ///< of its promotion; a later one is better
  std::int64_t bytes = 0;          ///< device memory moved, as planned
  double predicted_us = 0;         ///< on target.device
  std::optional<double> measured_us;
  double verified_share = 0;  ///< of its outputs that were compared with the reference, 0 … 1
  std::string judged;         ///< how: "verified on emulated device", "predicted by analytical v1"

  bool operator==(const Plan&) const = default;
};

/// The part of a plan that never changes, as JSON text: what the store keeps as db::Plan::document.
std::string plan_document(const Plan& plan);
/// A whole plan as JSON text, and back. Errors: parse, naming the field.
std::string to_json(const Plan& plan);
Result<Plan> plan_from_json(std::string_view text);

std::string_view to_string(LaunchArgument::Kind kind);

}  // namespace stitch::daemon
