// Convolutions, plain and transposed, and their gradients.
#include <fmt/format.h>

#include "import/aten/rules.h"
#include "import/convolutions.h"
#include "import/emit.h"

namespace stitch::import::aten {
namespace {

/// A list of one entry, or of one for each dimension, whose entries are not beyond what any tensor could need.
Dims per_dimension(Call& c, std::string_view name, std::size_t count, std::int64_t least) {
  Dims list = c.integers(name);
  if (list.size() == 1) list.resize(count, list[0]);
  bool right = list.size() == count;
  for (const std::int64_t entry : list) right = right && entry >= least && entry <= (std::int64_t{1} << 31);
  if (right) return list;
  c.wrong(name, fmt::format("{} integers from {} to 2^31", count, least));
  return Dims(count, least);
}

/// What a convolution's arguments say besides its tensors.
struct Form {
  Window window;
  bool transposed = false;
  Dims padding;  ///< of a transposed one's result
  std::int64_t groups = 1;
};

/// Nothing where an argument is wrong, which the builder then knows.
std::optional<Form> form_of(Call& c, Value weight) {
  const Dims& kernel = c.b.dims(weight);
  if (kernel.size() < 3) {
    c.wrong("weight", "a tensor of at least 3 dimensions");
    return std::nullopt;
  }
  const std::size_t count = kernel.size() - 2;
  Form form;
  form.window.sizes.assign(kernel.begin() + 2, kernel.end());
  form.window.strides = per_dimension(c, "stride", count, 1);
  form.window.low = form.window.high = per_dimension(c, "padding", count, 0);
  form.window.dilations = per_dimension(c, "dilation", count, 1);
  form.transposed = c.flag("transposed", false);
  form.padding = form.transposed ? per_dimension(c, "output_padding", count, 0) : Dims(count, 0);
  form.groups = c.integer("groups", 1);
  if (form.groups < 1 || kernel[0] % form.groups != 0) c.wrong("groups", "a divisor of the weight's first extent");
  if (c.b.failed()) return std::nullopt;
  return form;
}

bool has_rank_of(Call& c, std::string_view name, Value value, Value weight) {
  if (c.b.dims(value).size() == c.b.dims(weight).size()) return true;
  c.wrong(name, "a tensor of as many dimensions as the weight");
  return false;
}

}  // namespace

Values convolution(Call& c) {
  Builder& b = c.b;
  const Value x = c.tensor("input"), weight = c.tensor("weight");
  const std::optional<Form> form = form_of(c, weight);
  if (!form || !has_rank_of(c, "input", x, weight)) return {x};
  const Value y = form->transposed ? transposed_convolution(b, x, weight, form->window, form->padding, form->groups)
                                   : import::convolution(b, x, weight, form->window, form->groups);
  return {c.has("bias") ? with_bias(b, y, c.tensor("bias")) : y};
}

/// Results: the gradients of input, weight and bias. One that output_mask does not ask for is computed like the others;
/// where nobody reads it, it is gone.
Values convolution_backward(Call& c) {
  Builder& b = c.b;
  const Value gradient = c.tensor("grad_output"), x = c.tensor("input"), weight = c.tensor("weight");
  const std::optional<Form> form = form_of(c, weight);
  if (!form || !has_rank_of(c, "input", x, weight) || !has_rank_of(c, "grad_output", gradient, weight)) return {x};
  const Window& window = form->window;
  Values results;
  if (form->transposed) {
    results.push_back(import::convolution(b, gradient, weight, window, form->groups));
    results.push_back(convolution_of_weights(b, gradient, x, window, form->groups));
  } else {
    // What the windows of the forward pass did not reach at the end of the input has a gradient of zero.
    Dims rest;
    for (std::size_t d = 0; d < window.sizes.size(); ++d) {
      const std::int64_t reached = (b.dims(gradient)[d + 2] - 1) * window.strides[d] + window.span(d);
      rest.push_back(b.dims(x)[d + 2] + window.low[d] + window.high[d] - reached);
    }
    results.push_back(transposed_convolution(b, gradient, weight, window, rest, form->groups));
    results.push_back(convolution_of_weights(b, x, gradient, window, form->groups));
  }
  const Dims all_but_features = emit::other_axes(c.rank(gradient), {1});
  results.push_back(b.reduce(ReduceKind::sum, emit::widen(b, gradient), all_but_features));
  return results;
}

}  // namespace stitch::import::aten
