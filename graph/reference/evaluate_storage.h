#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/reference/evaluate_box.h"

namespace stitch::graph::reference {

/// Values of a box while a graph is evaluated; immutable once made, shared by all blocks that show the same values.
struct Storage {
  std::vector<double> floats;
  std::vector<std::int64_t> integers;
  std::vector<double> bounds;  ///< empty: every value is exact
  /// Every correct kernel has values ≥ 0 (or NaN) here, whatever the bounds: √ of them is no domain error.
  bool nonnegative = false;
};

using StorageRef = std::shared_ptr<Storage>;

/// A box of a value. `uniform`: the storage has one element, which all elements of the box share.
struct Block {
  DType dtype = DType::f32;
  Box box;
  StorageRef data;
  bool uniform = false;

  [[nodiscard]] bool exact() const { return data->bounds.empty(); }
};

/// Allocates storages, recycles their arrays (fresh pages cost more than the arithmetic on them), and counts the bytes
/// alive. Outlives every storage it made.
class Memory {
 public:
  explicit Memory(std::int64_t limit, std::int64_t work_limit = std::numeric_limits<std::int64_t>::max(),
                  std::stop_token stop = {})
      : limit_(limit), work_left_(work_limit), stop_(std::move(stop)) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Arrays of `elements` values of unspecified content; `bounded`: with bounds. An error beyond the limit.
  Result<StorageRef> make(DType dtype, std::int64_t elements, bool bounded);

  /// Counts work that is about to be done (EvaluateOptions::work_limit). An error beyond the limit, or when the
  /// evaluation was told to stop.
  Status spend(double work);
  /// What loops over many elements ask now and then. Error: cancelled.
  [[nodiscard]] Status go_on() const;

 private:
  std::vector<double> take_doubles(std::size_t count);
  std::vector<std::int64_t> take_integers(std::size_t count);
  void recycle(Storage& storage, std::int64_t bytes);

  std::int64_t limit_;
  double work_left_;
  std::stop_token stop_;
  std::int64_t alive_ = 0;
  std::int64_t pooled_ = 0;
  std::vector<std::vector<double>> doubles_;
  std::vector<std::vector<std::int64_t>> integers_;
};

/// A walk over a box in memory: extents and the element distance between neighbours on both sides.
struct StridedCopy {
  Dims extents, from_strides, to_strides;
};

/// Drops extents of 1 and merges dimensions that neither side tells apart.
StridedCopy simplified(const StridedCopy& copy);

/// to[i · to_strides] = from[i · from_strides] for all i within the extents; strides may be 0 or negative.
void copy_strided(const StridedCopy& copy, const double* from, double* to);
void copy_strided(const StridedCopy& copy, const std::int64_t* from, std::int64_t* to);

/// copy_strided of whichever array the dtype uses and of the bounds (an exact source writes zeros), from element
/// `from_offset` to element `to_offset`. `to` has bounds if `from` has.
void copy_values(const StridedCopy& copy, const Block& from, std::int64_t from_offset, Storage& to,
                 std::int64_t to_offset);

/// Offset of `index`'s element in a block's arrays (not uniform).
std::int64_t offset_in(const Box& box, const Dims& index);

/// The part `box` of a block, dense; shares the storage when it is all of it, or uniform.
Result<Block> extract(Memory& memory, const Block& block, const Box& box);
/// The block with one stored element per element.
Result<Block> expanded(Memory& memory, const Block& block);

/// Elements of both dtype classes, by visitor: visit(pointer) with const double* or const std::int64_t*.
template <class Visit>
decltype(auto) with_values(const Block& block, Visit&& visit) {
  if (is_floating(block.dtype)) return visit(static_cast<const double*>(block.data->floats.data()));
  return visit(static_cast<const std::int64_t*>(block.data->integers.data()));
}

}  // namespace stitch::graph::reference
