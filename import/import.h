#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "graph/graph.h"
#include "import/imported.h"

// Model files in, graphs out:
//
//     STITCH_ASSIGN(Imported model, import_file("bert.hlo.txt.gz"));
//     model.graph          // verified; nodes keep the names and lines of the source
//     model.boundaries     // {"sort", "line 12, sort.3", 1, "no kernels for sorting"}: what stays with others
//
// One folder per format (hlo/, onnx/; fragments are the graph's own codec), one file per operator family inside it.
// The command line and the tuning of whole models read models through here; an importer never guesses: an operator that
// it cannot express becomes a boundary with the reason. docs/importers.md says what each format's reader takes.

namespace stitch::import {

struct ImportOptions {
  /// Extents for the named dimensions of a source that leaves some open: {"batch", 8}. One that is neither named here
  /// nor fixed by the source takes `default_extent`.
  std::vector<std::pair<std::string, std::int64_t>> extents;
  std::int64_t default_extent = 1;
  /// ONNX: values of inputs, by name, that the graph may be specialised for (a Reshape's shape, a Slice's ends that are
  /// fed at run time). The inputs stay parameters, with the shapes of these values; the graph holds for the values only
  /// where it needed them.
  std::vector<std::pair<std::string, graph::ConstantAttributes>> known_inputs;
  /// ONNX: Imported::weights, the contents of the initializers that became parameters.
  bool keep_weights = false;
  /// Further donations, "PARAMETER:RESULT" or "PARAMETER" (import/donations.h).
  std::vector<std::string> donations = {};
  /// What is asked of the model's results, besides what a fragment asks for itself.
  graph::Constraints constraints = {};
  /// The threefry-2x32 block function, written out as a hundred integer operators, becomes Op::threefry2x32.
  bool recognise_threefry = true;
  /// Largest source in bytes, after decompression.
  std::int64_t max_bytes = std::int64_t{1} << 30;
  /// Most nodes that inlining calls and unrolling may make, regions included.
  std::int64_t max_nodes = std::int64_t{1} << 20;
};

/// Reads a model: the format is told by the contents (HLO text, a fragment's JSON or CBOR, an ONNX file), the ending
/// decides only where contents are ambiguous; a gzip wrapper is removed first. The graph has passed graph::verify.
///
/// Errors: not_found, io, corrupt (a damaged gzip stream), parse with its position ("line L, column C: …" in
/// text, the byte or node in binary formats), unsupported with the operator and its place, resource_exhausted.
/// The path is put in front of every message.
Result<Imported> import_file(const std::filesystem::path& path, const ImportOptions& options = {});
Result<Imported> import_file(const FileSystem& files, const std::filesystem::path& path,
                             const ImportOptions& options = {});

/// The same from memory; `name` only helps to tell the format (its ending).
Result<Imported> import_bytes(std::string_view bytes, std::string_view name, const ImportOptions& options = {});

/// XLA HLO text (HloModule::ToString; what JAX's as_hlo_text prints).
Result<Imported> import_hlo_text(std::string_view text, const ImportOptions& options = {});

/// A serialized ONNX ModelProto. Defined in import/onnx/.
Result<Imported> import_onnx(std::string_view bytes, const ImportOptions& options = {});

/// A document of core ATen operators as the Python package makes it of an FX graph (docs/importers.md). Nothing becomes
/// a boundary: whoever makes the document leaves out what PyTorch keeps. Errors: those above; unsupported names the
/// node, its operator and where the user's program has it.
Result<Imported> import_aten(std::string_view bytes, const ImportOptions& options = {});

/// Whether the importer has a rule for an operator, such as "aten.add.Tensor"; a rule may refuse some of its uses.
bool aten_operator_known(std::string_view op);

/// A graph in the JSON or CBOR form of graph/codec/codec.h.
Result<Imported> import_fragment(std::string_view bytes, const ImportOptions& options = {});

}  // namespace stitch::import
