#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "lab/conformance/graph_runner.h"

namespace stitch::lab {

/// What became of a case in one of the two places where it is run.
enum class Verdict : std::uint8_t {
  right,
  unsupported,  ///< something in it stays a boundary, or cannot be expressed
  wrong,        ///< claimed as supported, but it failed or its results differ
  crashed,      ///< the process died, or gave no answer in time
  absent,       ///< not run there
};

std::string_view to_string(Verdict verdict);

/// One case of a suite.
struct CaseRow {
  std::string name;
  std::vector<std::string> operators;  ///< of the model, each once, in their order
  Verdict evaluator = Verdict::absent;
  Verdict device = Verdict::absent;    ///< right: every generated fragment ran there, and the results are as expected
  std::int64_t fragments = 0;          ///< runs of fragments on the device, over all data sets
  std::int64_t kernels = 0;            ///< launches on the device
  std::vector<std::string> evaluated;  ///< operators that the reference evaluator computed for the device's run
  std::string why;                     ///< why it is not right

  /// The worse of both places: crashed, wrong, unsupported, right.
  [[nodiscard]] Verdict verdict() const;
};

nlohmann::ordered_json to_document(const CaseRow& row);
/// Error: parse.
Result<CaseRow> row_from_json(std::string_view text);

/// Runs one ONNX backend case on the evaluator and, unless `runner` is null or the evaluator cannot do it, through the
/// whole path: imported with the case's inputs known, simplified, cut, tuned, run on the runner's device.
CaseRow run_case(const FileSystem& files, const std::filesystem::path& folder, GraphRunner* runner);

/// {"right", "unsupported", "wrong", "crashed", "cases": […]}: counts of verdict().
nlohmann::ordered_json to_document(const std::vector<CaseRow>& rows);

/// The rows by operator, as a page of Markdown.
std::string conformance_page(const std::vector<CaseRow>& rows);

}  // namespace stitch::lab
