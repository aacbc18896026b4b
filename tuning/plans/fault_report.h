#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "db/records.h"
#include "db/store.h"
#include "db/trial_records.h"

// Kernels that were generated, ran and were wrong, hung or faulted are our fault, whatever became of the fragment. What
// whoever mends them needs is one document: the fragment, and what was found with which seed. It can be given to any
// command that reads a model (`stitch tune FAULT.json`), because the importer takes the fragment from it:
//
//     {"format": "stitch-fault", "version": 1, "stitch": "0.1.0", "target": "h100", "architecture": "sm_90a",
//      "toolkit": "13.0.88", "fragment": "87108ddd…", "name": "llama: level 1", "served": "another plan",
//      "candidates": [{"schedule": {…}, "outcome": "correctness", "seed": 1, "detail": "result 0 at [3]: …"}],
//      "graph": {"format": "stitch-graph", …}}
namespace stitch::tuning {

/// Whether a candidate that became this says that something is the matter with us: its kernel ran and was wrong, hung
/// or faulted. One that broke a limit or did not compile is passed over in silence.
[[nodiscard]] bool is_fault(db::Outcome outcome);

/// The first of a fragment's candidates that are faults, of each kind at most 64. Errors: those of the store.
Result<std::vector<db::Candidate>> faults_of(const db::Store& store, const Hash128& fragment);

/// The document about a fragment. Candidates that are no fault are left out; `served`: whether it has a right plan all
/// the same. Errors: those of the fragment's graph.
Result<std::string> fault_document(const db::FragmentRecord& fragment, std::span<const db::Candidate> candidates,
                                   bool served);

}  // namespace stitch::tuning
