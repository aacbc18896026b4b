#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace stitch::emulator {

/// Times up to which the accesses of other blocks' warps are known to have happened before: a persistent map from
/// block ordinal to 32 warp clocks (0: nothing known). Copies share structure, so that a block which acquires what a
/// thousand others released costs as much as what is new to it. Values may be shared between host threads.
class VectorClock {
 public:
  using Clocks = std::array<std::uint32_t, 32>;

  VectorClock() = default;
  VectorClock(const VectorClock& other);
  VectorClock(VectorClock&& other) noexcept;
  VectorClock& operator=(const VectorClock& other);
  VectorClock& operator=(VectorClock&& other) noexcept;
  ~VectorClock();

  [[nodiscard]] bool empty() const { return root_ == nullptr; }
  /// The block's clocks, or null when nothing is known of it.
  [[nodiscard]] const Clocks* find(std::uint32_t ordinal) const;
  [[nodiscard]] bool covers(std::uint32_t ordinal, std::uint32_t warp, std::uint32_t time) const {
    const Clocks* clocks = find(ordinal);
    return clocks != nullptr && (*clocks)[warp] >= time;
  }

  /// Per warp, the later of the known time and the given one.
  void raise(std::uint32_t ordinal, std::span<const std::uint32_t, 32> clocks);
  void merge(const VectorClock& other);

 private:
  struct Node;
  struct Leaf;
  struct Inner;
  static void acquire(Node* node);
  static void release(Node* node, int height);
  static Node* raised(Node* node, int height, std::uint32_t ordinal, std::span<const std::uint32_t, 32> clocks);
  static Node* merged(Node* a, Node* b, int height);
  void grow(int height);

  Node* root_ = nullptr;
  int height_ = 0;  ///< 0: the root is the leaf of ordinal 0
};

}  // namespace stitch::emulator
