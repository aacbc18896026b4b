#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "graph/attributes.h"

namespace stitch::lab {

/// A model, what was fed to it, and what somebody else's implementation made of that.
struct DifferentialCase {
  std::string name;
  std::string subject;             ///< what the case is counted under: an opcode, an operator, a model
  std::string model;               ///< the bytes of a file that import/ reads
  std::vector<std::string> names;  ///< of the inputs; empty: they are in the order of the model's parameters
  std::vector<graph::ConstantAttributes> inputs;
  std::vector<graph::ConstantAttributes> outputs;
  bool simplify = true;  ///< also evaluate the graph as the passes leave it
};

/// Cases of one implementation, as bench/differential writes them: JSON, gzipped or not,
///
///     {"implementation": "XLA's CPU backend", "versions": {"jax": "0.10.2"}, "flushes_subnormals": true,
///      "cases": [{"name": …, "subject": …, "model": TEXT or "model_base64": …,
///                 "inputs": [{"name": …, "type": "f32", "dims": [2, 3], "data": BASE64}], "outputs": […]}]}
///
/// where data are the elements as they lie in memory, row-major and little-endian. Names of inputs may be left out, of
/// all of them. `"simplify": false` is for models that are large.
struct DifferentialFile {
  std::string implementation;
  std::map<std::string, std::string> versions;
  /// The implementation may give zero for results below the smallest normal number of their accumulator.
  bool flushes_subnormals = false;
  std::vector<DifferentialCase> cases;
};

/// Errors: not_found, io, corrupt, parse (no such file; the message names the case), resource_exhausted (more than
/// 2 GiB unpacked).
Result<DifferentialFile> read_differential_file(const std::filesystem::path& path, const FileSystem& files);

}  // namespace stitch::lab
