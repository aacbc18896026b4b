#include "graph/calls/strided_convolution.h"

#include <algorithm>
#include <limits>

#include "graph/calls/call_epilogue.h"
#include "graph/f32_products.h"

namespace stitch::graph {
namespace {

/// An operand, seen through layouts.
struct ConvolutionOperand {
  StridedView view;
  std::vector<std::size_t> dims;  ///< for each of the operand's dimensions, the view's
  std::vector<bool> reversed;     ///< likewise
};

/// Transposes and reversals stand before what StridedView knows.
ConvolutionOperand operand_of(const Graph& call, Value value) {
  const std::size_t rank = call.type(value).dims.size();
  ConvolutionOperand operand{{}, {}, std::vector<bool>(rank, false)};
  for (std::size_t d = 0; d < rank; ++d) operand.dims.push_back(d);
  while (true) {
    const Node& node = call.node(value.node);
    if (node.op == Op::transpose) {
      for (std::size_t& d : operand.dims) d = node.as<TransposeAttributes>().permutation[d];
    } else if (node.op == Op::reverse) {
      for (std::size_t d = 0; d < rank; ++d) {
        if (contains(node.as<ReverseAttributes>().dimensions, operand.dims[d]))
          operand.reversed[d] = !operand.reversed[d];
      }
    } else {
      break;
    }
    value = node.operands[0];
  }
  operand.view = view_of(call, value);
  return operand;
}

/// The one stride of some digits; nothing for a dimension of one element.
Result<std::optional<std::int64_t>> stride_of(const Digits& digits) {
  Digits kept;
  for (const StridedView::Digit& digit : digits) {
    if (digit.extent != 1) kept.push_back(digit);
  }
  kept = collapsed(kept);
  if (kept.empty()) return std::optional<std::int64_t>();
  if (kept.size() > 1) return make_error(ErrorKind::unsupported, "layouts that no strides describe");
  return std::optional(kept[0].stride);
}

/// Strides must be positive, those of single elements, too: they get those that a packed tensor has there, with its
/// channels first or last as the others say.
void give_strides(StridedConvolution::Tensor& tensor, const std::vector<std::optional<std::int64_t>>& known) {
  const std::size_t rank = known.size();
  std::int64_t least = std::numeric_limits<std::int64_t>::max();  // of spatial dimensions
  for (std::size_t d = 2; d < rank; ++d) least = std::min(least, known[d].value_or(least));
  const bool channels_last = known[1] && (*known[1] == 1 || *known[1] < least);
  tensor.strides.assign(rank, 1);
  std::int64_t end = channels_last ? *known[1] * tensor.extents[1] : 1;
  for (std::size_t d = rank; d-- > 2;) {
    tensor.strides[d] = known[d].value_or(end);
    end = std::max(end, tensor.strides[d] * tensor.extents[d]);
  }
  tensor.strides[1] = known[1].value_or(end);
  tensor.strides[0] = known[0].value_or(std::max(end, tensor.strides[1] * tensor.extents[1]));
}

Dims joined_dims(std::int64_t first, std::int64_t second, const Dims& spatial) {
  Dims all = {first, second};
  all.insert(all.end(), spatial.begin(), spatial.end());
  return all;
}

bool all_are(const Dims& values, std::int64_t wanted) {
  return std::ranges::all_of(values, [&](std::int64_t value) { return value == wanted; });
}

/// The spatial part of a convolution of XLA's: what it makes at p is the sum over r of the input, dilated, at
/// p · strides + r · dilation − low.
struct ConvolutionWindow {
  Dims input, kernel, output;  ///< extents
  Dims strides, dilation, input_dilation, low;
  std::vector<bool> reversed;  ///< of the kernel's dimensions

  [[nodiscard]] std::size_t rank() const { return input.size(); }
};

class ConvolutionDescription {
  using Kind = StridedConvolution::Kind;
  using Tensor = StridedConvolution::Tensor;

 public:
  explicit ConvolutionDescription(const Graph& call) : call_(call) {}

  Result<StridedConvolution> describe() {
    STITCH_ASSIGN(root_, root_of_call(call_));
    const Node& root = call_.node(root_);
    if (root.op != Op::convolution) return make_error(ErrorKind::unsupported, "a dot is no convolution");
    how_ = &root.as<ConvolutionAttributes>();
    if (how_->input_spatial.size() > 3)
      return make_error(ErrorKind::unsupported, "a convolution of {} spatial dimensions", how_->input_spatial.size());
    out_.accumulation = root.type().dtype == DType::f64 ? DType::f64 : DType::f32;
    out_.tf32 = call_.constraints.tf32 && is_f32_product(call_, root);
    out_.deterministic = call_.constraints.fixes_order();
    if (root.type().elements() == 0) {
      out_.output.extents = {0};
      return std::move(out_);
    }
    operands_ = {operand_of(call_, root.operands[0]), operand_of(call_, root.operands[1])};
    STITCH_TRY(set_window());
    STITCH_TRY(read_tensors());
    STITCH_TRY(assign_roles());
    add_missing_dimensions();
    return std::move(out_);
  }

 private:
  Status set_window() {
    const Dims &in = dims_of(0), &kernel = dims_of(1), &out = call_.node(root_).type().dims;
    for (std::size_t s = 0; s < how_->input_spatial.size(); ++s) {
      window_.input.push_back(in[how_->input_spatial[s]]);
      window_.kernel.push_back(kernel[how_->kernel_spatial[s]]);
      window_.output.push_back(out[how_->output_spatial[s]]);
      const bool by_attribute = s < how_->window_reversal.size() && how_->window_reversal[s];
      window_.reversed.push_back(by_attribute != operands_[1].reversed[how_->kernel_spatial[s]]);
    }
    window_.strides = how_->strides;
    window_.dilation = how_->kernel_dilation;
    window_.input_dilation = how_->input_dilation;
    window_.low = how_->low;
    const std::vector<bool>& filter = operands_[1].reversed;
    if (filter[how_->kernel_input_feature] || filter[how_->kernel_output_feature] ||
        std::ranges::count(operands_[0].reversed, true) > 0)
      return make_error(ErrorKind::unsupported, "an operand that is read backwards");
    return {};
  }

  [[nodiscard]] const Dims& dims_of(int operand) const { return call_.type(call_.node(root_).operands[operand]).dims; }

  /// An operand with its dimensions in the order in which cuDNN has those of the role that it plays.
  Result<Tensor> tensor_of(int number, const Dims& order) const {
    const ConvolutionOperand& operand = operands_[number];
    Tensor tensor;
    STITCH_ASSIGN(tensor.parameter, parameter_of(call_, operand.view));
    tensor.dtype = call_.type(operand.view.source).dtype;
    tensor.offset = operand.view.offset;
    std::vector<std::optional<std::int64_t>> strides;
    for (const std::int64_t d : order) {
      tensor.extents.push_back(dims_of(number)[d]);
      STITCH_ASSIGN(strides.emplace_back(), stride_of(operand.view.dims[operand.dims[d]]));
      if (strides.back() == 0) return make_error(ErrorKind::unsupported, "an operand that repeats elements");
    }
    give_strides(tensor, strides);
    return tensor;
  }

  /// What stands behind the root, as a tensor of its dimensions in `order`; extents are 1 where elements repeat.
  Result<Tensor> tensor_of(const CallEpilogue::Tensor& from, const Dims& order) const {
    const Dims& dims = call_.node(root_).type().dims;
    Tensor tensor{from.parameter, from.dtype, from.offset, {}, {}};
    std::vector<Digits> parts(dims.size());
    std::size_t next = 0;
    Digits walk = from.walk;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      for (std::int64_t left = dims[d]; left > 1;) {
        StridedView::Digit& digit = walk[next];
        const std::int64_t taken = std::min(left, digit.extent);
        if (left % taken != 0 || digit.extent % taken != 0)
          return make_error(ErrorKind::unsupported, "layouts that no strides describe");
        parts[d].push_back({taken, digit.stride * (digit.extent / taken)});
        left /= taken;
        digit.extent /= taken;
        if (digit.extent == 1) ++next;
      }
    }
    std::vector<std::optional<std::int64_t>> strides;
    for (const std::int64_t d : order) {
      STITCH_ASSIGN(strides.emplace_back(), stride_of(parts[d]));
      const bool repeats = strides.back() == 0;
      if (repeats) strides.back().reset();
      tensor.extents.push_back(repeats ? 1 : dims[d]);
    }
    give_strides(tensor, strides);
    return tensor;
  }

  /// Chooses what the convolution is, and reads all tensors as that has them.
  Status read_tensors() {
    choose_kind();
    const Dims image = joined_dims(how_->input_batch, how_->input_feature, how_->input_spatial);
    const Dims made = joined_dims(how_->output_batch, how_->output_feature, how_->output_spatial);
    const auto turned = [](Dims order) {
      std::swap(order[0], order[1]);
      return order;
    };
    const Dims by_output = joined_dims(how_->kernel_output_feature, how_->kernel_input_feature, how_->kernel_spatial);
    STITCH_ASSIGN(const CallEpilogue epilogue, read_epilogue(call_, root_, StridedView::of(call_, {root_, 0})));
    Dims order = made;
    if (out_.kind == Kind::forward) {
      STITCH_ASSIGN(out_.input, tensor_of(0, image));
      STITCH_ASSIGN(out_.filter, tensor_of(1, by_output));
      STITCH_ASSIGN(out_.output, tensor_of(epilogue.result, order));
    } else if (out_.kind == Kind::backward_data) {
      STITCH_ASSIGN(out_.output, tensor_of(0, image));
      STITCH_ASSIGN(out_.filter, tensor_of(1, turned(by_output)));
      STITCH_ASSIGN(out_.input, tensor_of(epilogue.result, order));
    } else {
      // Sums run over images: they are what the convolution calls features, and the other way round.
      order = turned(made);
      STITCH_ASSIGN(out_.input, tensor_of(0, turned(image)));
      STITCH_ASSIGN(out_.output, tensor_of(1, turned(by_output)));
      STITCH_ASSIGN(out_.filter, tensor_of(epilogue.result, order));
    }
    STITCH_TRY(check_call_types(call_.type(operands_[0].view.source).dtype, call_.type(operands_[1].view.source).dtype,
                                out_.accumulation, epilogue, "a convolution"));
    out_.scale = epilogue.scale;
    out_.relu = epilogue.relu;
    if (epilogue.addend) {
      STITCH_ASSIGN(out_.addend, tensor_of(*epilogue.addend, order));
    }
    if (epilogue.bias) {
      STITCH_ASSIGN(out_.bias, tensor_of(*epilogue.bias, order));
    }
    return {};
  }

  void choose_kind() {
    bool backwards = false;  // wherever that makes a difference
    for (std::size_t s = 0; s < window_.rank(); ++s)
      backwards = backwards || (reversal_matters(s) && window_.reversed[s]);
    const bool plain = how_->feature_groups == 1 && all_are(window_.input_dilation, 1);
    if (plain && !backwards && (how_->batch_groups > 1 || sums_over_images())) {
      out_.kind = Kind::backward_filter;
    } else if (!all_are(window_.input_dilation, 1) || (backwards && all_are(window_.strides, 1) && covers_padding())) {
      out_.kind = Kind::backward_data;
    }
  }

  /// A filter's gradient calls images features, and features images: in memory images lie outside, and so what is
  /// called features does. Where that is not seen, its window is larger than what it makes, and steps by one.
  [[nodiscard]] bool sums_over_images() const {
    const auto stride = [&](std::int64_t dimension) {
      const auto found = stride_of(operands_[0].view.dims[operands_[0].dims[dimension]]);
      return found ? *found : std::optional<std::int64_t>();
    };
    const auto features = stride(how_->input_feature), images = stride(how_->input_batch);
    if (features && images) return *features > *images;
    return all_are(window_.strides, 1) && element_count(window_.kernel) > element_count(window_.output);
  }

  [[nodiscard]] bool reversal_matters(std::size_t s) const { return window_.kernel[s] > 1; }
  /// Whether the window reaches all that is made from the input: a gradient's padding is what its convolution's window
  /// does not have, and what no term reached would have to be made zero.
  [[nodiscard]] bool covers_padding() const {
    for (std::size_t s = 0; s < window_.rank(); ++s) {
      const std::int64_t dilated = (window_.input[s] - 1) * window_.input_dilation[s];
      if (window_.low[s] > reach(s) || window_.output[s] - window_.low[s] - dilated > window_.input_dilation[s])
        return false;
    }
    return true;
  }
  /// From the window's first position to its last.
  [[nodiscard]] std::int64_t reach(std::size_t s) const { return (window_.kernel[s] - 1) * window_.dilation[s]; }

  /// Strides, padding and groups, as the chosen kind has them.
  Status assign_roles() {
    if (std::ranges::count(dims_of(0), 0) > 0 || std::ranges::count(dims_of(1), 0) > 0)
      return make_error(ErrorKind::unsupported, "a sum of nothing");
    if (how_->batch_groups > 1 && out_.kind != Kind::backward_filter)
      return make_error(ErrorKind::unsupported, "groups of images in a convolution that is no filter's gradient");
    out_.groups = std::max(how_->feature_groups, how_->batch_groups);
    if (out_.kind == Kind::forward) return be_forward();
    return out_.kind == Kind::backward_data ? be_backward_data() : be_backward_filter();
  }

  /// One direction for all dimensions; a window of one element has both. `backwards`: which of them is the plain one.
  Status set_flipped(bool backwards) {
    bool any = false, all = true;
    for (std::size_t s = 0; s < window_.rank(); ++s) {
      if (!reversal_matters(s)) continue;
      const bool differs = window_.reversed[s] != backwards;
      any = any || differs;
      all = all && differs;
    }
    if (any && !all) return make_error(ErrorKind::unsupported, "a window that is read backwards in some dimensions");
    out_.flipped = any;
    return {};
  }

  /// Sets what follows from the positions that output and filter have. Negative padding leaves out a part of the input,
  /// which moves where it begins.
  Status set_padding(const Dims& pre) {
    for (std::size_t s = 0; s < pre.size(); ++s) {
      const std::int64_t reached = (out_.output.extents[s + 2] - 1) * out_.strides[s] +
                                   (out_.filter.extents[s + 2] - 1) * out_.dilation[s] + 1;  // of the padded input
      std::int64_t& extent = out_.input.extents[s + 2];
      std::int64_t before = pre[s], after = reached - before - extent;
      if (before < 0) {
        out_.input.offset -= before * out_.input.strides[s + 2];
        extent += before;
        before = 0;
      }
      // An end that no window fits into any more is left out by itself.
      if (after < 0) {
        if (after <= -out_.strides[s]) extent += after;
        after = 0;
      }
      if (extent <= 0) return make_error(ErrorKind::unsupported, "a convolution of padding alone");
      out_.pre_padding.push_back(before);
      out_.post_padding.push_back(after);
    }
    return {};
  }

  Status be_forward() {
    STITCH_TRY(set_flipped(false));
    out_.strides = window_.strides;
    out_.dilation = window_.dilation;
    return set_padding(window_.low);
  }

  /// i · input_dilation = q − low + r' · dilation, where r' counts backwards: the stride is the input's dilation.
  Status be_backward_data() {
    if (!all_are(window_.strides, 1))
      return make_error(ErrorKind::unsupported, "a convolution with strides of a dilated input");
    if (!covers_padding())
      return make_error(ErrorKind::unsupported, "a dilated input with more padding than its window reaches");
    STITCH_TRY(set_flipped(true));
    STITCH_TRY(regroup_filter());
    out_.strides = window_.input_dilation;
    out_.dilation = window_.dilation;
    Dims pre;
    for (std::size_t s = 0; s < window_.rank(); ++s) pre.push_back(reach(s) - window_.low[s]);
    return set_padding(pre);
  }

  /// The filter's outputs are the convolution's inputs here, of which the kernel has those of one group: they step from
  /// group to group as its outputs do.
  Status regroup_filter() {
    if (out_.groups == 1) return {};
    Tensor& filter = out_.filter;
    const std::int64_t inputs = filter.extents[0], outputs = filter.extents[1] / out_.groups;
    const std::int64_t across = outputs * filter.strides[1];
    if (inputs > 1 && filter.strides[0] * inputs != across)
      return make_error(ErrorKind::unsupported, "groups of a filter that no strides describe");
    if (inputs == 1) filter.strides[0] = across;
    filter.extents[0] = inputs * out_.groups;
    filter.extents[1] = outputs;
    return {};
  }

  /// What the window steps by is how far the filter's elements are apart, and the other way round.
  Status be_backward_filter() {
    out_.strides = window_.dilation;
    out_.dilation = window_.strides;
    return set_padding(window_.low);
  }

  /// A convolution of a sequence is one of images of one line.
  void add_missing_dimensions() {
    while (out_.input.extents.size() < 4) {
      for (Tensor* tensor : {&out_.input, &out_.filter, &out_.output}) add_dimension(*tensor);
      for (std::optional<Tensor>* tensor : {&out_.addend, &out_.bias}) {
        if (*tensor) add_dimension(**tensor);
      }
      for (Dims* each : {&out_.pre_padding, &out_.post_padding}) each->insert(each->begin(), 0);
      for (Dims* each : {&out_.strides, &out_.dilation}) each->insert(each->begin(), 1);
    }
  }
  static void add_dimension(Tensor& tensor) {
    std::int64_t line = tensor.strides[1];
    if (tensor.extents.size() > 2) line = std::max(line, tensor.strides[2] * tensor.extents[2]);
    tensor.extents.insert(tensor.extents.begin() + 2, 1);
    tensor.strides.insert(tensor.strides.begin() + 2, line);
  }

  const Graph& call_;
  NodeId root_ = -1;
  const ConvolutionAttributes* how_ = nullptr;
  std::vector<ConvolutionOperand> operands_;
  ConvolutionWindow window_;
  StridedConvolution out_;
};

}  // namespace

const StridedConvolution::Tensor& StridedConvolution::result() const {
  return kind == Kind::forward ? output : kind == Kind::backward_data ? input : filter;
}

bool StridedConvolution::is_empty() const { return std::ranges::count(result().extents, 0) > 0; }

Result<StridedConvolution> describe_convolution(const Graph& call) { return ConvolutionDescription(call).describe(); }

}  // namespace stitch::graph
