#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/protocol.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/sha256.h"
#include "graph/codec/encoding.h"
#include "graph/graph.h"

// The program of a model: what runs in which order, and where every value lies (docs/program-format.md). A program is
// made by tuning/programs/ and run by client/program.h; weights are parameters and never inside.
namespace stitch::api {

inline constexpr std::string_view program_format_name = "stitch-program";
/// 3: values may lie in results' memory. Documents of version 2, without such values, and of version 1, which may have
/// no hash of the plans either, are read as well.
inline constexpr std::int64_t program_format_version = 3, program_format_without_lending = 2,
                              program_format_without_hash = 1;

/// Offsets into an arena, and sizes counted there, are multiples of this.
inline constexpr std::int64_t arena_alignment = 256;
/// Bytes that a value takes in an arena.
constexpr std::int64_t arena_bytes_of(std::int64_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

/// A buffer of a region. An operator that updates in place has the same value among its parameters and results.
struct ProgramValue {
  enum class Storage : std::uint8_t {
    parameter,  ///< memory that is handed in: the region's parameter `place`
    result,     ///< memory that is handed in: the region's result `place`
    arena,      ///< `place` bytes into the region's arena
    lent,       ///< `place` bytes into the memory of the region's result `lender`, before that is written first
  };
  graph::TensorType type;
  std::string name;  ///< for people
  Storage storage = Storage::arena;
  std::int64_t place = 0;
  std::optional<std::int64_t> lender = {};  ///< of lent memory alone

  /// Whether its place is the program's to choose: all but memory that is handed in.
  [[nodiscard]] bool is_placed() const { return storage == Storage::arena || storage == Storage::lent; }
};

/// Runs a fragment's plan. The step's values are in the order of the fragment's canonical graph, and so of its plan.
struct FragmentStep {
  int fragment = 0;  ///< index into Program::fragments
};
/// Calls a library: the one dot or convolution of a graph, with the layouts it reads through and its epilogue.
struct LibraryStep {
  int call = 0;  ///< index into Program::calls
};
/// Runs a region again and again. The carried values lie in the step's results, which may be the parameters that they
/// begin with; a turn reads them there and writes
/// their next state into `spares`, or the other way round, by turns. A spare of -1: the body updates it in place.
struct LoopStep {
  std::int64_t trip_count = -1;  ///< -1: not known
  int body = 0;                  ///< index into Program::regions
  int condition = -1;            ///< likewise; -1 when the count is known
  std::vector<int> spares;       ///< per result
  int scratch = -1;              ///< value that holds the regions' arenas; -1: they have none
};
/// Runs one of several regions, by the number (or truth: 0 is the region for true) that the first parameter holds; a
/// number that no region has means the last one.
struct BranchStep {
  std::vector<int> regions;  ///< indices into Program::regions
  int scratch = -1;
};
/// Copies a value's bytes into another.
struct CopyStep {
  std::int64_t bytes = 0;
};
/// An operator of the source that neither our kernels nor a library call computes. Running it is the caller's.
struct ForeignStep {
  std::string target;  ///< as named in the source
  std::string config;
};

struct ProgramStep {
  std::string name;             ///< for people: "level 2", "dot f32 [8,16]·[16,4]"
  std::vector<int> parameters;  ///< values of the region
  std::vector<int> results;     ///< likewise
  std::int64_t bytes = 0;       ///< memory moved, as planned; 0 where regions say it
  std::variant<FragmentStep, LibraryStep, LoopStep, BranchStep, CopyStep, ForeignStep> work;
};

/// Steps in order, and the arena that their values share. Bytes are multiples of arena_alignment.
struct ProgramRegion {
  std::string name;  ///< where the model has it; the model itself: empty
  std::vector<ProgramValue> values;
  std::vector<int> parameters;  ///< values, by position
  std::vector<int> results;     ///< likewise; a parameter that is handed on or updated in place stands here itself
  std::vector<ProgramStep> steps;
  std::int64_t arena_bytes = 0;
  /// Most bytes that are alive at once and find no room in results that are not written yet: no arena can be smaller.
  std::int64_t lower_bound_bytes = 0;
  /// Arena and memory of results if every operator ran by itself in the source's order, and each value were freed after
  /// its last use.
  std::int64_t eager_bytes = 0;
};

/// A distinct fragment, with the plan that it is run by.
struct ProgramFragment {
  Hash128 key;
  graph::Graph graph;            ///< canonical
  std::int64_t occurrences = 0;  ///< how often it runs in one run of the program; 1 per turn of unknown loops
  std::optional<Plan> plan;
  std::string why_none;  ///< where there is no plan
};

/// A distinct library call.
struct ProgramCall {
  std::string kind;          ///< "dot", "convolution"
  std::string accumulation;  ///< dtype that it sums in: "f32"
  std::string description;   ///< "dot f32[8,16]·f32[16,4], add"
  graph::Graph graph;        ///< parameters: the step's; one result
};

struct ProgramPort {
  std::string name;
  graph::TensorType type;
  /// Integers that make sense: both ends are included. Whoever makes up inputs stays inside.
  std::optional<std::int64_t> low, high;
};

/// Code that plans refer to, in a program that is a package.
struct ProgramArtifact {
  Sha256 hash;
  std::string bytes;
};

struct Program {
  Hash128 id;         ///< of everything but the plans, artifacts and counts: the same model, the same id
  std::string model;  ///< for people: "bert.onnx"
  Sha256 source;      ///< of the model's bytes
  PlanTarget target;  ///< what its plans are for; empty fields: it has none
  std::vector<ProgramPort> parameters, results;
  std::vector<ProgramRegion> regions;  ///< the model's first; a region stands behind the one whose step runs it
  std::vector<ProgramFragment> fragments;
  std::vector<ProgramCall> calls;
  std::vector<ProgramArtifact> artifacts;
};

std::string_view to_string(ProgramValue::Storage storage);
/// "fragment", "library", "loop", "branch", "copy", "foreign"
std::string_view kind_of(const ProgramStep& step);

/// Which code of its plans is inside a program. A GPU that it was planned for runs cubins, others PTX; the emulated
/// device runs PTX.
enum class CodeInside : std::uint8_t { none, ptx, cubin, all };
std::string_view to_string(CodeInside code);
std::optional<CodeInside> code_inside(std::string_view word);

/// The code that the plan's launches name, in their order, each once: for a launch the cubin, then the PTX.
std::vector<Sha256> code_of(const Plan& plan, CodeInside which = CodeInside::all);

/// The id that a program has by its contents.
Hash128 identity_of(const Program& program);

/// Artifacts are bytes: a package is CBOR, and JSON leaves them out.
std::string encode_program(const Program& program, graph::Encoding encoding);
/// Untrusted bytes to a program that can be run without looking again. Errors: version_mismatch (another format or
/// version), parse (names the field), corrupt (its id is not that of its contents, its
/// plans are not those that were written, an artifact has another hash), and those of check_program.
Result<Program> decode_program(std::string_view bytes, graph::Encoding encoding);

/// Whether all that a program's parts say about each other holds: what steps name exists and has the sizes that they
/// need, every value is written before it is read, and no two values that are alive at once share memory. Error: parse,
/// naming the place ("regions[1].steps[3].parameters[0]: …").
Status check_program(const Program& program);

}  // namespace stitch::api
