#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "graph/attributes.h"
#include "graph/reference/evaluate.h"
#include "import/import.h"

/// Cases of ONNX's backend test suite: a folder with `model.onnx` and `test_data_set_K/{input,output}_I.pb`.
namespace stitch::import::onnx {

/// One data set: tensors by position.
struct BackendData {
  std::vector<graph::ConstantAttributes> inputs;
  std::vector<graph::ConstantAttributes> outputs;
};

struct BackendCase {
  std::string name;                    ///< of the folder
  std::string model;                   ///< the bytes of model.onnx
  std::vector<std::string> operators;  ///< of the graph's nodes, each once, in their order
  std::vector<std::string> inputs;     ///< names, in the order of the data sets' files
  std::vector<BackendData> data;
};

/// Reads a case's model, without its data. Errors: io, parse.
Result<BackendCase> load_backend_model(const FileSystem& files, const std::filesystem::path& folder);

/// Reads a case whole. Errors: also not_found (no data set), unsupported (sequences, optionals, strings and element
/// types that the IR lacks).
Result<BackendCase> load_backend_case(const FileSystem& files, const std::filesystem::path& folder);

/// The folders in `suite` that hold a model.onnx, by name; empty when the folder is absent.
std::vector<std::filesystem::path> list_backend_cases(const std::filesystem::path& suite);

/// The case's model as a graph, specialised for what the data set feeds as shapes, axes, lengths and the like: inputs
/// of at most `most_known_elements` elements count as known, as when a framework compiles for a call's arguments.
/// They are used only where a lowering cannot do without.
Result<Imported> import_backend_case(const BackendCase& the_case, const BackendData& data,
                                     std::int64_t most_known_elements = 64);

/// How ONNX's own runner compares: |actual - expected| <= absolute + relative · |expected|, NaN equal to NaN,
/// infinities and integers exactly. f16 and bf16 may always differ by two units in the last place: the suite's own
/// references round (or, before ONNX 1.13, truncate) every intermediate value to 16 bits.
struct Tolerance {
  double relative = 1e-3;
  double absolute = 1e-7;
};

/// Success, or where the two differ most: "result 0 [1,2]: 0.5, expected 0.25".
Status compare_results(const std::vector<graph::ConstantAttributes>& actual,
                       const std::vector<graph::ConstantAttributes>& expected, const Tolerance& tolerance = {});

enum class CaseOutcome : std::uint8_t {
  right,        ///< no boundary in the graph, and every data set gives the expected results
  unsupported,  ///< the model has something that stays a boundary or cannot be expressed
  wrong,        ///< claimed as supported, but the import failed or the results differ
};

std::string_view to_string(CaseOutcome outcome);

struct CaseReport {
  std::string name;
  std::vector<std::string> operators;
  CaseOutcome outcome = CaseOutcome::wrong;
  std::string detail;  ///< why it is not right
};

/// Loads, imports and evaluates a case (every value rounded to its element type) and compares all its data sets.
CaseReport run_backend_case(const FileSystem& files, const std::filesystem::path& folder,
                            const Tolerance& tolerance = {});

}  // namespace stitch::import::onnx
