#pragma once

#include <filesystem>
#include <vector>

#include "base/device_spec.h"
#include "cli/contractions/problem_file.h"
#include "cli/session.h"

namespace stitch::cli {

/// Predicts tiles that others have chosen, whether or not our space has them, so that a whole space of theirs is ranked
/// by our model. A line of the file is `{"name": PROBLEM, "tiles": [TILE…]}`, a tile
///
///     {"instruction": "mma_m16n8k16", "block": [128, 128, 32], "warp": [64, 64], "stages": [4, 2], "split": 1,
///     "group": 8}
///
/// rows, columns and depth of a block, rows and columns of a warp, tiles in shared memory and steps in registers (1
/// when left out, as are split and group; none where `streamed`, the blocks that share turns, is, or `realigned`, the
/// operands whose copies are where they can be: ["left", "right"]). For each line one is
/// printed: `{"name", "predicted_us": [µs or null…], "broken": [rule or null…]}`. `broken` is the first rule of
/// kernel::contraction_rules() that our kernels would break. Where that is one of how much fits (stages, warpgroups,
/// shared-memory, registers …) a time is predicted nevertheless, as if it did; where it is one of what the tile is,
/// there is none. Errors: io; parse (a line that is none of these, names a problem that is not in `problems`, or one
/// that is no product).
Result<ExitCode> price_tiles(const std::vector<NamedProblem>& problems, const DeviceSpec& device,
                             const std::filesystem::path& tiles);

}  // namespace stitch::cli
