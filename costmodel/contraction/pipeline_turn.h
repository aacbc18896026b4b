#pragma once

#include <cstdint>

namespace stitch::costmodel {

/// One turn of the loop over tiles that come to shared memory, as the pipeline model has it (ALCOP, arXiv 2210.16691
/// §4): of S tiles each is asked for when its place is free, and multiplied when it is there and the turn before it is
/// over. Turns follow one another at the rate of `busy_us` where loads are hidden, else at that of (load + use) ÷ S.
struct PipelineTurn {
  std::int64_t turns = 0;   ///< of a block: tiles of the contracted dimension, or of keys (the most that one walks)
  int stages = 1;           ///< S; of wgmma one fewer than the schedule's, since one more is still read
  int fragment_stages = 1;  ///< steps of a tile in registers
  int blocks = 1;           ///< that share an SM, and take turns
  double load_us = 0;       ///< from asking for a tile until it is there
  double use_us = 0;        ///< what multiplies it, of one block
  double busy_us = 0;       ///< from one turn of a block to its next, where no tile is waited for: all blocks' uses
  double between_us = 0;    ///< of that, barriers and what a turn begins and ends with
};

}  // namespace stitch::costmodel
