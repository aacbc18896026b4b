#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "base/file.h"
#include "base/result.h"
#include "kernel/attention/attention_problem.h"
#include "kernel/attention/product_chain.h"

namespace stitch::cli {

/// A product, a convolution, an attention or its gradients that are asked about by themselves, without a model.
struct NamedProblem {
  std::string name;
  std::variant<kernel::ContractionProblem, kernel::AttentionProblem, kernel::ProductChain> problem;
};

/// Reads a JSON array of products: objects with `name`, `dtype`, `batch`, `m`, `n`, `k`, `left` and `right` ("plain":
/// rows × depth and depth × columns, row by row; "turned": the other way round), `result`, the dtype of the result, and
/// `arithmetic`, how f32 is multiplied ("f32", or a constraint: "tf32", "tf32x3", "bf16x3"). One with `scaled_by` has
/// scales for so much of the depth, the left operand for each row and the right one for as many columns.
/// An object with `keys` is an attention: `name`, `dtype`, `batch`, `heads`, `kv_heads` (heads that keys and values
/// have; `heads` otherwise), `rows`, `keys`, `depth`, `width` (`depth` otherwise) and `causal` (whether row i sees the
/// keys up to its own place, counted from the last); with `gradient` ("queries", "keys_and_values") the gradients of
/// one (kernel/attention/product_chain.h), given maxima and reciprocal sums of rows. One with `window` (a list of
/// extents) is a convolution: `name`, `dtype`, `result`, `images`, `features`, `results`, `groups`, `extents`,
/// `strides`, `padding` (on both sides), `dilation` (of the window) and `holes` (dilation of the input), each a number
/// or one for each dimension, and `features_are` ("last", or "first" as PyTorch has them). Errors: io; parse and
/// invalid_argument, with the number and field of the product.
Result<std::vector<NamedProblem>> read_problems(FileSystem& files, const std::filesystem::path& path);

}  // namespace stitch::cli
