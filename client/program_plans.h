#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "api/program_document.h"
#include "client/executor.h"

namespace stitch::client {

/// The plans of a program's fragments, loaded; null where a fragment has none. Code that is in the program is taken
/// from there, other code from `artifacts`. Errors: those of Executor::load and of `artifacts`, corrupt, not_found
/// (code that is nowhere), with the fragment's key.
Result<std::vector<std::unique_ptr<LoadedPlan>>> load_plans(const api::Program& program, Executor& executor,
                                                            const ArtifactSource& artifacts);

/// What the plans of a program's fragments have for themselves, bytes.
std::int64_t workspace_bytes_of(const api::Program& program);

}  // namespace stitch::client
