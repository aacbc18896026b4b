#include "kernel/pipeline/simulation.h"

#include <algorithm>
#include <unordered_map>

namespace stitch::kernel::pipeline {
namespace {

using Kind = TileStatement::Kind;

/// One stage of a buffer.
struct Held {
  std::int64_t tile = -1;
  std::int64_t group = -1;         ///< of its copy; -1: there at once
  std::int64_t read_epoch = -1;    ///< barrier after which it was last read
  std::int64_t filled_epoch = -1;  ///< barrier after which it was filled
};

class Simulator {
 public:
  explicit Simulator(const TileNest& nest) : nest_(nest) {
    for (const TileBuffer& buffer : nest.buffers) held_.emplace_back(buffer.stages);
  }

  Result<SimulatedNest> run() {
    STITCH_TRY(body(nest_.body));
    return done_;
  }

 private:
  Status body(const std::vector<TileStatement>& statements) {
    for (const TileStatement& s : statements) STITCH_TRY(step(s));
    return {};
  }

  [[nodiscard]] std::int64_t value(Index index) const { return nest_.pool.evaluate(index, variables_); }

  [[nodiscard]] bool holds(const TileStatement& s) const {
    return std::ranges::all_of(s.guards, [&](const TileGuard& guard) {
      const std::int64_t index = value(guard.index);
      return guard.kind == TileGuard::Kind::below ? index < guard.bound : index == guard.bound;
    });
  }

  Status step(const TileStatement& s) {
    if (!holds(s)) return {};
    switch (s.kind) {
      case Kind::loop: return loop(s);
      case Kind::copy: return copy(s);
      case Kind::compute: return compute(s);
      case Kind::commit: ++groups_; return {};
      case Kind::wait: complete_ = std::max(complete_, groups_ - s.pending); [[fallthrough]];
      case Kind::acquire:
        ++epoch_;
        ++done_.barriers;
        return {};
    }
    return {};
  }

  Status loop(const TileStatement& s) {
    const TileLoop& loop = nest_.loops[s.loop];
    for (std::int64_t turn = 0; turn < loop.extent; ++turn) {
      variables_[loop.variable] = turn;
      STITCH_TRY(body(s.body));
    }
    variables_.erase(loop.variable);
    return {};
  }

  Status copy(const TileStatement& s) {
    if (s.part == TileStatement::Part::load) {
      loaded_[s.to.buffer] = value(s.to.tile);
      return {};
    }
    if (s.part == TileStatement::Part::store && loaded_[s.to.buffer] != value(s.to.tile)) {
      return make_error(ErrorKind::internal, "tile {} of {} is stored from registers that hold {}", value(s.to.tile),
                        nest_.buffers[s.to.buffer].name, loaded_[s.to.buffer]);
    }
    if (nest_.buffers[s.from.buffer].scope != Scope::device) STITCH_TRY(read(s.from));
    const TileBuffer& buffer = nest_.buffers[s.to.buffer];
    const std::int64_t stage = value(s.to.stage);
    Held& held = held_[s.to.buffer][stage];
    if (buffer.scope == Scope::shared && held.read_epoch == epoch_) {
      return make_error(ErrorKind::internal, "tile {} overwrites stage {} of {}, which may still be read",
                        value(s.to.tile), stage, buffer.name);
    }
    const bool asynchronous = buffer.scope == Scope::shared && !s.staged;
    held = {value(s.to.tile), asynchronous ? groups_ : -1, -1, epoch_};
    ++done_.copied;
    return {};
  }

  Status read(const TileAccess& access) {
    const TileBuffer& buffer = nest_.buffers[access.buffer];
    const std::int64_t stage = value(access.stage), tile = value(access.tile);
    Held& held = held_[access.buffer][stage];
    if (held.tile != tile) {
      return make_error(ErrorKind::internal, "tile {} of {} is read from stage {}, which holds {}", tile, buffer.name,
                        stage, held.tile);
    }
    if (held.group >= complete_ || (buffer.scope == Scope::shared && held.filled_epoch == epoch_))
      return make_error(ErrorKind::internal, "tile {} of {} is read before it is waited for", tile, buffer.name);
    held.read_epoch = epoch_;
    return {};
  }

  Status compute(const TileStatement& s) {
    for (const TileAccess& access : s.reads) {
      STITCH_TRY(read(access));
      if (value(access.tile) != value(s.reads[0].tile))
        return make_error(ErrorKind::internal, "{} takes tiles {} and {}", s.name, value(s.reads[0].tile),
                          value(access.tile));
    }
    ++done_.computed;
    done_.ahead = std::max(done_.ahead, groups_ - complete_);
    return {};
  }

  const TileNest& nest_;
  std::vector<std::vector<Held>> held_;
  std::unordered_map<int, std::int64_t> loaded_;  ///< by buffer, the tile that registers hold on its way
  std::unordered_map<Index, std::int64_t> variables_;
  std::int64_t groups_ = 0;    ///< committed
  std::int64_t complete_ = 0;  ///< groups that were waited for
  std::int64_t epoch_ = 0;
  SimulatedNest done_;
};

}  // namespace

Result<SimulatedNest> simulate(const TileNest& nest) { return Simulator(nest).run(); }

}  // namespace stitch::kernel::pipeline
