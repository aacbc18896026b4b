#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "graph/graph.h"

namespace stitch::kernel {

/// One turn of a loop as one block computes it, and how the block gets from turn to turn. A kernel that runs all turns
/// of a loop gives every block some rows of its own (kernel/loop/row_split.h): what a turn hands to the next stays in
/// the block's shared memory, what all turns read stays in L1, and no block waits for another (persistent RNNs: Diamos
/// et al., ICML 2016, with rows of a batch in the place of columns of the weights).
struct RecurrentStep {
  /// What a parameter of the step's graph is.
  struct Source {
    enum class Kind : std::uint8_t {
      input,      ///< parameter `number` of the kernel
      state,      ///< what the turn before left of state `number`
      output,     ///< result `number` of the kernel, of which the turn writes its slice; never read
      first_row,  ///< s32[]: the block's first row
    };
    Kind kind = Kind::input;
    int number = 0;
  };
  /// Where a result of the step's graph goes: a state, for the next turn, or its slice of a result of the kernel.
  struct Target {
    bool is_state = false;
    int number = 0;
  };
  /// A value that every turn reads and replaces.
  struct State {
    graph::TensorType type;          ///< of the block's part
    int row_dimension = -1;          ///< -1: every block has all of it
    std::int64_t all_rows = 1;       ///< extent of that dimension in the whole value
    std::optional<int> first_input;  ///< parameter of the kernel that it begins with, or
    std::uint64_t fill = 0;          ///< bits of the number that fills it then
    std::optional<int> output;       ///< result of the kernel that its last value is
  };

  /// A tensor of which every turn reads the next place along a dimension. Of a place a block takes its rows: `runs`
  /// runs of `run_bytes` contiguous bytes, `row_bytes` apart.
  struct Sequence {
    int parameter = 0;  ///< of `graph`
    bool backward = false;
    std::int64_t turn_bytes = 0, row_bytes = 0;  ///< from one place, or row, to the next; no rows: 0
    std::int64_t runs = 1, run_bytes = 0;

    bool operator==(const Sequence&) const = default;
  };

  graph::Graph graph;
  std::vector<Source> sources;  ///< by parameter of `graph`
  std::vector<Target> targets;  ///< by result of `graph`
  std::vector<State> states;
  std::set<graph::Value> stored_first;  ///< values of `graph` that StructureOptions::stored_first is to have
  std::vector<Sequence> sequences;      ///< what a block asks for `turns_ahead` turns before it reads it
  std::int64_t turns = 0;
  std::int64_t rows = 0;  ///< of a block
  std::int64_t blocks = 0;

  static constexpr int turns_ahead = 2;  ///< a turn may take less time than device memory does

  /// Parameters of `graph` that are the same in every turn.
  [[nodiscard]] std::set<int> lasting_inputs() const;
  /// Whether a parameter of `graph` is a sequence.
  [[nodiscard]] bool is_sequence(int parameter) const;
};

/// Where a block keeps what a turn hands on, in bytes from the start of that part of its shared memory; everything is
/// aligned to 16 bytes. States are there twice, what this turn reads and what it leaves for the next; `copy` bytes lie
/// between the two.
struct ResidentLayout {
  std::vector<std::int64_t> states, scratch;
  std::vector<std::int64_t> fragments;  ///< of weights, for tensor cores, by what wants them
  std::int64_t copy = 0;
  std::int64_t first_row = 0;
  std::int64_t bytes = 0;  ///< altogether
};
/// `scratch_bytes`: of each value that the phases of a turn hand over. `fragment_bytes`: of what holds weights.
ResidentLayout resident_layout(const RecurrentStep& step, std::span<const std::int64_t> scratch_bytes,
                               std::span<const std::int64_t> fragment_bytes = {});

}  // namespace stitch::kernel
