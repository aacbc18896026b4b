#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/sha256.h"

// What the store keeps about fragments and the plans for them: plain values, one struct for each table. (Candidates,
// measurements and trained models are in db/trial_records.h, jobs in db/job_records.h.) A plan that was found is kept
// as
//
//   Plan plan;
//   plan.key = {fragment, {"h100", "sm_90a", "13.0", "codegen 1"}};
//   plan.steps = {{kernel_hash(kernel), R"([{"parameter":0},{"result":0}])"}};
//   store.put_plan({plan, {kernel}, artifacts, {}}, Admission::if_vacant);
//
// tuning/ makes records of its own values and reads them back (tuning/plans/plan_record, measurement_record), `stitch
// show` and the daemon's listings print them. Schedules, tables and launch descriptions are JSON text of the caller's,
// checked to be JSON and otherwise opaque here. Times are µs; `wall_us` is since 1970. The fields are listed once more,
// for tables, portable files and checks alike, in db/record_fields.h.
namespace stitch::db {

/// Where a record comes from. Part of every record.
struct Provenance {
  std::string tool;     ///< version of the tool that wrote it; never empty
  std::string toolkit;  ///< CUDA toolkit (NVRTC) version; empty where none took part
  std::string device;   ///< Device::key of where it was judged; empty where none took part
  std::int64_t wall_us = 0;
  std::string judged;  ///< how: "predicted by analytical v1", "verified on emulated device, share 1.0", …

  bool operator==(const Provenance&) const = default;
};

/// A device that judged something: a GPU, the emulated device, or a recording.
struct Device {
  std::string key;           ///< unique: "GPU-8a1c…" (the UUID), "emulated", "recorded:<hash>"
  std::string kind;          ///< "gpu", "emulated" or "recorded"
  std::string target;        ///< entry of the device table it corresponds to ("h100"); may be empty
  std::string name;          ///< as the driver gives it
  std::string architecture;  ///< "sm_90a"
  std::string driver;        ///< version of a GPU's driver; empty for other kinds
  int sm_count = 0;
  std::int64_t memory_bytes = 0;
  std::string constants = "{}";    ///< JSON: calibrated constants of the device table
  std::int64_t calibrated_us = 0;  ///< wall time of the calibration; 0: never
  Provenance provenance;

  bool operator==(const Device&) const = default;
};

/// A fragment: what plans are for.
struct FragmentRecord {
  Hash128 key;
  Hash128 family;
  std::string name;   ///< where it was seen first; for people
  std::string graph;  ///< canonical graph as CBOR (graph/codec/codec.h); stored compressed, checked on read
  std::int64_t operator_count = 0;
  std::int64_t parameter_bytes = 0;  ///< inputs and outputs, each once: what an ideal kernel moves
  Provenance provenance;

  bool operator==(const FragmentRecord&) const = default;
};

/// A model that was submitted: its fragments in order of appearance, with how often each runs.
struct Workload {
  struct Part {
    Hash128 fragment;
    std::int64_t occurrences = 1;
    bool operator==(const Part&) const = default;
  };
  Sha256 key;                 ///< of the file's bytes, and of the constraints that it was tuned under
  std::string name;           ///< file name or what the client called it
  std::string format;         ///< "onnx", "hlo", "fragment"
  std::string report = "{}";  ///< JSON: the table that `stitch tune` prints
  std::vector<Part> parts;    ///< every fragment once
  Provenance provenance;

  bool operator==(const Workload&) const = default;
};

/// The program of a model (api/program_document.h) for a class of GPUs: its structure, whose plans are those that are
/// served of its fragments. Made here, never by a client.
struct ProgramRecord {
  Sha256 model;          ///< Workload::key
  Hash128 id;            ///< of the structure
  std::string device;    ///< class of GPUs: "h100"
  std::string name;      ///< of the model
  std::string document;  ///< CBOR, without plans and code
  Provenance provenance;

  bool operator==(const ProgramRecord&) const = default;
};

/// Bytes that were made here, by content. `hash` is sha256(bytes); the store compresses them, and checks the hash when
/// reading. Each has one kind: what is stored as a graph never stands for machine code.
struct Artifact {
  enum class Kind : std::uint8_t { source, ptx, cubin, graph, log, recording };
  Sha256 hash;
  Kind kind = Kind::source;
  std::string bytes;
  Provenance provenance;

  bool operator==(const Artifact&) const = default;
};

/// A file that a client sent, kept until the jobs that work on it have ended; likewise by content. Uploads have names
/// of their own: no client's bytes are ever found where artifacts are looked for.
struct Upload {
  Sha256 hash;
  std::string bytes;
  Provenance provenance;

  bool operator==(const Upload&) const = default;
};

/// One compiled kernel. `hash` is kernel_hash(); checked on read.
struct Kernel {
  Hash128 hash;
  std::string name;           ///< entry point
  std::string architecture;   ///< "sm_90a"
  std::string options;        ///< compiler options, as given to NVRTC
  Sha256 source, ptx, cubin;  ///< artifacts of these kinds
  std::string launch = "{}";  ///< JSON: grid, block, cluster, dynamic shared memory, …
  struct Resources {
    int registers = 0;              ///< per thread
    std::int64_t shared_bytes = 0;  ///< static, per block
    std::int64_t stack_bytes = 0;   ///< local memory frame, per thread
    std::int64_t spill_store_bytes = 0;
    std::int64_t spill_load_bytes = 0;
    bool operator==(const Resources&) const = default;
  } resources;
  Provenance provenance;

  bool operator==(const Kernel&) const = default;
};

/// What a plan is compiled for. Every field must match for a plan to be served.
struct Target {
  std::string device;        ///< what was planned for: "h100"
  std::string architecture;  ///< "sm_90a"
  std::string toolkit;       ///< "13.0"
  std::string version;       ///< of the generator: what else a kernel depends on

  auto operator<=>(const Target&) const = default;
};

/// What a plan is looked up by.
struct PlanKey {
  Hash128 fragment;
  Target target;

  auto operator<=>(const PlanKey&) const = default;
};

/// How well founded a plan's time is, best first.
enum class Label : std::uint8_t { measured, near, predicted, fallback };

/// Challenger: stored, never served yet. Superseded: served once. Withdrawn: found to be bad; never served again.
enum class PlanStatus : std::uint8_t { challenger, incumbent, superseded, withdrawn };

/// One launch of a plan.
struct PlanStep {
  Hash128 kernel;
  std::string arguments = "[]";  ///< JSON: argument table of this launch

  bool operator==(const PlanStep&) const = default;
};

/// What a client gets. `id` is plan_id(): the key, steps and document by content; checked on read. Status and what is
/// known about its time may change; the rest never does.
struct PlanRecord {
  Hash128 id;
  PlanKey key;
  std::vector<PlanStep> steps;  ///< launches in order
  std::string document = "{}";  ///< JSON: buffers, schedules, whatever else a client or `stitch explain` needs
  std::int64_t bytes = 0;       ///< device-memory bytes it moves, as planned
  Label label = Label::predicted;
  PlanStatus status = PlanStatus::challenger;
  double predicted_us = 0;
  std::optional<double> measured_us;  ///< median of the measurement that stands; set by recording one
  double verified_share = 0;          ///< of the outputs that verification compared, 0 … 1
  std::optional<Hash128> neighbour;   ///< plan that the schedule was taken from; set exactly when the label is near
  std::int64_t sequence = 0;          ///< number of the promotion that made it incumbent; 0: never was
  Provenance provenance;

  bool operator==(const PlanRecord&) const = default;
};

std::string_view to_string(Artifact::Kind kind);
std::string_view to_string(Label label);  ///< Label::fallback is "default"
std::string_view to_string(PlanStatus status);
std::optional<Artifact::Kind> artifact_kind_of(std::string_view text);
std::optional<Label> label_of(std::string_view text);
std::optional<PlanStatus> plan_status_of(std::string_view text);

/// Identity by content: name, architecture, options, artifacts, launch and resources.
Hash128 kernel_hash(const Kernel& kernel);
/// Identity by content: key, steps, document and bytes.
Hash128 plan_id(const PlanRecord& plan);

/// What the store checks before it writes a record; invalid_argument names record and field.
Status validate(const Provenance& provenance);
Status validate(const Target& target);
Status validate(const Device& device);
Status validate(const FragmentRecord& fragment);
Status validate(const Workload& workload);
Status validate(const ProgramRecord& program);
Status validate(const Artifact& artifact);
Status validate(const Upload& upload);
Status validate(const Kernel& kernel);
Status validate(const PlanRecord& plan);

}  // namespace stitch::db
