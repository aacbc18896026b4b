#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel/index/index_expr.h"

// Loops that bring tiles closer and compute with them, as ALCOP has them (arXiv 2210.16691 §3): what the passes of
// kernel/pipeline rewrite and an emitter prints. Of a matmul, before any pass:
//
//     for k in 0..24
//       copy left_tile[0] <- left tile k
//       copy right_tile[0] <- right tile k
//       for step in 0..4 unrolled
//         copy left_fragment[0] <- left_tile[0] part 4·k + step
//         copy right_fragment[0] <- right_tile[0] part 4·k + step
//         compute multiply left_fragment[0], right_fragment[0]
//
// A buffer holds one tile for each of its stages; a tile is named by its linear number, counted over all loops around
// its copy. Nothing here knows of matmuls: the loads of a reduction's rows are such a nest, too.

namespace stitch::kernel::pipeline {

enum class Scope : std::uint8_t {
  device,     ///< memory that nobody here writes; its tiles are always there
  shared,     ///< of a block: filled by asynchronous copies, which are there for all after wait
  registers,  ///< of a thread: filled by loads, which the hardware waits for
};

struct TileBuffer {
  std::string name;
  Scope scope = Scope::shared;
  int stages = 1;
  bool rotated = false;  ///< its copies run ahead of their use
  bool carried = false;  ///< across the turns of the loop around, too

  bool operator==(const TileBuffer&) const = default;
};

struct TileLoop {
  std::string name;
  std::int64_t extent = 1;
  Index variable = -1;
  bool unrolled = false;
};

/// A tile in one of a buffer's stages.
struct TileAccess {
  int buffer = -1;
  Index tile = -1;
  Index stage = -1;
};

/// Runs only where it holds.
struct TileGuard {
  enum class Kind : std::uint8_t { below, equal };
  Index index = -1;
  Kind kind = Kind::below;
  std::int64_t bound = 0;
  /// How many of `bound` each turn of the outermost loop has, for who knows its turns only when the kernel runs; 0:
  /// what is counted begins anew in every turn, so that `bound` holds whatever turns there are.
  std::int64_t per_turn = 0;
};

struct TileStatement {
  enum class Kind : std::uint8_t {
    loop,
    copy,     ///< to ← from
    compute,  ///< with `reads`
    commit,   ///< ends a group of asynchronous copies
    wait,     ///< until all but the latest `pending` groups are there, of all threads of the block
    acquire,  ///< until no thread of the block reads what is overwritten next
  };
  Kind kind = Kind::compute;
  int loop = -1;
  std::vector<TileStatement> body = {};
  TileAccess to = {}, from = {};
  bool changes = false;  ///< a copy with arithmetic between load and store
  bool waits = false;    ///< a copy that is no asynchronous one: it is made through registers
  /// Of a copy through registers that hold a tile while others are used (staging.h): which part of it. `changes` may
  /// then stand between load and store.
  enum class Part : std::uint8_t { whole, load, store } part = Part::whole;
  bool staged = false;
  std::vector<TileAccess> reads = {};
  std::string name = {};  ///< of a compute
  int pending = 0;
  std::vector<TileGuard> guards = {};
};

TileStatement tile_copy(TileAccess to, TileAccess from);
TileStatement tile_loop(int loop, std::vector<TileStatement> body);

struct TileNest {
  IndexPool pool;
  std::vector<TileLoop> loops;
  std::vector<TileBuffer> buffers;
  std::vector<TileStatement> body;

  int add_loop(std::string name, std::int64_t extent, bool unrolled = false);
  int add_buffer(std::string name, Scope scope);
};

/// How a statement's guard, tile or stage reads: "4·k + step".
std::string to_string(const TileNest& nest, Index index);
/// One statement per line, indented by loops.
std::string to_string(const TileNest& nest);

}  // namespace stitch::kernel::pipeline
