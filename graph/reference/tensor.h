#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/result.h"
#include "graph/attributes.h"
#include "graph/reference/evaluate_box.h"

namespace stitch::graph {

/// The values of a box of a tensor, row-major. Floating dtypes use `floats`; integer and pred dtypes use `integers`
/// (exact; u64 as its two's complement bits).
struct Tensor {
  TensorType type;  ///< of the whole value
  Box box;          ///< the part held
  std::vector<double> floats;
  std::vector<std::int64_t> integers;
  /// Per element |kernel - reference| at most; infinite: not checked. Empty when not asked for: all exact.
  std::vector<double> bounds;

  /// Zeros for the whole of `type`, or for a box of it.
  static Tensor zeros(TensorType type);
  static Tensor zeros(TensorType type, Box box);

  [[nodiscard]] std::int64_t elements() const { return box.elements(); }
  /// Element i of the box as a double (64-bit integers beyond 2^53 are rounded).
  [[nodiscard]] double at(std::int64_t i) const;
  [[nodiscard]] double bound(std::int64_t i) const { return bounds.empty() ? 0.0 : bounds[i]; }
  bool operator==(const Tensor&) const = default;
};

/// Elements as they lie in memory: bytes of `box` (row-major, dense) to a tensor and back. `bytes` must be exactly as
/// long as the box needs. to_bytes rounds floating values to the dtype.
Tensor tensor_from_bytes(TensorType type, Box box, std::span<const std::byte> bytes);
std::vector<std::byte> to_bytes(const Tensor& tensor);

Tensor tensor_from(const ConstantAttributes& constant);
/// `tensor` must hold its whole value.
ConstantAttributes constant_from(const Tensor& tensor);

/// Supplies a parameter: fills `part`, whose type and box are set and whose values are sized but not cleared. Called
/// for demanded boxes only, so that inputs of any size can be generated on demand; may be called for several boxes,
/// overlapping or not, and must be a pure function of the box. An input that is itself uncertain may set `part.bounds`.
using Input = std::function<Status(Tensor& part)>;

/// Fills `part` from a tensor that holds its whole value; an error when it does not, or is of another type.
Status fill_part(const Tensor& whole, Tensor& part);

/// An input that is in memory. `tensor` must hold its whole value.
Input input_of(Tensor tensor);

}  // namespace stitch::graph
