#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/result.h"
#include "graph/builder.h"
#include "import/import.h"
#include "import/onnx/frame.h"
#include "import/onnx/node.h"
#include "import/onnx/tensor.h"

namespace stitch::import::onnx {

using graph::Dims;
using graph::DType;
using graph::TensorType;
using graph::Value;
using Values = std::vector<Value>;

/// Domain, name and overload.
using FunctionName = std::tuple<std::string, std::string, std::string>;

/// What the reading of one model shares.
struct State {
  const ImportOptions* options = nullptr;
  Frame* root = nullptr;
  std::map<FunctionName, const pb::FunctionProto*> functions;
  std::vector<FunctionName> inlining;                                     ///< functions being read, outermost first
  std::map<std::string, Boundary> boundaries;                             ///< by place
  std::map<graph::NodeId, std::pair<std::int64_t, std::int64_t>> ranges;  ///< of the root's parameters
  std::map<std::string, std::int64_t> extents;                            ///< open dimensions and what they became
  std::map<graph::NodeId, TensorData> weights;                            ///< likewise; where the options keep them
  std::int64_t calls = 0;                                                 ///< nodes read so far
};

/// Versions of the operator sets that are in force, by domain ("" is ONNX's own).
using Opsets = std::map<std::string, std::int64_t>;

/// The names that are visible in one graph, function body or subgraph.
struct Scope {
  State* state = nullptr;
  Frame* frame = nullptr;
  const Scope* parent = nullptr;  ///< where names not found here are looked up; null for functions
  const Opsets* opsets = nullptr;
  const AttributeBindings* bindings = nullptr;  ///< inside functions
  std::map<std::string, Value> values;
  std::map<std::string, TensorType> declared;  ///< types that the file states, where they are static
  std::string path;                            ///< in front of the place of every node: "node 3 'loop' > "

  /// The value as one of this scope's frame; captures it from frames around it.
  [[nodiscard]] std::optional<Value> find(const std::string& name) const;
};

/// One node with its inputs, as its rule sees it. Rules read attributes and shapes, return an `unsupported` error for
/// what they do not lower (the node then becomes a boundary) and another error for what is wrong with the model, and
/// emit primitives through `b`, whose first failure sticks.
class Call {
 public:
  Call(Scope& scope, NodeView view, std::int64_t version, std::string place);

  Scope& scope;
  State& state;
  Frame& frame;
  graph::Builder& b;
  NodeView node;
  std::int64_t version;  ///< of the operator set
  std::string place;
  std::vector<std::optional<Value>> inputs;  ///< none: left out

  [[nodiscard]] bool has(std::size_t i) const { return i < inputs.size() && inputs[i].has_value(); }
  /// Input i, which the rule's table row promises or `has` has shown to be there.
  [[nodiscard]] Value in(std::size_t i) const { return *inputs[i]; }
  /// Whether output i has a name.
  [[nodiscard]] bool wants(std::size_t i) const { return i < outputs() && !node.output(i).empty(); }
  [[nodiscard]] std::size_t outputs() const { return node.outputs(); }

  [[nodiscard]] const Dims& dims(Value v) const { return b.dims(v); }
  [[nodiscard]] DType dtype(Value v) const { return b.dtype(v); }
  [[nodiscard]] std::int64_t rank(Value v) const { return b.dims(v).size(); }

  template <class... Args>
  static Error wrong(fmt::format_string<Args...> format, Args&&... args) {
    return make_error(ErrorKind::invalid_argument, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  static Error unsupported(fmt::format_string<Args...> format, Args&&... args) {
    return make_error(ErrorKind::unsupported, format, std::forward<Args>(args)...);
  }

  /// `axis` counted from the front, for a tensor of that rank; an error when it is none.
  static Result<std::int64_t> normal_axis(std::int64_t axis, std::int64_t rank);
  static Result<Dims> normal_axes(Dims axes, std::int64_t rank);  ///< sorted; repeats are an error
  Result<std::int64_t> axis(std::string_view attribute, std::int64_t fallback, std::int64_t rank) const;
  Status need_rank(std::size_t input, std::int64_t least, std::int64_t most = 64) const;

  /// Elements that the lowering depends on; unsupported when they are only known at run time.
  Result<graph::ConstantAttributes> need_constant(std::size_t input);
  Result<Dims> need_integers(std::size_t input);
  Result<std::int64_t> need_integer(std::size_t input);
  Result<std::vector<double>> need_numbers(std::size_t input);
  /// The list from input i if there is one, else from the attribute; none when neither is given. (Opset 13 and later
  /// moved many attributes to inputs.)
  Result<std::optional<Dims>> integers_from(std::size_t input, std::string_view attribute);
  /// Elements if the file alone determines them, for lowerings that get simpler then.
  std::optional<graph::ConstantAttributes> constant(Value value) { return frame.evaluate(value, Known::constant); }

  /// A boundary with results of these types.
  Values opaque(std::vector<TensorType> results, std::string_view reason);
  /// The types that the file declares for the node's outputs, if it does for all of them.
  [[nodiscard]] std::optional<std::vector<TensorType>> declared() const;

  /// Tells that the elements of `indices` lie in [low, high], as far as they come straight from model parameters.
  void note_range(Value indices, std::int64_t low, std::int64_t high);
};

/// Extents and elements of an integer constant as a list.
Dims integers_of(const graph::ConstantAttributes& constant);

/// Lowers one operator; the values are its outputs, {} for one that it does not compute.
using RuleFunction = Result<Values> (*)(Call&);

}  // namespace stitch::import::onnx
