#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/program_document.h"
#include "base/device_spec.h"
#include "base/result.h"
#include "base/sha256.h"

// A package: a model's programs for several classes of GPUs with all their code, in one file that runs without server
// and compiler (docs/program-format.md).
namespace stitch::api {

inline constexpr std::string_view package_format_name = "stitch-package";
inline constexpr std::int64_t package_format_version = 1;

struct Package {
  std::string model;  ///< for people: "bert.onnx"
  Sha256 source;      ///< of the model's bytes
  /// One for each class (Program::target), each with the code that its plans name.
  std::vector<Program> programs;
};

/// Whether a file says that it is a package; decode_package finds out whether it is a sound one.
bool looks_like_package(std::string_view bytes);
/// The same of a program by itself, and decode_program.
bool looks_like_program(std::string_view bytes);

/// CBOR. Code that several programs have is inside once.
std::string encode_package(const Package& package);
/// Untrusted bytes. Errors: version_mismatch (another format or version), parse (names the field), corrupt (content
/// that is not what the hash says, code that is missing, two programs for one class), and those of decode_program with
/// the program's number.
Result<Package> decode_package(std::string_view bytes);

/// How a package goes with a GPU.
struct Compatibility {
  enum class Fitness : std::uint8_t {
    optimal,  ///< it has plans for this very class
    runs,     ///< plans of another class run on it
    refused,  ///< none of its programs can run on it
  };
  Fitness fitness = Fitness::refused;
  std::string reason;  ///< for people; not empty
  int program = -1;    ///< index into Package::programs; -1: refused
};
std::string_view to_string(Compatibility::Fitness fitness);

/// What can be told before anything is loaded: architectures (code for "sm_90a" runs on compute capability 9.0 alone,
/// code for "sm_80" on 8.0 and later ones), threads, shared memory and clusters of each launch, and whether the blocks
/// of kernels with grid barriers are resident at once. Of several that run, one for the same architecture comes first,
/// then the one whose GPU has the nearest bandwidth. A program that cannot run to its end on a GPU (a fragment without
/// a plan, an operator that nobody here computes) is refused.
Compatibility compatibility(const Package& package, const DeviceSpec& device);

}  // namespace stitch::api
