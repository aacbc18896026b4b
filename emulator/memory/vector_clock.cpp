#include "emulator/memory/vector_clock.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace stitch::emulator {
namespace {

constexpr int fan_out_bits = 4;
constexpr std::uint32_t fan_out = 1U << fan_out_bits;

constexpr std::uint32_t child_index(std::uint32_t ordinal, int height) {
  return (ordinal >> (fan_out_bits * (height - 1))) & (fan_out - 1);
}

}  // namespace

struct VectorClock::Node {
  std::atomic<std::uint32_t> owners{1};
};
struct VectorClock::Leaf : Node {
  Clocks clocks{};
};
struct VectorClock::Inner : Node {
  std::array<Node*, fan_out> children{};
};

void VectorClock::acquire(Node* node) {
  if (node != nullptr) node->owners.fetch_add(1, std::memory_order_relaxed);
}

void VectorClock::release(Node* node, int height) {
  if (node == nullptr || node->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (height == 0) {
    delete static_cast<Leaf*>(node);
    return;
  }
  auto* inner = static_cast<Inner*>(node);
  for (Node* child : inner->children) release(child, height - 1);
  delete inner;
}

VectorClock::VectorClock(const VectorClock& other) : root_(other.root_), height_(other.height_) { acquire(root_); }

VectorClock::VectorClock(VectorClock&& other) noexcept
    : root_(std::exchange(other.root_, nullptr)), height_(std::exchange(other.height_, 0)) {}

VectorClock& VectorClock::operator=(const VectorClock& other) {
  acquire(other.root_);
  release(root_, height_);
  root_ = other.root_;
  height_ = other.height_;
  return *this;
}

VectorClock& VectorClock::operator=(VectorClock&& other) noexcept {
  std::swap(root_, other.root_);
  std::swap(height_, other.height_);
  return *this;
}

VectorClock::~VectorClock() { release(root_, height_); }

const VectorClock::Clocks* VectorClock::find(std::uint32_t ordinal) const {
  if ((std::uint64_t{ordinal} >> (fan_out_bits * height_)) != 0) return nullptr;
  const Node* node = root_;
  for (int height = height_; node != nullptr && height > 0; --height) {
    node = static_cast<const Inner*>(node)->children[child_index(ordinal, height)];
  }
  return node == nullptr ? nullptr : &static_cast<const Leaf*>(node)->clocks;
}

void VectorClock::grow(int height) {
  while (height_ < height) {
    if (root_ != nullptr) {
      auto* inner = new Inner;
      inner->children[0] = root_;
      root_ = inner;
    }
    ++height_;
  }
}

/// A new node (owned by the caller) like `node` with the clocks raised.
VectorClock::Node* VectorClock::raised(Node* node, int height, std::uint32_t ordinal,
                                       std::span<const std::uint32_t, 32> clocks) {
  if (height == 0) {
    auto* leaf = new Leaf;
    for (std::size_t i = 0; i < 32; ++i) {
      leaf->clocks[i] = node == nullptr ? clocks[i] : std::max(static_cast<Leaf*>(node)->clocks[i], clocks[i]);
    }
    return leaf;
  }
  auto* inner = new Inner;
  if (node != nullptr) inner->children = static_cast<Inner*>(node)->children;
  const std::uint32_t index = child_index(ordinal, height);
  for (std::uint32_t i = 0; i < fan_out; ++i) {
    if (i != index) acquire(inner->children[i]);
  }
  inner->children[index] = raised(inner->children[index], height - 1, ordinal, clocks);
  return inner;
}

void VectorClock::raise(std::uint32_t ordinal, std::span<const std::uint32_t, 32> clocks) {
  int needed = 0;
  while ((std::uint64_t{ordinal} >> (fan_out_bits * needed)) != 0) ++needed;
  grow(needed);
  Node* root = raised(root_, height_, ordinal, clocks);
  release(root_, height_);
  root_ = root;
}

/// The pointwise maximum, owned by the caller; one of the two when it covers the other.
VectorClock::Node* VectorClock::merged(Node* a, Node* b, int height) {
  if (a == b || b == nullptr) return acquire(a), a;
  if (a == nullptr) return acquire(b), b;
  if (height == 0) {
    const Clocks& x = static_cast<Leaf*>(a)->clocks;
    const Clocks& y = static_cast<Leaf*>(b)->clocks;
    bool a_covers = true;
    bool b_covers = true;
    for (std::size_t i = 0; i < 32; ++i) {
      a_covers &= x[i] >= y[i];
      b_covers &= y[i] >= x[i];
    }
    if (a_covers) return acquire(a), a;
    if (b_covers) return acquire(b), b;
    auto* leaf = new Leaf;
    for (std::size_t i = 0; i < 32; ++i) leaf->clocks[i] = std::max(x[i], y[i]);
    return leaf;
  }
  std::array<Node*, fan_out> children{};
  bool is_a = true;
  bool is_b = true;
  for (std::uint32_t i = 0; i < fan_out; ++i) {
    Node* x = static_cast<Inner*>(a)->children[i];
    Node* y = static_cast<Inner*>(b)->children[i];
    children[i] = merged(x, y, height - 1);
    is_a &= children[i] == x;
    is_b &= children[i] == y;
  }
  if (is_a || is_b) {
    for (Node* child : children) release(child, height - 1);
    acquire(is_a ? a : b);
    return is_a ? a : b;
  }
  auto* inner = new Inner;
  inner->children = children;
  return inner;
}

void VectorClock::merge(const VectorClock& other) {
  if (other.root_ == nullptr || (other.root_ == root_ && other.height_ == height_)) return;
  if (root_ == nullptr) {
    *this = other;
    return;
  }
  VectorClock taller = other;
  taller.grow(height_);
  grow(taller.height_);
  Node* root = merged(root_, taller.root_, height_);
  release(root_, height_);
  root_ = root;
}

}  // namespace stitch::emulator
