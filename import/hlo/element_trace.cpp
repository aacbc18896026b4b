#include <algorithm>
#include <map>
#include <tuple>

#include "graph/literal.h"
#include "import/hlo/element_program.h"

namespace stitch::import::hlo {
namespace {

using graph::Dims;
using graph::DType;
using graph::Graph;
using graph::Node;
using graph::Op;

Scalar read_constant(const graph::ConstantAttributes& constant, std::int64_t index) {
  const DType dtype = constant.type.dtype;
  const std::byte* at = graph::element_at(constant, index);
  Scalar scalar;
  if (graph::is_floating(dtype)) {
    scalar.real = graph::load_element(dtype, at);
  } else {
    scalar.integer = graph::load_integer(dtype, at);
  }
  return scalar;
}

Dims coordinates(std::int64_t index, const Dims& dims) {
  Dims at(dims.size());
  for (std::size_t d = dims.size(); d-- > 0;) {
    at[d] = index % dims[d];
    index /= dims[d];
  }
  return at;
}

std::int64_t linear(const Dims& at, const Dims& dims) {
  std::int64_t index = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) index = index * dims[d] + at[d];
  return index;
}

/// Which element of the operand an element of a pure layout operator is; nothing for other operators.
std::optional<std::int64_t> source_index(const Node& node, const Dims& operand, std::int64_t index) {
  if (node.op == Op::reshape) return index;
  const Dims at = coordinates(index, node.type().dims);
  Dims from(operand.size());
  switch (node.op) {
    case Op::broadcast: {
      const Dims& mapping = node.as<graph::BroadcastAttributes>().mapping;
      for (std::size_t d = 0; d < from.size(); ++d) from[d] = at[mapping[d]];
      break;
    }
    case Op::transpose: {
      const Dims& permutation = node.as<graph::TransposeAttributes>().permutation;
      for (std::size_t d = 0; d < at.size(); ++d) from[permutation[d]] = at[d];
      break;
    }
    case Op::slice: {
      const auto& a = node.as<graph::SliceAttributes>();
      for (std::size_t d = 0; d < at.size(); ++d) from[d] = a.starts[d] + at[d] * a.strides[d];
      break;
    }
    default: return std::nullopt;
  }
  return linear(from, operand);
}

bool is_order_only(Op op) {
  switch (op) {
    case Op::parameter:
    case Op::compare:
    case Op::select:
    case Op::maximum:
    case Op::minimum:
    case Op::is_nan: return true;
    default: return false;
  }
}

/// The trip of a loop that a piece of its body belongs to; the first frame is the graph itself.
struct Frame {
  const Graph* graph = nullptr;
  std::int32_t parent = -1;
  const Node* loop = nullptr;
  std::int64_t trip = 0;
};

/// One element of one value in one frame.
struct Place {
  std::int32_t frame = 0;
  Element element;
  auto operator<=>(const Place&) const = default;
};

/// What an element is made of: another element as it stands, or an operator applied to elements.
struct Origin {
  bool same = false;
  std::vector<Place> places;
};

}  // namespace

/// Traces elements back; each distinct one becomes a step, operands first. Loops of known trip counts are unrolled as
/// far as the elements need them.
class ElementProgram::Compiler {
 public:
  Compiler(const Graph& graph, std::size_t most_steps) : most_steps_(most_steps) { frames_.push_back({&graph}); }

  std::optional<ElementProgram> compile(std::span<const Element> outputs) {
    for (const Element& output : outputs) {
      if (!trace({0, output})) return std::nullopt;
      program_.outputs_.push_back(slots_.at({0, output}));
    }
    return std::move(program_);
  }

 private:
  /// Depth first with an explicit stack: graphs are deeper than call stacks.
  bool trace(const Place& output) {
    std::vector<Place> pending = {output};
    while (!pending.empty()) {
      const Place place = pending.back();
      if (slots_.contains(place)) {
        pending.pop_back();
        continue;
      }
      if (slots_.size() >= most_steps_ || pending.size() > 4 * most_steps_) return false;
      const std::optional<Origin> origin = origin_of(place);
      if (!origin) return false;
      const std::size_t before = pending.size();
      for (const Place& operand : origin->places) {
        if (!slots_.contains(operand)) pending.push_back(operand);
      }
      if (pending.size() != before) continue;
      pending.pop_back();
      slots_.emplace(place, origin->same ? slots_.at(origin->places[0]) : emit(place, origin->places));
    }
    return true;
  }

  [[nodiscard]] const Node& node_at(const Place& place) const {
    return frames_[place.frame].graph->node(place.element.value.node);
  }

  /// Nothing when the operator is not covered.
  std::optional<Origin> origin_of(const Place& place) {
    const Node& node = node_at(place);
    const std::int64_t index = place.element.index;
    if (node.op == Op::parameter) return place.frame == 0 ? Origin{} : handed_in(place);
    if (node.op == Op::constant || node.op == Op::iota) return Origin{};
    if (node.op == Op::loop) return last_trip(place);
    Origin origin;
    if (graph::is_elementwise(node.op) && !graph::makes_random_bits(node.op)) {
      for (const graph::Value& operand : node.operands) origin.places.push_back({place.frame, {operand, index}});
      return origin;
    }
    if (node.operands.empty()) return std::nullopt;
    const Graph& graph = *frames_[place.frame].graph;
    const std::optional<std::int64_t> from = source_index(node, graph.type(node.operands[0]).dims, index);
    if (!from) return std::nullopt;
    return Origin{true, {{place.frame, {node.operands[0], *from}}}};
  }

  /// A loop's result is what its last trip gives, or what it was handed if it makes none.
  std::optional<Origin> last_trip(const Place& place) {
    const Node& loop = node_at(place);
    const std::size_t carried = place.element.value.result;
    const std::int64_t trips = loop.as<graph::LoopAttributes>().trip_count;
    if (trips < 0 || trips > static_cast<std::int64_t>(most_steps_)) return std::nullopt;
    const std::int64_t index = place.element.index;
    if (trips == 0) return Origin{true, {{place.frame, {loop.operands[carried], index}}}};
    const std::int32_t frame = frame_of(place.frame, loop, trips - 1);
    return Origin{true, {{frame, {loop.regions[0]->results()[carried], index}}}};
  }

  /// A body's parameter is what the trip before gave, or the loop's operand.
  std::optional<Origin> handed_in(const Place& place) {
    const Frame frame = frames_[place.frame];
    const std::size_t carried = parameter_position(*frame.graph, place.element.value.node);
    const std::int64_t index = place.element.index;
    if (frame.trip == 0) return Origin{true, {{frame.parent, {frame.loop->operands[carried], index}}}};
    const std::int32_t before = frame_of(frame.parent, *frame.loop, frame.trip - 1);
    return Origin{true, {{before, {frame.graph->results()[carried], index}}}};
  }

  std::int32_t frame_of(std::int32_t parent, const Node& loop, std::int64_t trip) {
    const auto [found, is_new] =
        frame_index_.try_emplace({parent, &loop, trip}, static_cast<std::int32_t>(frames_.size()));
    if (is_new) frames_.push_back({loop.regions[0].get(), parent, &loop, trip});
    return found->second;
  }

  std::int32_t emit(const Place& place, const std::vector<Place>& operands) {
    const Node& node = node_at(place);
    Step step;
    step.op = node.op;
    step.dtype = step.operand_dtype = node.type().dtype;
    for (std::size_t i = 0; i < operands.size(); ++i) step.operands[i] = slots_.at(operands[i]);
    if (!operands.empty()) {
      step.operand_dtype = frames_[place.frame].graph->type(node.operands[0]).dtype;
    }
    switch (node.op) {
      case Op::constant: step.value = read_constant(node.as<graph::ConstantAttributes>(), place.element.index); break;
      case Op::iota: {
        const std::size_t dimension = node.as<graph::IotaAttributes>().dimension;
        const std::int64_t at = coordinates(place.element.index, node.type().dims)[dimension];
        step.op = Op::constant;
        step.value = from_number(at, step.dtype);
        break;
      }
      case Op::parameter:
        program_.inputs_.push_back(
            {parameter_position(*frames_[0].graph, place.element.value.node), place.element.index});
        break;
      case Op::compare: step.comparison = node.as<graph::CompareAttributes>().direction; break;
      default: break;
    }
    const bool truth = step.dtype == DType::pred && (step.op == Op::bit_and || step.op == Op::bit_or ||
                                                     step.op == Op::bit_xor || step.op == Op::bit_not);
    program_.only_compares_ &= truth || is_order_only(step.op);
    program_.steps_.push_back(step);
    return static_cast<std::int32_t>(program_.steps_.size()) - 1;
  }

  static std::int64_t parameter_position(const Graph& graph, graph::NodeId id) {
    const auto parameters = graph.parameters();
    return std::find(parameters.begin(), parameters.end(), id) - parameters.begin();
  }

  std::size_t most_steps_;
  ElementProgram program_;
  std::vector<Frame> frames_;
  std::map<std::tuple<std::int32_t, const Node*, std::int64_t>, std::int32_t> frame_index_;
  std::map<Place, std::int32_t> slots_;
};

std::optional<ElementProgram> ElementProgram::compile(const Graph& graph, std::span<const Element> outputs,
                                                      std::size_t most_steps) {
  return Compiler(graph, most_steps).compile(outputs);
}

}  // namespace stitch::import::hlo
