#include "codegen/group_emitter.h"

#include <utility>

#include "codegen/ahead_emitter.h"
#include "codegen/kernel_text.h"
#include "codegen/scan_emitter.h"
#include "codegen/scatter_emitter.h"
#include "codegen/sort_emitter.h"

namespace stitch::codegen {

using kernel::Anchor;

GroupEmitter::GroupEmitter(const graph::Graph& graph, const kernel::GroupProgram& group,
                           const kernel::Schedule& schedule, const GroupFrame& frame)
    : scope_(graph, group, schedule, frame),
      loops_(scope_),
      loads_(scope_),
      shared_(scope_),
      reductions_(scope_),
      products_(scope_) {}

std::string GroupEmitter::emit_hoisted() {
  if (scope_.group.hoisted.empty())
    loops_.emit_cluster_digits();
  else
    loops_.emit_digits();
  loads_.emit_hoisted_into_arrays();
  products_.emit_types();
  products_.emit_loads();
  return scope_.out.text();
}

std::vector<HoistedLoad> GroupEmitter::hoisted() const {
  std::vector<HoistedLoad> all = loads_.hoisted();
  for (HoistedLoad& weights : products_.weights()) all.push_back(std::move(weights));
  return all;
}

std::string GroupEmitter::emit() {
  loops_.emit_digits();
  loads_.emit_unwaited();
  if (scope_.frame.awaits) emit_wait(scope_.out, scope_.pointers.parameters());
  reductions_.begin();
  switch (scope_.anchor(0).kind) {
    case Anchor::Kind::scan: ScanEmitter(scope_, 0).emit(); break;
    case Anchor::Kind::sort: SortEmitter(scope_, 0).emit(); break;
    case Anchor::Kind::scatter: ScatterEmitter(scope_, 0).emit(); break;
    case Anchor::Kind::store:
    case Anchor::Kind::reduce:
    case Anchor::Kind::partial:
    case Anchor::Kind::atomic: emit_sweeps(); break;
  }
  return scope_.out.text();
}

void GroupEmitter::open_outer_loops() {
  const kernel::LoadsAhead& ahead = scope_.group.ahead;
  if (ahead.empty()) {
    loops_.open_outer_loops(scope_.group.outer_loops);
    return loops_.emit_start_in_row();
  }
  const kernel::AxisSet last = kernel::AxisSet::of(ahead.axis);
  const LoopEmitter::Iterations turns{ahead.axis, 0, scope_.group.extent(ahead.axis, kernel::Level::loop)};
  loops_.open_outer_loops(scope_.group.outer_loops - last);
  AheadEmitter emitter(scope_, ahead);
  emitter.begin(turns);
  loops_.open_outer_loops(last);
  loops_.emit_start_in_row();
  emitter.take_over(turns);
}

void GroupEmitter::emit_sweeps() {
  PartialEmitter partials(scope_, reductions_);
  partials.begin();
  if (scope_.frame.residence.takes_turns()) {
    for (const kernel::ItemId id : scope_.group.hoisted) scope_.keep(id);
  } else {
    loads_.emit_hoisted();
  }
  products_.emit_types();
  products_.emit_multiply();
  const int depth = scope_.out.depth();
  open_outer_loops();
  for (const kernel::HeldItem& held : scope_.group.held) loads_.declare_held(held);
  shared_.declare_retained();
  SweepEmitter sweeps(scope_, reductions_, products_);
  for (int sweep = 0; sweep < std::ssize(scope_.group.sweeps); ++sweep) sweeps.emit(sweep);
  scope_.out.close(scope_.out.depth() - depth);
  AheadEmitter(scope_, scope_.group.ahead).end();
  partials.finish();
}

}  // namespace stitch::codegen
