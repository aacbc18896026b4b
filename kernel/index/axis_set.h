#pragma once

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace stitch::kernel {

/// A set of the axes of one group, each named by its position. "Which axes does this item depend on", "which are
/// looped inside a sweep", "which does the reduction combine" are questions of such sets:
///
///     const AxisSet kept = anchor.axes - anchor.reduced;
///     for (int axis : kept & group.in_thread) elements *= group.extent(axis, Level::loop);
///
/// A group has at most `capacity` axes (legality refuses more), so a set is one word: it is copied, compared, hashed
/// (bits) and used as a key like a number. Structure and scalar program make them, the program of a group narrows them
/// by its mapping, and emitter and cost model read them.
class AxisSet {
 public:
  static constexpr int capacity = 64;

  /// Steps through the positions in ascending order.
  class Iterator {
   public:
    using difference_type = std::ptrdiff_t;
    using value_type = int;
    using reference = int;
    using pointer = void;
    using iterator_category = std::input_iterator_tag;

    constexpr Iterator() = default;
    constexpr explicit Iterator(std::uint64_t rest) : rest_(rest) {}
    constexpr int operator*() const { return std::countr_zero(rest_); }
    constexpr Iterator& operator++() {
      rest_ &= rest_ - 1;
      return *this;
    }
    constexpr Iterator operator++(int) {
      const Iterator before = *this;
      ++*this;
      return before;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    std::uint64_t rest_ = 0;
  };

  constexpr AxisSet() = default;
  /// The set of one axis.
  [[nodiscard]] static constexpr AxisSet of(int axis) { return AxisSet(std::uint64_t{1} << axis); }
  /// The first `count` axes.
  [[nodiscard]] static constexpr AxisSet first(int count) {
    return AxisSet(count >= capacity ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1);
  }

  [[nodiscard]] constexpr bool contains(int axis) const { return ((bits_ >> axis) & 1) != 0; }
  [[nodiscard]] constexpr bool contains_all(AxisSet others) const { return (others.bits_ & ~bits_) == 0; }
  [[nodiscard]] constexpr bool meets(AxisSet others) const { return (bits_ & others.bits_) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }
  [[nodiscard]] constexpr int size() const { return std::popcount(bits_); }
  /// Bit i stands for axis i: what hashes and file formats hold.
  [[nodiscard]] constexpr std::uint64_t bits() const { return bits_; }

  constexpr void insert(int axis) { bits_ |= std::uint64_t{1} << axis; }
  constexpr void erase(int axis) { bits_ &= ~(std::uint64_t{1} << axis); }

  constexpr AxisSet& operator|=(AxisSet others) {
    bits_ |= others.bits_;
    return *this;
  }
  constexpr AxisSet& operator&=(AxisSet others) {
    bits_ &= others.bits_;
    return *this;
  }
  /// Takes the others out.
  constexpr AxisSet& operator-=(AxisSet others) {
    bits_ &= ~others.bits_;
    return *this;
  }
  [[nodiscard]] friend constexpr AxisSet operator|(AxisSet a, AxisSet b) { return a |= b; }
  [[nodiscard]] friend constexpr AxisSet operator&(AxisSet a, AxisSet b) { return a &= b; }
  [[nodiscard]] friend constexpr AxisSet operator-(AxisSet a, AxisSet b) { return a -= b; }
  constexpr auto operator<=>(const AxisSet&) const = default;

  [[nodiscard]] constexpr Iterator begin() const { return Iterator(bits_); }
  [[nodiscard]] constexpr Iterator end() const { return Iterator(); }

 private:
  constexpr explicit AxisSet(std::uint64_t bits) : bits_(bits) {}

  std::uint64_t bits_ = 0;
};

}  // namespace stitch::kernel
