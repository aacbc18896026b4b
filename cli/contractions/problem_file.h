#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "kernel/contraction/contraction_problem.h"

namespace stitch::cli {

/// A product that is asked about by itself, without a model.
struct NamedProblem {
  std::string name;
  kernel::ContractionProblem problem;
};

/// Reads a JSON array of products: objects with `name`, `dtype`, `batch`, `m`, `n`, `k`, `left` and `right` ("plain":
/// rows × depth and depth × columns, row by row; "turned": the other way round) and `result`, the dtype of the result.
/// Errors: io; parse and invalid_argument, with the number and field of the product.
Result<std::vector<NamedProblem>> read_problems(FileSystem& files, const std::filesystem::path& path);

}  // namespace stitch::cli
