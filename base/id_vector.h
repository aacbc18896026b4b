#pragma once

#include <initializer_list>
#include <ranges>
#include <utility>
#include <vector>

namespace stitch {

/// A vector that is indexed by the ids of what it describes: a node's shape by its NodeId, an item's sweep by its
/// ItemId. Ids here are signed integers that count from 0, and -1 is "none"; so this container counts in ids too:
///
///     IdVector<NodeId, Placement> placed(graph.size());
///     for (NodeId node : placed.ids()) placed[node] = place(node);
///
/// No conversion stands at an index, a loop needs no casts, and a reader sees by the type what the index means. An id
/// outside 0 … size() - 1 is a fault of the caller, as with a vector. It is used from base/ to cli/ wherever something
/// is known per id; where the index is a mere count, std::vector is right.
template <typename Id, typename T>
class IdVector {
 public:
  using Values = std::vector<T>;
  using value_type = T;

  IdVector() = default;
  explicit IdVector(Id size, const T& value = T()) : values_(size, value) {}
  IdVector(std::initializer_list<T> values) : values_(values) {}
  explicit IdVector(Values values) : values_(std::move(values)) {}

  [[nodiscard]] typename Values::reference operator[](Id id) { return values_[id]; }
  [[nodiscard]] typename Values::const_reference operator[](Id id) const { return values_[id]; }

  /// How many there are, which is also the next id.
  [[nodiscard]] Id size() const { return static_cast<Id>(values_.size()); }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  /// All ids in ascending order.
  [[nodiscard]] auto ids() const { return std::views::iota(Id{}, size()); }

  /// Appends a value and returns the id that it got.
  Id push_back(T value) {
    values_.push_back(std::move(value));
    return static_cast<Id>(values_.size() - 1);
  }
  void reserve(Id size) { values_.reserve(size); }
  void resize(Id size, const T& value = T()) { values_.resize(size, value); }
  void assign(Id size, const T& value) { values_.assign(size, value); }
  void clear() { values_.clear(); }
  [[nodiscard]] typename Values::reference back() { return values_.back(); }
  [[nodiscard]] typename Values::const_reference back() const { return values_.back(); }

  [[nodiscard]] auto begin() { return values_.begin(); }
  [[nodiscard]] auto end() { return values_.end(); }
  [[nodiscard]] auto begin() const { return values_.begin(); }
  [[nodiscard]] auto end() const { return values_.end(); }
  /// The values without their ids, for interfaces that take a vector or a span.
  [[nodiscard]] const Values& values() const { return values_; }

  bool operator==(const IdVector&) const = default;

 private:
  Values values_;
};

}  // namespace stitch
