#include "kernel/pipeline/rotation.h"

#include <algorithm>

namespace stitch::kernel::pipeline {
namespace {

using Kind = TileStatement::Kind;

class Rotation {
 public:
  explicit Rotation(TileNest& nest) : nest_(nest) {}

  /// Outer loops first: whether the source is rotated decides about the carry.
  void rotate(std::vector<TileStatement>& body) {
    for (TileStatement& statement : body) {
      if (statement.kind == Kind::copy && !around_.empty()) rotate_copy(statement);
      if (statement.kind != Kind::loop) continue;
      around_.push_back(statement.loop);
      rotate(statement.body);
      around_.pop_back();
    }
  }

 private:
  void rotate_copy(TileStatement& copy) {
    TileBuffer& buffer = nest_.buffers[copy.to.buffer];
    if (buffer.stages == 1) return;
    IndexPool& pool = nest_.pool;
    const TileLoop& loop = nest_.loops[around_.back()];
    const TileBuffer& source = nest_.buffers[copy.from.buffer];
    buffer.rotated = true;
    buffer.carried = source.rotated;
    const Index ahead = pool.offset(copy.to.tile, buffer.stages - 1);
    if (buffer.carried) {
      std::int64_t per_turn = 1;
      for (std::size_t i = 1; i < around_.size(); ++i) per_turn *= nest_.loops[around_[i]].extent;
      const std::int64_t tiles = nest_.loops[around_.front()].extent * per_turn;
      copy.guards.push_back({ahead, TileGuard::Kind::below, tiles, per_turn});
      copy.from.tile = pool.divide(ahead, loop.extent);
      copy.from.stage = pool.remainder(copy.from.tile, source.stages);
    } else {
      const Index turn = pool.offset(loop.variable, buffer.stages - 1);
      const bool outermost = around_.size() == 1;
      copy.guards.push_back({turn, TileGuard::Kind::below, loop.extent, outermost ? 1 : 0});
    }
    copy.to.tile = ahead;
    copy.to.stage = pool.remainder(ahead, buffer.stages);
    if (source.scope == Scope::device) copy.from.tile = ahead;
  }

  TileNest& nest_;
  std::vector<int> around_;
};

}  // namespace

void rotate(TileNest& nest) { Rotation(nest).rotate(nest.body); }

}  // namespace stitch::kernel::pipeline
