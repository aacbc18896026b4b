#pragma once

#include <map>
#include <optional>
#include <string>

#include "graph/builder.h"
#include "graph/graph.h"
#include "kernel/loop/recurrent_step.h"
#include "kernel/loop/row_split.h"

namespace stitch::kernel {

/// What surrounds a turn while its graph is built: the states, the parameters that the graph gets for what the loop's
/// body reads, and a block's rows of these. RecurrentStep's states, sources and sequences are filled on the way.
class StepInputs {
 public:
  /// All must outlive this; `step` has turns, rows and blocks. Numbers the states.
  StepInputs(const graph::Graph& kernel, graph::NodeId loop, const RowSplit& split, graph::Builder& out,
             RecurrentStep& step);

  /// The number of the state that a carried value is.
  [[nodiscard]] int state(std::size_t carried) const { return state_of_.at(carried); }
  /// The kernel's result that a carried value ends as.
  [[nodiscard]] std::optional<int> output_of(std::size_t carried) const;
  /// Whether a value of the body is a state, as the turn before has left it.
  [[nodiscard]] bool is_state(graph::Value value) const;

  /// A fresh parameter of the step's graph.
  graph::Value parameter(const graph::TensorType& type, RecurrentStep::Source source, const std::string& name);
  /// A block's rows of a parameter of the body along `row` (-1: all of it). Of a state every call gives a parameter of
  /// its own.
  graph::Value rows_of_parameter(graph::Value value, int row);
  /// A block's rows of a whole tensor.
  graph::Value rows_of(graph::Value whole, int row);
  /// `size` places from `start` along a dimension (-1: everything).
  graph::Value cut(graph::Value whole, int dimension, std::int64_t start, std::int64_t size);
  graph::Value first_row();
  graph::Value zero();

  /// Notes that a slice of the body is a place of a sequence, of which a block takes rows along `row`.
  void note_sequence(graph::NodeId slice, int row);

 private:
  void number_states();
  [[nodiscard]] std::optional<int> input_of(std::size_t carried) const;
  [[nodiscard]] std::size_t parameter_of_body(graph::Value value) const;

  const graph::Graph& kernel_;
  const graph::NodeId loop_id_;
  const graph::Node& loop_;
  const graph::Graph& body_;
  const RowSplit& split_;
  graph::Builder& out_;
  RecurrentStep& step_;
  std::map<std::size_t, int> state_of_;         ///< by carried value
  std::map<std::size_t, graph::Value> inputs_;  ///< by carried value: the whole of an invariant
  graph::Value first_row_, zero_;
};

}  // namespace stitch::kernel
