#include "kernel/pipeline/waits.h"

#include <algorithm>

namespace stitch::kernel::pipeline {
namespace {

using Kind = TileStatement::Kind;
using Statements = std::vector<TileStatement>;

class WaitPlacement {
 public:
  explicit WaitPlacement(TileNest& nest) : nest_(nest) {}

  void run() {
    for (const TileBuffer& buffer : nest_.buffers) {
      if (buffer.scope == Scope::shared) stages_ = buffer.stages;
      if (buffer.carried) inner_stages_ = std::max(inner_stages_, buffer.stages);
    }
    body(nest_.body, true);
  }

 private:
  [[nodiscard]] bool fills(const TileStatement& s, Scope scope) const {
    return s.kind == Kind::copy && nest_.buffers[s.to.buffer].scope == scope;
  }
  [[nodiscard]] bool is_carried(const TileStatement& s) const {
    return s.kind == Kind::copy && nest_.buffers[s.to.buffer].carried;
  }
  [[nodiscard]] static TileStatement of(Kind kind, int pending = 0) {
    TileStatement s;
    s.kind = kind;
    s.pending = pending;
    return s;
  }
  [[nodiscard]] TileStatement wait() const { return of(Kind::wait, std::max(0, stages_ - 2)); }

  /// Whether copy `i` is the last of its group: the next statement fills another tile, or is no such copy.
  [[nodiscard]] bool ends_group(const Statements& body, std::size_t i) const {
    if (i + 1 == body.size() || !fills(body[i + 1], Scope::shared)) return true;
    return body[i + 1].to.tile != body[i].to.tile;
  }

  void body(Statements& statements, bool outermost) {
    Statements done;
    for (std::size_t i = 0; i < statements.size(); ++i) {
      TileStatement& s = statements[i];
      const bool begins = i == 0 || !fills(statements[i - 1], Scope::shared);
      if (fills(s, Scope::shared) && begins && !outermost) before_copies(done);
      // Between the prologues, and before the step that first reads the next tile.
      if (is_carried(s) && (i == 0 || !is_carried(statements[i - 1]))) done.push_back(wait_for_carried(s, outermost));
      if (s.kind == Kind::loop) {
        around_.push_back(s.loop);
        body(s.body, false);
        around_.pop_back();
      }
      const bool commits = fills(s, Scope::shared) && ends_group(statements, i);
      done.push_back(std::move(s));
      if (!commits) continue;
      done.push_back(of(Kind::commit));
      if (stages_ == 1) done.push_back(wait());
    }
    statements = std::move(done);
  }

  void before_copies(Statements& done) const {
    if (stages_ == 1) {
      done.push_back(of(Kind::acquire));
    } else if (inner_stages_ == 1) {
      done.push_back(wait());
    }
  }

  [[nodiscard]] TileStatement wait_for_carried(const TileStatement& copy, bool outermost) const {
    TileStatement made = wait();
    if (outermost) return made;
    const TileLoop& loop = nest_.loops[around_.back()];
    const int ahead = nest_.buffers[copy.to.buffer].stages - 1;
    made.guards.push_back({loop.variable, TileGuard::Kind::equal, loop.extent - ahead});
    return made;
  }

  TileNest& nest_;
  std::vector<int> around_;
  int stages_ = 1;
  int inner_stages_ = 1;
};

}  // namespace

void place_waits(TileNest& nest) { WaitPlacement(nest).run(); }

}  // namespace stitch::kernel::pipeline
