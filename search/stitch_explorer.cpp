#include "search/stitch_explorer.h"

#include "search/schedule_space.h"

namespace stitch::search {

Result<std::vector<StitchCandidate>> explore_stitches(const graph::Graph& graph, const Scorer& scorer,
                                                      const StitchOptions& options) {
  SpaceOptions space;
  space.keep = options.keep, space.wide = options.wide;
  STITCH_ASSIGN(ScheduleSpace found, explore_space(graph, scorer, space));
  return std::move(found.candidates);
}

}  // namespace stitch::search
