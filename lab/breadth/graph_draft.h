#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/random.h"
#include "graph/builder.h"

namespace stitch::lab {

/// A random graph while it is drawn: the values that there are so far, and the draws that all kinds of operators need.
/// Each graph has a palette of element types, a few extents and a limit of elements of its own, so that values fit one
/// another often enough to be combined.
class GraphDraft {
 public:
  explicit GraphDraft(std::uint64_t seed);

  // ---- numbers ------------------------------------------------------------------------------------------------
  std::int64_t below(std::int64_t bound) { return bound <= 0 ? 0 : static_cast<std::int64_t>(random_.below(bound)); }
  /// Both ends included.
  std::int64_t between(std::int64_t low, std::int64_t high) { return low + below(high - low + 1); }
  bool one_in(std::int64_t n) { return below(n) == 0; }
  template <class T>
  const T& of(const std::vector<T>& list) {
    return list[below(std::ssize(list))];
  }
  /// Some of 0 … count - 1, ascending.
  graph::Dims some_of(std::int64_t count);
  graph::Dims permutation(std::int64_t count);

  // ---- types --------------------------------------------------------------------------------------------------
  graph::DType dtype() { return one_in(6) ? any_dtype() : of(palette_); }
  graph::DType any_dtype();
  graph::DType integer_dtype();
  std::int64_t extent() { return one_in(3) ? any_extent() : of(extents_); }
  /// Up to `most_rank` dimensions that hold no more elements than the graph's limit.
  graph::Dims dims(std::int64_t most_rank = 4);
  /// Whether a value of so many elements is small enough for this graph.
  [[nodiscard]] bool fits(std::int64_t elements) const { return elements <= most_elements_; }
  [[nodiscard]] std::int64_t room(std::int64_t elements) const {
    return most_elements_ / std::max<std::int64_t>(1, elements);
  }

  // ---- values -------------------------------------------------------------------------------------------------
  [[nodiscard]] graph::Builder& builder() { return builder_; }
  [[nodiscard]] const graph::TensorType& type(graph::Value value) const { return builder_.type(value); }
  [[nodiscard]] std::int64_t rank(graph::Value value) const { return type(value).rank(); }
  [[nodiscard]] bool is_pred(graph::Value value) const { return type(value).dtype == graph::DType::pred; }

  /// Any value; recent ones more often, so that graphs get deep.
  graph::Value any();
  std::optional<graph::Value> find(const std::function<bool(graph::Value)>& fits);
  /// A value of the same type: one that there is, a broadcast of a smaller one, a constant, a new parameter.
  graph::Value partner(graph::Value like) { return of_type(type(like)); }
  graph::Value of_type(const graph::TensorType& type);
  /// The value with elements of `dtype`.
  graph::Value as(graph::Value value, graph::DType dtype) { return builder_.convert(value, dtype); }
  graph::Value constant(const graph::TensorType& type);
  graph::Value scalar(graph::DType dtype);
  graph::Value parameter(const graph::TensorType& type);
  /// A scalar of an integer type to place something with, sometimes far outside of [0, extent).
  graph::Value place(std::int64_t extent);
  /// Indices of this shape, sometimes outside of [0, extent).
  graph::Value places(const graph::Dims& dims, std::int64_t extent);

  void note(graph::Value value);
  [[nodiscard]] bool failed() const { return builder_.failed(); }
  [[nodiscard]] std::int64_t size() const { return std::ssize(values_); }
  /// What nothing uses, and some other values: at most `most`, at least one.
  std::vector<graph::Value> results(std::int64_t most);

 private:
  std::int64_t any_extent();
  std::optional<graph::Value> broadcast_to(const graph::TensorType& type);
  std::vector<std::int64_t> integers(const graph::TensorType& type);
  std::vector<double> floats(std::int64_t count);

  Random random_;
  graph::Builder builder_{"random"};
  std::vector<graph::DType> palette_;
  graph::Dims extents_;
  std::int64_t most_elements_;
  std::vector<graph::Value> values_;
};

}  // namespace stitch::lab
