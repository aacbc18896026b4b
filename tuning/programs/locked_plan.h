#pragma once

#include "api/program_lock.h"
#include "base/result.h"
#include "graph/graph.h"
#include "tuning/kernels/kernel_workshop.h"
#include "tuning/plans/remembering_tuner.h"
#include "tuning/plans/tuner.h"

namespace stitch::tuning {

/// How many candidates of a kernel a tuner has to keep (StitchOptions::keep) that is to make plans again: as many as
/// one that measures builds of it.
inline int locked_candidates() { return WorkshopOptions().built_ahead(true); }

/// Where a locked plan is looked for, and by what it is made again.
struct LockedPlanSource {
  const Tuner& tuner;                  ///< keeps locked_candidates()
  RememberingTuner* memory = nullptr;  ///< null: none
  std::stop_token stop = {};
};

/// The plan that a lock names for a canonical graph, with its code: what the memory has under its id, whatever it
/// serves by now; or else the same plan made again, of the candidates whose code the lock names, which the memory then
/// keeps beside what it serves. That finds what tuning takes of the candidates that planning ranks here, not what a
/// search in wider spaces found, nor what another cost model, toolkit or generator ranked. Errors: constraint, with the
/// line of the lock and the reason (another plan, no such code, a plan that was withdrawn); cancelled; those of the
/// memory's store and of the machine (unavailable, io).
Result<ServedPlan> locked_plan(const LockedPlanSource& source, const api::LockedFragment& locked,
                               const graph::Graph& fragment);

}  // namespace stitch::tuning
