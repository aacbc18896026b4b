#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/device_traits.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/sha256.h"
#include "graph/codec/codec.h"
#include "graph/graph.h"
#include "graph/tensor_type.h"

// What travels between stitchd and its clients, as plain values (docs/api.md, docs/openapi.yaml). A client that has a
// fragment to run says
//
//   LookupRequest request{fragment, "layer 3", 250, true};
//   body = encode_document(to_document(request, Encoding::cbor), Encoding::cbor);   // POST /v1/lookup
//   Result<LookupAnswer> answer = decode_message<LookupAnswer>(reply, Encoding::cbor);
//
// and runs what answer->plan says. JSON and CBOR are two encodings of one document. Requests are made by client/ and
// `stitch`, answers by daemon/ and tuning/ (record_summary, plan_record); each reads what the other makes. The fields
// of the documents are listed in api/message_fields.h, once for both directions.
namespace stitch::api {

/// 2: /v1/models lists the models that users brought, /v1/cost-models what was trained.
inline constexpr int protocol_version = 3;

/// Where a daemon listens by default: $XDG_RUNTIME_DIR/stitch/stitchd.sock, or /tmp/stitch-UID/stitchd.sock without a
/// runtime folder.
std::filesystem::path default_socket_path();
/// Where a daemon that serves on a TCP port writes its secret by default: token-PORT in the same folder.
std::filesystem::path default_token_path(int port);

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
  Sha256 cubin;  ///< artifacts, by content
  Sha256 ptx;
  std::string name;         ///< entry point
  std::string description;  ///< for people: "softmax row sums, 2 phases"
  std::int64_t blocks = 1;
  int threads = 1;
  int cluster = 1;
  std::int64_t shared_bytes = 0;  ///< dynamic shared memory per block
  bool cooperative = false;       ///< must be launched cooperatively
  /// Its code waits for what stands before it in the stream before it touches memory (griddepcontrol.wait): behind
  /// another kernel it may be launched with CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION.
  bool dependent = false;
  std::vector<LaunchArgument> arguments;
  std::int64_t bytes = 0;  ///< device memory moved, as planned
  double predicted_us = 0;
  double uncertainty_us = 0;  ///< how far that may be off; 0 where nobody said

  bool operator==(const KernelLaunch&) const = default;
};

/// A part of the workspace that must be zero before the plan's first run; kernels leave it ready for the next.
struct ZeroedRange {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  bool operator==(const ZeroedRange&) const = default;
};

/// Result `to` is the same tensor as parameter or result `from`, and no kernel writes it: copied after the launches.
/// Or it is parameter `from` updated in place: copied `before` the launches, unless the two share their memory.
struct ResultCopy {
  LaunchArgument from;
  std::int64_t to = 0;
  std::int64_t bytes = 0;
  bool before = false;
  bool operator==(const ResultCopy&) const = default;
};

/// Result `result` may lie where parameter `parameter` does: whoever runs the plan may give one address for both.
struct InPlace {
  std::int64_t parameter = 0;
  std::int64_t result = 0;
  bool operator==(const InPlace&) const = default;
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
  /// Of a fragment under the constraint `in_place`: any of these at once, each parameter and each result once.
  std::vector<InPlace> in_place;

  std::string label;          ///< "measured", "near", "predicted", "default"
  std::int64_t sequence = 0;  ///< of its promotion; a later one is better
  std::int64_t bytes = 0;     ///< device memory moved, as planned
  double predicted_us = 0;    ///< on target.device
  double uncertainty_us = 0;  ///< how far that may be off: the sum of its launches'
  std::optional<double> measured_us;
  double verified_share = 0;  ///< of its outputs that were compared with the reference, 0 … 1
  std::string judged;         ///< how: "verified on emulated device", "predicted by analytical v1"

  bool operator==(const Plan&) const = default;
};

/// The part of a plan that never changes, as JSON text: what the store keeps as db::PlanRecord::document.
std::string plan_document(const Plan& plan);
/// A whole plan as JSON text, and back. Errors: parse, naming the field.
std::string to_json(const Plan& plan);
Result<Plan> plan_from_json(std::string_view text);

std::string_view to_string(LaunchArgument::Kind kind);

/// "Give me a plan for this fragment."
struct LookupRequest {
  graph::Graph fragment;         ///< in any node, argument and result order
  std::string name;              ///< for people: where the fragment comes from
  std::int64_t deadline_ms = 0;  ///< how long a predicted plan may be waited for on a miss; 0 … 600,000
  bool improve = true;           ///< on a miss, start (or join) the job that tunes the fragment
  /// What the driver reports of the GPU that the plan is to run on; without it the plan is for the server's own target.
  std::optional<DeviceTraits> device = {};
  /// False: a miss is only told of. Nothing is predicted for it, and nothing stored.
  std::optional<bool> predict = {};
  /// True, of a look-up that predicts nothing: somebody wants to know why there is no plan, and nobody runs without it.
  /// The server does not count a miss then.
  std::optional<bool> explain = {};
};

/// What the look-up found. Parameter i of the plan is parameter parameter_order[i] of the fragment in the request,
/// likewise results.
struct LookupAnswer {
  enum class Source : std::uint8_t {
    store,      ///< served from the store: the incumbent of exactly this key, or a stale one (`made_by`)
    predicted,  ///< a miss: the best predicted plan, made for this request or for one that came at the same time
    pending,    ///< a miss, and the deadline passed; ask again, or follow the job
  };
  Source source = Source::pending;
  Hash128 fragment, family;
  PlanTarget target;  ///< what plans are made for: of this server, or of the request's device
  std::vector<int> parameter_order, result_order;
  std::optional<Plan> plan;             ///< absent when pending
  std::vector<std::string> matched;     ///< fields of the key: "fragment", "device", "architecture", …
  std::vector<std::string> differed;    ///< on a miss: those in which the closest stored plan differs ("shape")
  std::optional<Hash128> closest_plan;  ///< on a miss, if anything is close
  std::optional<std::int64_t> job;      ///< that tunes the fragment
  /// The plan is stale: this other environment made it (`differed` names its fields: toolkit, version), and it is
  /// served until one of `target` is as well founded.
  std::optional<PlanTarget> made_by;
};

/// A job was made, or an unfinished one for the same work was joined.
struct Submitted {
  std::int64_t job = 0;
  bool joined = false;
  std::string subject;  ///< in hexadecimal: the fragment's key, or the SHA-256 of the model's bytes
};

struct JobStatus {
  std::int64_t id = 0;
  std::string kind;   ///< "tune-fragment", "tune-model", "train-cost-model"
  std::string state;  ///< "queued", "running", "done", "failed", "cancelled"
  double progress = 0;
  std::string message;
  std::string result;  ///< of a job that is done: JSON text; left empty in listings
  std::optional<Error> error;
  std::int64_t attempts = 0;
  bool cancel_requested = false;
  std::int64_t created_us = 0, started_us = 0, finished_us = 0;  ///< since 1970; 0: not yet

  [[nodiscard]] bool finished() const { return state != "queued" && state != "running"; }
};

/// Data of one server-sent event; the event's id is the sequence number.
struct JobEvent {
  std::int64_t sequence = 0;
  std::int64_t job = 0;
  std::int64_t wall_us = 0;
  std::string kind;  ///< "queued", "claimed", "progress", "requeued", "cancel", "done", "failed", "cancelled"
  double progress = 0;
  std::string detail;
};

/// A change of what is served for a fragment; without a plan, it was withdrawn.
struct PromotionNotice {
  std::int64_t sequence = 0;
  Hash128 fragment;
  PlanTarget target;
  std::optional<Hash128> plan, previous;
  std::string reason;
};
struct PromotionFeed {
  std::vector<PromotionNotice> promotions;  ///< oldest first
  std::int64_t last = 0;                    ///< pass it as `after` next time
};

struct ServerVersion {
  std::string version;
  int protocol = protocol_version;
  PlanTarget target;
  std::string device;  ///< key of the device where plans are verified
};

// Each message as a document, and back: read_document and decode_message return the message or a parse error that names
// the field ("plan.launches[0].arguments[1].kind: …"). Requests with unknown fields are refused, in answers they are
// ignored.
nlohmann::json to_document(const Plan& message);
nlohmann::json to_document(const LookupRequest& message, graph::Encoding encoding);
nlohmann::json to_document(const LookupAnswer& message);
nlohmann::json to_document(const Submitted& message);
nlohmann::json to_document(const JobStatus& message);
nlohmann::json to_document(const JobEvent& message);
nlohmann::json to_document(const PromotionFeed& message);
nlohmann::json to_document(const ServerVersion& message);
/// {"error": {"kind": "not_found", "message": "…"}}
nlohmann::json to_document(const Error& message);

Status read_document(const nlohmann::json& document, Plan& message);
Status read_document(const nlohmann::json& document, Error& message);

/// A document as bytes. Text that is not UTF-8 is mended in JSON.
std::string encode_document(const nlohmann::json& document, graph::Encoding encoding);
/// Untrusted bytes to a message. Errors: parse (names the byte or the field), resource_exhausted, and those of
/// graph::from_document.
template <class Message>
Result<Message> decode_message(std::string_view bytes, graph::Encoding encoding);
/// The error that a server's answer tells of; if that cannot be read, the error that says so.
Error decode_error(std::string_view bytes, graph::Encoding encoding);

std::string_view to_string(LookupAnswer::Source source);

}  // namespace stitch::api
