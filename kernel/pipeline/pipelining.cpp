#include "kernel/pipeline/pipelining.h"

#include "kernel/pipeline/multi_buffering.h"
#include "kernel/pipeline/prologue.h"
#include "kernel/pipeline/rotation.h"
#include "kernel/pipeline/staging.h"
#include "kernel/pipeline/waits.h"

namespace stitch::kernel::pipeline {

Result<TileNest> pipelined(TileNest nest, const std::vector<int>& stages) {
  STITCH_TRY(give_stages(nest, stages));
  rotate(nest);
  hoist_prologues(nest);
  place_waits(nest);
  part_staged(nest);
  return nest;
}

}  // namespace stitch::kernel::pipeline
