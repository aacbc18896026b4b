#include <algorithm>

#include "lab/breadth/draw_steps.h"

namespace stitch::lab {
namespace {

using graph::Dims;
using graph::Value;

std::optional<Value> with_dimensions(GraphDraft& draft) {
  return draft.find([&](Value v) { return draft.rank(v) >= 1; });
}

}  // namespace

void draw_iota(GraphDraft& draft) {
  const Dims dims = draft.dims();
  const graph::DType dtype = draft.any_dtype();
  if (dims.empty() || dtype == graph::DType::pred) return;
  draft.note(draft.builder().iota(dtype, dims, draft.below(std::ssize(dims))));
}

void draw_broadcast(GraphDraft& draft) {
  const Value x = draft.any();
  Dims dims = draft.type(x).dims;
  std::vector<bool> own(dims.size(), true);
  for (std::int64_t more = draft.between(1, 2); more > 0 && dims.size() < 5; --more) {
    const std::int64_t wanted = draft.extent(), room = draft.room(graph::element_count(dims));
    const std::int64_t at = draft.between(0, std::ssize(dims));
    dims.insert(dims.begin() + at, wanted <= room ? wanted : 1);
    own.insert(own.begin() + at, false);
  }
  Dims mapping;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (own[d]) mapping.push_back(static_cast<std::int64_t>(d));
  }
  draft.note(draft.builder().broadcast(x, dims, mapping));
}

void draw_reshape(GraphDraft& draft) {
  const Value x = draft.any();
  Dims dims;
  std::int64_t left = draft.type(x).elements();
  if (left == 0) return;
  while (left > 1 && dims.size() < 4) {
    Dims divisors;
    for (std::int64_t f = 1; f <= left; ++f) {
      if (left % f == 0) divisors.push_back(f);
    }
    dims.push_back(draft.of(divisors));
    left /= dims.back();
  }
  if (left > 1 || (dims.empty() && draft.one_in(2))) dims.push_back(left);
  if (dims != draft.type(x).dims) draft.note(draft.builder().reshape(x, dims));
}

void draw_transpose(GraphDraft& draft) {
  const auto x = draft.find([&](Value v) { return draft.rank(v) >= 2; });
  if (x) draft.note(draft.builder().transpose(*x, draft.permutation(draft.rank(*x))));
}

void draw_slice(GraphDraft& draft) {
  const auto x = with_dimensions(draft);
  if (!x) return;
  Dims starts, limits, strides;
  for (const std::int64_t extent : draft.type(*x).dims) {
    const bool whole = draft.one_in(2);
    const bool near = !whole && draft.one_in(2);  // only an element or two are cut off
    starts.push_back(whole ? 0 : draft.below(near ? std::min<std::int64_t>(extent, 3) : extent + 1));
    limits.push_back(whole  ? extent
                     : near ? std::max(starts.back(), extent - draft.below(3))
                            : draft.between(starts.back(), extent));
    strides.push_back(draft.one_in(4) ? draft.between(1, 3) : 1);
  }
  draft.note(draft.builder().slice(*x, starts, limits, strides));
}

void draw_pad(GraphDraft& draft) {
  const auto x = with_dimensions(draft);
  if (!x) return;
  Dims low, high, interior;
  std::int64_t elements = 1;
  for (const std::int64_t extent : draft.type(*x).dims) {
    const bool touched = draft.one_in(2);
    interior.push_back(touched && draft.one_in(4) ? draft.between(1, 2) : 0);
    const std::int64_t full = extent + std::max<std::int64_t>(extent - 1, 0) * interior.back();
    low.push_back(touched ? draft.between(-2, 3) : 0);
    high.push_back(std::max(touched ? draft.between(-2, 3) : 0, -full - low.back()));
    elements *= full + low.back() + high.back();
  }
  if (!draft.fits(elements)) return;
  const graph::DType dtype = draft.type(*x).dtype;
  const auto fill = draft.find([&](Value v) { return draft.rank(v) == 0 && draft.type(v).dtype == dtype; });
  draft.note(draft.builder().pad(*x, fill ? *fill : draft.scalar(dtype), low, high, interior));
}

void draw_reverse(GraphDraft& draft) {
  const auto x = with_dimensions(draft);
  if (x) draft.note(draft.builder().reverse(*x, draft.some_of(draft.rank(*x))));
}

void draw_concatenate(GraphDraft& draft) {
  const auto x = with_dimensions(draft);
  if (!x) return;
  const std::int64_t along = draft.below(draft.rank(*x));
  std::vector<Value> parts = {*x};
  std::int64_t elements = draft.type(*x).elements();
  for (std::int64_t more = draft.between(1, 3); more > 0; --more) {
    graph::TensorType type = draft.type(*x);
    if (draft.one_in(2)) type.dims[static_cast<std::size_t>(along)] = draft.between(0, 5);
    elements += type.elements();
    if (draft.fits(elements)) parts.insert(parts.begin() + draft.between(0, std::ssize(parts)), draft.of_type(type));
  }
  draft.note(draft.builder().concatenate(parts, along));
}

}  // namespace stitch::lab
