#include "kernel/pipeline/prologue.h"

#include <iterator>
#include <unordered_map>

namespace stitch::kernel::pipeline {
namespace {

using Kind = TileStatement::Kind;

class PrologueHoisting {
 public:
  explicit PrologueHoisting(TileNest& nest) : nest_(nest) {}

  void run() { hoist(nest_.body, true); }

 private:
  using Statements = std::vector<TileStatement>;

  /// Puts before each loop of `body` what belongs there.
  void hoist(Statements& body, bool outermost) {
    Statements done;
    for (TileStatement& statement : body) {
      if (statement.kind == Kind::loop) {
        // Before its inner loops have prologues, which are copies of its body then.
        prologue_of(statement, done, false);
        hoist(statement.body, false);
        if (outermost) carried_of(statement, done);
      }
      done.push_back(std::move(statement));
    }
    body = std::move(done);
  }

  /// The first tiles of what the loop's body copies, turn by turn.
  void prologue_of(const TileStatement& loop, Statements& into, bool carried) {
    std::int64_t turns = 0;
    for (const TileStatement& s : loop.body) {
      if (s.kind == Kind::copy && nest_.buffers[s.to.buffer].rotated)
        turns = std::max<std::int64_t>(turns, nest_.buffers[s.to.buffer].stages - 1);
    }
    for (std::int64_t turn = 0; turn < turns; ++turn) {
      for (const TileStatement& s : loop.body) {
        if (s.kind != Kind::copy) continue;
        const TileBuffer& buffer = nest_.buffers[s.to.buffer];
        if (buffer.rotated && buffer.carried == carried && turn < buffer.stages - 1)
          into.push_back(at_turn(s, loop.loop, turn - (buffer.stages - 1)));
      }
    }
  }

  void carried_of(const TileStatement& outer, Statements& into) {
    outer_.push_back(outer.loop);
    for (const TileStatement& inner : outer.body) {
      if (inner.kind != Kind::loop) continue;
      prologue_of(inner, into, true);
      carried_of(inner, into);
    }
    outer_.pop_back();
  }

  /// The rotated copy as it would run `turn` turns (a negative number) before the loop begins.
  TileStatement at_turn(TileStatement copy, int loop, std::int64_t turn) {
    std::unordered_map<Index, Index> values = {{nest_.loops[loop].variable, nest_.pool.constant(turn)}};
    for (const int each : outer_) values[nest_.loops[each].variable] = nest_.pool.constant(0);
    copy.guards.clear();
    for (Index* index : {&copy.to.tile, &copy.to.stage, &copy.from.tile, &copy.from.stage}) {
      if (*index >= 0) *index = nest_.pool.substitute(*index, values);
    }
    return copy;
  }

  TileNest& nest_;
  std::vector<int> outer_;
};

}  // namespace

void hoist_prologues(TileNest& nest) { PrologueHoisting(nest).run(); }

}  // namespace stitch::kernel::pipeline
