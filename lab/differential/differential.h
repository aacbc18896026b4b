#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lab/differential/differential_case.h"
#include "lab/differential/result_comparison.h"

// Our importers and the reference evaluator, held against other implementations. Everything that we generate is held
// against the reference; what the reference itself and the importers are held against has to come from elsewhere. The
// results of XLA's CPU backend and of onnxruntime are made by bench/differential and come here as files.

namespace stitch::lab {

enum class DifferentialOutcome : std::uint8_t {
  equal,        ///< every element is the reference's, rounded to its type
  within,       ///< some are not, and those are within the reference's bounds (or it says nothing of them)
  wrong,        ///< some are not, or the model could not be read or evaluated though nothing in it is unsupported
  unsupported,  ///< something in the model stays a boundary, or cannot be expressed
};

std::string_view to_string(DifferentialOutcome outcome);

struct DifferentialRow {
  std::string name;
  std::string subject;
  DifferentialOutcome outcome = DifferentialOutcome::wrong;
  /// "imported" or "simplified": which graph the comparison is of. The simplified one, unless the other was wrong.
  std::string graph;
  ResultComparison comparison;
  std::string why;  ///< of what is wrong or unsupported
};

/// Imports the model (small inputs are known, as when a framework compiles for a call's arguments), evaluates it and
/// compares; then the same after graph::simplify. `flushes_subnormals`: as in DifferentialFile.
DifferentialRow run_differential_case(const DifferentialCase& one, bool flushes_subnormals);

/// All cases whose name contains `filter`, on `threads` threads, in their order.
std::vector<DifferentialRow> run_differential_cases(const DifferentialFile& file, std::string_view filter, int threads);

nlohmann::ordered_json to_document(const DifferentialRow& row);

}  // namespace stitch::lab
