#include "kernel/pipeline/staging.h"

#include <algorithm>

namespace stitch::kernel::pipeline {
namespace {

using Kind = TileStatement::Kind;
using Part = TileStatement::Part;
using Statements = std::vector<TileStatement>;

/// Puts the stores before the first wait among `body` or within its loops; whether there is one.
bool put_before_wait(Statements& body, const Statements& stores) {
  for (auto s = body.begin(); s != body.end(); ++s) {
    if (s->kind == Kind::loop && put_before_wait(s->body, stores)) return true;
    if (s->kind != Kind::wait) continue;
    Statements guarded = stores;
    for (TileStatement& store : guarded) store.guards.insert(store.guards.end(), s->guards.begin(), s->guards.end());
    body.insert(s, guarded.begin(), guarded.end());
    return true;
  }
  return false;
}

void part_turn(Statements& body, const TileNest& nest) {
  Statements stores;
  std::size_t loaded = 0;  // statements up to the last load
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i].kind != Kind::copy || !body[i].staged || !nest.buffers[body[i].to.buffer].rotated) continue;
    stores.push_back(body[i]);
    stores.back().part = Part::store;
    body[i].part = Part::load;
    loaded = i + 1;
  }
  if (stores.empty()) return;
  Statements behind(body.begin() + static_cast<std::ptrdiff_t>(loaded), body.end());
  body.resize(loaded);
  if (!put_before_wait(behind, stores)) behind.insert(behind.end(), stores.begin(), stores.end());
  body.insert(body.end(), behind.begin(), behind.end());
}

}  // namespace

void part_staged(TileNest& nest) {
  for (TileStatement& statement : nest.body) {
    if (statement.kind == Kind::loop) part_turn(statement.body, nest);
  }
}

}  // namespace stitch::kernel::pipeline
