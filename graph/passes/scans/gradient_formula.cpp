#include "graph/passes/scans/gradient_formula.h"

#include <map>
#include <utility>

#include "graph/fill.h"

namespace stitch::graph {
namespace {

/// h = a·h + b, as pairs (a, b).
std::shared_ptr<const Graph> recurrence(DType dtype) {
  Builder b("combiner");
  const Value decay = b.parameter(dtype, {}), sum = b.parameter(dtype, {});
  const Value next_decay = b.parameter(dtype, {}), next = b.parameter(dtype, {});
  const Value both = b.binary(Op::multiply, decay, next_decay);
  auto region = b.finish({both, b.binary(Op::add, b.binary(Op::multiply, next_decay, sum), next)});
  return std::make_shared<const Graph>(std::move(*region));
}

}  // namespace

DType in_trial(DType dtype) { return is_floating(dtype) ? DType::f64 : dtype; }

Value copy_operator(Builder& b, const Node& node, std::vector<Value> operands, bool doubles) {
  if (node.op == Op::convert) {
    const DType to = node.as<ConvertAttributes>().dtype;
    return b.convert(operands[0], doubles ? in_trial(to) : to);
  }
  return b.add(node.op, std::move(operands), node.attributes);
}

std::optional<Value> GradientFormula::total(Value decay) {
  const Value g = operands_.cotangent;
  const std::int64_t d = shape_.dimension;
  if (is_cotangent(decay)) return b_.add(Op::scan, {g}, ScanAttributes{ReduceKind::sum, d, !shape_.reverse, false});
  Dims shorter = shape_.dims;
  --shorter[d];
  const Leaves before{.left = [&](int i) { return without_last(operands_.scanned[i]); },
                      .right = [&](int i) { return without_first(operands_.components[i]); },
                      .joined = [&](int i) { return without_first(operands_.scanned[i]); },
                      .cotangent = b_.filled(b_.dtype(g), shorter, 1)};
  const auto decays = copy(decay, shorter, before);
  if (!decays || b_.dtype(*decays) != b_.dtype(g)) return std::nullopt;
  const Value scan = b_.add(Op::associative_scan, {padded(*decays, !shape_.reverse), g},
                            AssociativeScanAttributes{d, !shape_.reverse}, {recurrence(b_.dtype(g))});
  return Value{scan.node, 1};
}

std::optional<Value> GradientFormula::gradient(Value jacobian, Value total, bool with_first) {
  if (is_cotangent(jacobian) && with_first) return total;
  const Leaves here{.left = [&](int i) { return padded(without_last(operands_.scanned[i]), shape_.reverse); },
                    .right = [&](int i) { return operands_.components[i]; },
                    .joined = [&](int i) { return operands_.scanned[i]; },
                    .cotangent = total};
  const auto made = copy(jacobian, shape_.dims, here);
  if (!made || b_.dtype(*made) != b_.dtype(total)) return std::nullopt;
  const std::int64_t first = shape_.reverse ? shape_.dims[shape_.dimension] - 1 : 0;
  const Value place = b_.iota(DType::s32, shape_.dims, shape_.dimension);
  const Value is_first = b_.compare(Comparison::eq, place, b_.filled(DType::s32, shape_.dims, first));
  return b_.select(is_first, with_first ? total : b_.filled(b_.dtype(total), shape_.dims, 0), *made);
}

bool GradientFormula::is_cotangent(Value value) const {
  const Followed* known = walk_.of(value);
  return known != nullptr && known->component == walk_.components();
}

std::optional<Value> GradientFormula::leaf(const Followed& known, const Leaves& leaves) const {
  const auto all = [&](std::int32_t first_step, std::int32_t first, std::int32_t last) {
    for (std::int32_t i = 0; i < std::ssize(known.ranges); ++i) {
      if (known.ranges[i] != Range{first + first_step * i, last + 2 * i}) return false;
    }
    return true;
  };
  if (known.component == walk_.components()) return all(2, 2, 2) ? std::optional(leaves.cotangent) : std::nullopt;
  if (all(0, 0, 1)) return leaves.left(known.component);
  if (all(2, 2, 2)) return leaves.right(known.component);
  if (all(0, 0, 2)) return leaves.joined(known.component);
  return std::nullopt;
}

std::optional<Value> GradientFormula::copy(Value root, const Dims& dims, const Leaves& leaves) {
  std::map<Value, Value> copies;
  std::vector<Value> open = {root};
  while (!open.empty()) {
    const Value value = open.back();
    if (copies.contains(value)) {
      open.pop_back();
      continue;
    }
    if (const Followed* known = walk_.of(value)) {
      const auto stands = leaf(*known, leaves);
      if (!stands) return std::nullopt;
      copies[value] = *stands;
      continue;
    }
    const DType dtype = graph_.type(value).dtype;
    if (const auto number = fill_number(graph_, value)) {
      copies[value] = b_.filled(shape_.doubles ? in_trial(dtype) : dtype, dims, *number);
      continue;
    }
    const Node& node = graph_.node(value.node);
    if (!is_elementwise(node.op) || node.results.size() != 1 || node.op == Op::bitcast_convert) return std::nullopt;
    std::vector<Value> operands;
    const std::size_t before = open.size();
    for (const Value operand : node.operands) {
      const auto copied = copies.find(operand);
      if (copied == copies.end()) {
        open.push_back(operand);
      } else {
        operands.push_back(copied->second);
      }
    }
    if (open.size() == before) copies[value] = copy_operator(b_, node, std::move(operands), shape_.doubles);
  }
  return copies.at(root);
}

Value GradientFormula::part(Value value, bool from_second) {
  Dims starts(shape_.dims.size(), 0), limits = shape_.dims;
  (from_second ? starts[shape_.dimension] : limits[shape_.dimension]) += from_second ? 1 : -1;
  return b_.slice(value, starts, limits);
}

Value GradientFormula::padded(Value value, bool behind) {
  Dims low(shape_.dims.size(), 0), high = low, none = low;
  (behind ? high : low)[shape_.dimension] = 1;
  return b_.pad(value, b_.scalar(b_.dtype(value), 0), low, high, none);
}

}  // namespace stitch::graph
