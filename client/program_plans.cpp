#include "client/program_plans.h"

#include <algorithm>

namespace stitch::client {
namespace {

Result<std::string> find_code(const api::Program& program, const ArtifactSource& others, const Sha256& hash) {
  const auto inside = std::ranges::find(program.artifacts, hash, &api::ProgramArtifact::hash);
  if (inside == program.artifacts.end()) {
    if (others) return others(hash);
    return make_error(ErrorKind::not_found, "the program lacks artifact {}", hash.hex());
  }
  if (sha256(inside->bytes) != hash) return make_error(ErrorKind::corrupt, "artifact {} is damaged", hash.hex());
  return inside->bytes;
}

}  // namespace

Result<std::vector<std::unique_ptr<LoadedPlan>>> load_plans(const api::Program& program, Executor& executor,
                                                            const ArtifactSource& artifacts) {
  std::vector<std::unique_ptr<LoadedPlan>> plans;
  for (const api::ProgramFragment& fragment : program.fragments) {
    plans.emplace_back();
    if (!fragment.plan) continue;
    auto loaded =
        executor.load(*fragment.plan, [&](const Sha256& hash) { return find_code(program, artifacts, hash); });
    if (!loaded) return loaded.error().within(fmt::format("fragment {}", fragment.key.hex()));
    plans.back() = *std::move(loaded);
  }
  return plans;
}

std::int64_t workspace_bytes_of(const api::Program& program) {
  std::int64_t bytes = 0;
  for (const api::ProgramFragment& fragment : program.fragments)
    bytes += fragment.plan ? fragment.plan->workspace_bytes : 0;
  return bytes;
}

}  // namespace stitch::client
