#include "graph/reference/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "graph/reference/evaluate_run.h"

namespace stitch::graph {

namespace {

Status check_box(const Box& box, const Dims& dims, std::size_t result) {
  const bool fits = box.start.size() == dims.size() && box.size.size() == dims.size() &&
                    std::all_of(box.size.begin(), box.size.end(), [](std::int64_t size) { return size >= 0; });
  if (fits && Box::whole(dims).contains(box)) return {};
  return make_error(ErrorKind::invalid_argument, "result {}: the box {} is not inside {}", result, to_string(box),
                    to_string(dims));
}

Status check_restriction(const Graph& graph, const ReduceRestriction& r) {
  const auto bad = [&](std::string_view why) {
    return make_error(ErrorKind::invalid_argument, "restriction of node {}: {}", r.node, why);
  };
  if (r.node < 0 || r.node >= graph.size()) return bad("there is no such node");
  const Node& node = graph.node(r.node);
  const std::optional<Dims> reduced = reduced_dimensions(node);
  if (!reduced) return bad("it is no reduction");
  if (r.boxes.empty()) return bad("no boxes");
  const Box whole = Box::whole(graph.type(node.operands[0]).dims);
  std::vector<bool> apart(whole.size.size(), false);  // some box is part of the dimension
  for (const Box& box : r.boxes) {
    if (box.start.size() != apart.size() || box.size.size() != apart.size() || box.empty() || !whole.contains(box))
      return bad(fmt::format("{} is no part of {}", to_string(box), to_string(whole.size)));
    for (std::size_t d = 0; d < apart.size(); ++d) {
      if (box.size[d] == whole.size[d]) continue;
      apart[d] = true;
      if (std::ranges::count(*reduced, static_cast<std::int64_t>(d)) == 0)
        return bad(fmt::format("dimension {} is not reduced, and {} is part of it", d, to_string(box)));
    }
  }
  Dims after;  // the last index so far
  for (const Box& box : r.boxes) {
    Dims first, last;
    for (std::size_t d = 0; d < apart.size(); ++d) {
      if (!apart[d]) continue;
      first.push_back(box.start[d]);
      last.push_back(box.end(d) - 1);
    }
    if (&box != r.boxes.data() && first <= after) return bad("boxes are not ascending and disjoint");
    after = std::move(last);
  }
  return {};
}

Status check_restrictions(const Graph& graph, std::span<const ReduceRestriction> restrictions) {
  std::set<NodeId> restricted;
  for (const ReduceRestriction& each : restrictions) {
    STITCH_TRY(check_restriction(graph, each));
    if (!restricted.insert(each.node).second)
      return make_error(ErrorKind::invalid_argument, "two restrictions of node {}", each.node);
  }
  return {};
}

/// A block as a tensor of its own; takes the arrays when nobody else has them.
Result<Tensor> to_tensor(reference::Memory& memory, const TensorType& type, reference::Block block, bool bounds) {
  const bool sole = block.data.use_count() == 1 && !block.uniform;
  if (!sole) {
    STITCH_ASSIGN(reference::Block dense, reference::expanded(memory, block));
    block = std::move(dense);
  }
  reference::Storage& data = *block.data;
  Tensor tensor{type, block.box, {}, {}, {}};
  if (block.data.use_count() == 1) {
    tensor.floats = std::move(data.floats);
    tensor.integers = std::move(data.integers);
    tensor.bounds = std::move(data.bounds);
  } else {
    tensor.floats = data.floats;
    tensor.integers = data.integers;
    tensor.bounds = data.bounds;
  }
  // Kept until here for what reads it: doubt_infinities.
  const auto is_infinite = [](double value) { return std::isinf(value); };
  if (type.dtype == DType::f8e4m3) {
    std::ranges::replace_if(tensor.floats, is_infinite, std::numeric_limits<double>::quiet_NaN());
  }
  if (bounds && tensor.bounds.empty()) tensor.bounds.assign(block.box.elements(), 0);
  return tensor;
}

}  // namespace

Result<std::vector<std::vector<Tensor>>> evaluate_parts(const Graph& graph, std::span<const Input> inputs,
                                                        const std::vector<std::vector<Box>>& wanted,
                                                        const EvaluateOptions& options) {
  if (inputs.size() != graph.parameters().size() || wanted.size() != graph.results().size()) {
    return make_error(ErrorKind::invalid_argument, "{} inputs for {} parameters, {} wants for {} results",
                      inputs.size(), graph.parameters().size(), wanted.size(), graph.results().size());
  }
  STITCH_TRY(check_restrictions(graph, options.restrictions));
  std::vector<reference::Wanted> values;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    for (const Box& box : wanted[i]) STITCH_TRY(check_box(box, graph.type(graph.results()[i]).dims, i));
    values.push_back({graph.results()[i], wanted[i]});
  }
  std::vector<reference::Source> sources;
  for (const Input& input : inputs) sources.push_back({&input, nullptr});
  reference::Memory memory(options.memory_limit, options.work_limit, options.stop);
  std::vector<std::vector<Tensor>> results;
  {
    reference::Evaluation evaluation(graph, sources, options, memory, true);
    STITCH_ASSIGN(auto blocks, evaluation.run(values));
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      std::vector<Tensor>& parts = results.emplace_back();
      for (reference::Block& block : blocks[i]) {
        STITCH_ASSIGN(Tensor tensor,
                      to_tensor(memory, graph.type(graph.results()[i]), std::move(block), options.bounds));
        parts.push_back(std::move(tensor));
      }
    }
  }
  return results;
}

Result<std::vector<Tensor>> evaluate(const Graph& graph, std::span<const Tensor> arguments,
                                     const EvaluateOptions& options) {
  std::vector<Input> inputs;
  for (const Tensor& argument : arguments) {
    inputs.emplace_back([&argument](Tensor& part) { return fill_part(argument, part); });
  }
  std::vector<std::vector<Box>> wanted;
  for (const Value& value : graph.results()) wanted.push_back({Box::whole(graph.type(value).dims)});
  STITCH_ASSIGN(auto parts, evaluate_parts(graph, inputs, wanted, options));
  std::vector<Tensor> results;
  for (std::vector<Tensor>& part : parts) results.push_back(std::move(part[0]));
  return results;
}

}  // namespace stitch::graph
