#include "import/onnx/sequence.h"

#include <algorithm>

#include "import/emit.h"

namespace stitch::import::onnx {

using namespace emit;
namespace {

constexpr std::string_view reason = "a sequence that outlives the graph it is made in";
constexpr std::string_view target = "onnx.sequence";
constexpr std::int64_t most_sequence_elements = 4096;

Values make_sequence(Call& c, const Values& elements) {
  c.inputs.assign(elements.begin(), elements.end());
  const Values whole = c.opaque({{DType::pred, {0}}}, reason);
  // The same node, under a target that tells sequences apart from what a library computes.
  const graph::Node& made = c.b.graph().node(whole[0].node);
  graph::OpaqueAttributes attributes = made.as<graph::OpaqueAttributes>();
  attributes.target = target;
  return {c.b.add(Op::opaque, Values(made.operands), std::move(attributes))};
}

Result<Values> elements_of(Call& c, std::size_t input) {
  const Value sequence = c.in(input);
  const graph::Node& node = c.b.graph().node(sequence.node);
  if (node.op != Op::opaque || node.as<graph::OpaqueAttributes>().target != target) {
    return Call::unsupported("input {} is a sequence from elsewhere", input);
  }
  return Values(node.operands);
}

/// The position that an input names, among `count` (an insertion: also the one behind the last).
Result<std::int64_t> position_in(Call& c, std::size_t input, std::int64_t count, std::int64_t fallback) {
  std::int64_t position = fallback;
  if (c.has(input)) {
    STITCH_ASSIGN(position, c.need_integer(input));
    if (position < 0) position += count;
  }
  if (position < 0 || position > fallback) return Call::wrong("position {} of {}", position, count);
  return position;
}

}  // namespace

Result<Values> sequence_construct(Call& c) {
  Values elements;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.has(i)) return Call::wrong("input {} is missing", i);
    elements.push_back(c.in(i));
  }
  return make_sequence(c, elements);
}

Result<Values> sequence_empty(Call& c) { return make_sequence(c, {}); }

Result<Values> sequence_insert(Call& c) {
  STITCH_ASSIGN(Values elements, elements_of(c, 0));
  const std::int64_t count = elements.size();
  STITCH_ASSIGN(const std::int64_t position, position_in(c, 2, count, count));
  elements.insert(elements.begin() + position, c.in(1));
  return make_sequence(c, elements);
}

Result<Values> sequence_erase(Call& c) {
  STITCH_ASSIGN(Values elements, elements_of(c, 0));
  const std::int64_t count = elements.size();
  STITCH_ASSIGN(const std::int64_t position, position_in(c, 1, count, count - 1));
  elements.erase(elements.begin() + position);
  return make_sequence(c, elements);
}

Result<Values> sequence_at(Call& c) {
  STITCH_ASSIGN(const Values elements, elements_of(c, 0));
  const std::int64_t count = elements.size();
  STITCH_ASSIGN(const std::int64_t position, position_in(c, 1, count, count - 1));
  return Values{elements[position]};
}

Result<Values> sequence_length(Call& c) {
  STITCH_ASSIGN(const Values elements, elements_of(c, 0));
  return Values{integers(c.b, DType::s64, {}, {static_cast<std::int64_t>(elements.size())})};
}

/// Inputs: x, and either the size of each part or the sizes one by one; parts of 1 when left out, without their
/// dimension if keepdims is 0.
Result<Values> split_to_sequence(Call& c) {
  STITCH_TRY(c.need_rank(0, 1));
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", 0, c.rank(c.in(0))));
  STITCH_ASSIGN(const std::int64_t keep, c.node.integer("keepdims", 1));
  const std::int64_t extent = c.dims(c.in(0))[axis];
  Dims sizes;
  std::int64_t each = 1;
  const bool listed = c.has(1) && c.rank(c.in(1)) == 1;
  if (listed) {
    STITCH_ASSIGN(sizes, c.need_integers(1));
  } else if (c.has(1)) {
    STITCH_ASSIGN(each, c.need_integer(1));
    if (each < 1) return Call::wrong("parts of {}", each);
  }
  if (extent / each > most_sequence_elements) return Call::unsupported("a sequence of {} elements", extent / each);
  for (std::int64_t done = 0; !listed && done < extent; done += each) sizes.push_back(std::min(each, extent - done));
  Values elements;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    if (size < 0 || size > extent - start) return Call::wrong("parts {} of {}", graph::to_string(sizes), extent);
    Value part = slice_axis(c.b, c.in(0), axis, start, start + size);
    if (!c.has(1) && keep == 0) {
      Dims dims = c.dims(part);
      if (!dims.empty()) dims.erase(dims.begin() + axis);
      part = c.b.reshape(part, dims);
    }
    elements.push_back(part);
    start += size;
  }
  if (start != extent) return Call::wrong("parts {} of {}", graph::to_string(sizes), extent);
  return make_sequence(c, elements);
}

Result<Values> concat_from_sequence(Call& c) {
  STITCH_ASSIGN(Values elements, elements_of(c, 0));
  if (elements.empty()) return Call::wrong("an empty sequence");
  STITCH_ASSIGN(const std::int64_t stacked, c.node.integer("new_axis", 0));
  const std::int64_t rank = c.rank(elements[0]) + (stacked != 0);
  STITCH_ASSIGN(const std::int64_t axis, c.axis("axis", 0, rank));
  if (stacked != 0) {
    for (Value& element : elements) {
      Dims dims = c.dims(element);
      if (static_cast<std::int64_t>(dims.size()) + 1 != rank) return Call::wrong("elements of different ranks");
      dims.insert(dims.begin() + axis, 1);
      element = c.b.reshape(element, dims);
    }
  }
  return Values{c.b.concatenate(std::move(elements), axis)};
}

}  // namespace stitch::import::onnx
