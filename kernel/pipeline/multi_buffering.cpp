#include "kernel/pipeline/multi_buffering.h"

#include <algorithm>

#include "kernel/pipeline/applicability.h"

namespace stitch::kernel::pipeline {
namespace {

void place(TileNest& nest, TileAccess& access) {
  if (access.buffer < 0 || nest.buffers[access.buffer].scope == Scope::device) return;
  access.stage = nest.pool.remainder(access.tile, nest.buffers[access.buffer].stages);
}

void place(TileNest& nest, std::vector<TileStatement>& body) {
  for (TileStatement& statement : body) {
    place(nest, statement.to);
    place(nest, statement.from);
    for (TileAccess& read : statement.reads) place(nest, read);
    place(nest, statement.body);
  }
}

}  // namespace

Status give_stages(TileNest& nest, const std::vector<int>& stages) {
  int shared = 0;
  for (const Applicability& each : applicability(nest)) {
    TileBuffer& buffer = nest.buffers[each.buffer];
    const int wanted = stages[each.buffer];
    if (buffer.scope == Scope::shared && shared != 0 && shared != wanted)
      return make_error(ErrorKind::constraint, "{} has {} stages, other shared buffers {}", buffer.name, wanted,
                        shared);
    if (buffer.scope == Scope::shared) shared = wanted;
    if (wanted == 1) continue;
    if (!each.applies()) return make_error(ErrorKind::constraint, "{}: {}", buffer.name, each.obstacle);
    if (const std::int64_t turns = turns_of(nest, each.buffer); wanted < 1 || wanted > turns)
      return make_error(ErrorKind::constraint, "{} stages of {}, whose loop has {} turns", wanted, buffer.name, turns);
    buffer.stages = wanted;
  }
  place(nest, nest.body);
  return {};
}

}  // namespace stitch::kernel::pipeline
