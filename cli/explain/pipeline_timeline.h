#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "costmodel/contraction/pipeline_turn.h"

namespace stitch::cli {

/// The pipeline of a product's or an attention's loop over time, as the model has it (costmodel::PipelineTurn): when
/// the first tiles of a block are asked for, there, and multiplied.
struct PipelineTimeline {
  struct Tile {
    std::int64_t number = 0;
    int stage = 0;  ///< its place in shared memory
    double asked_us = 0, there_us = 0, begin_us = 0, end_us = 0;
  };
  costmodel::PipelineTurn turn;
  std::vector<Tile> tiles;
  /// What a turn waits for its tile once the pipeline runs; 0: loads are hidden.
  double waits_us = 0;
};

/// Of the first `most` turns.
PipelineTimeline timeline_of(const costmodel::PipelineTurn& turn, std::int64_t most = 12);

/// Lines for people: what a turn is made of, and a row for each place in shared memory: a dot while its tile is on the
/// way, a dash while it waits, the tile's last digit while it is multiplied.
std::string to_text(const PipelineTimeline& timeline);
nlohmann::ordered_json to_document(const PipelineTimeline& timeline);
/// The same as an SVG element; its colours are those of the page's style sheet (cli/explain/page.h).
std::string to_svg(const PipelineTimeline& timeline);

}  // namespace stitch::cli
