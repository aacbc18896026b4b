#include "library/convolution_operations.h"

#include <numeric>
#include <optional>

#include "library/call_memory.h"

namespace stitch::library {
namespace {

namespace dnn = cuda::dnn;
using dnn::Attribute;
using dnn::AttributeType;
using dnn::Descriptor;
using dnn::DescriptorType;
using graph::StridedConvolution;
using Kind = StridedConvolution::Kind;

Result<dnn::DataType> cudnn_type(graph::DType dtype) {
  switch (dtype) {
    case graph::DType::f64: return dnn::DataType::f64;
    case graph::DType::f32: return dnn::DataType::f32;
    case graph::DType::f16: return dnn::DataType::f16;
    case graph::DType::bf16: return dnn::DataType::bf16;
    default: return make_error(ErrorKind::unsupported, "a convolution of {}", to_string(dtype));
  }
}

/// How an operation of cuDNN's names its parts.
struct OperationNames {
  DescriptorType type;
  Attribute alpha, beta, convolution, x, w, y;
};

OperationNames names_of(Kind kind) {
  switch (kind) {
    case Kind::backward_data:
      return {DescriptorType::convolution_backward_data,
              Attribute::backward_data_alpha,
              Attribute::backward_data_beta,
              Attribute::backward_data_convolution,
              Attribute::backward_data_dx,
              Attribute::backward_data_w,
              Attribute::backward_data_dy};
    case Kind::backward_filter:
      return {DescriptorType::convolution_backward_filter,
              Attribute::backward_filter_alpha,
              Attribute::backward_filter_beta,
              Attribute::backward_filter_convolution,
              Attribute::backward_filter_x,
              Attribute::backward_filter_dw,
              Attribute::backward_filter_dy};
    case Kind::forward: break;
  }
  return {DescriptorType::convolution_forward,
          Attribute::forward_alpha,
          Attribute::forward_beta,
          Attribute::forward_convolution,
          Attribute::forward_x,
          Attribute::forward_w,
          Attribute::forward_y};
}

class OperationsBuilder {
 public:
  OperationsBuilder(const dnn::Api& api, dnn::Handle handle, const StridedConvolution& how, bool onto_result)
      : api_(api), handle_(handle), how_(how), onto_result_(onto_result) {}

  Result<ConvolutionOperations> build() {
    STITCH_ASSIGN(compute_, cudnn_type(how_.accumulation));
    std::vector<const StridedConvolution::Tensor*> operands;  // null: ReLU
    if (how_.addend && !onto_result_) operands.push_back(&*how_.addend);
    if (how_.bias) operands.push_back(&*how_.bias);
    if (how_.relu) operands.push_back(nullptr);
    STITCH_TRY(add_convolution(operands.empty()));
    for (std::size_t o = 0; o < operands.size(); ++o)
      STITCH_TRY(add_pointwise(operands[o], o == 0 ? how_.scale : 1, o + 1 == operands.size()));
    STITCH_ASSIGN(Descriptor graph, Descriptor::make(api_, DescriptorType::operation_graph));
    if (handle_ != nullptr) STITCH_TRY(graph.set(Attribute::graph_handle, handle_));
    std::vector<dnn::DescriptorPointer> pointers;
    for (const Descriptor& operation : operations_) pointers.push_back(operation.pointer());
    STITCH_TRY(
        graph.set(Attribute::graph_operations, AttributeType::descriptor, std::ssize(pointers), pointers.data()));
    STITCH_TRY(graph.finalize());
    return ConvolutionOperations{std::move(graph), std::move(tensors_)};
  }

 private:
  /// In memory, or between two operations, where it has the type of the sums.
  Result<Descriptor> tensor(const StridedConvolution::Tensor& from, bool in_memory) {
    const std::int64_t id = next_id_++;
    STITCH_ASSIGN(Descriptor made, Descriptor::make(api_, DescriptorType::tensor));
    STITCH_ASSIGN(const dnn::DataType stored, cudnn_type(from.dtype));
    const std::int64_t alignment = std::gcd<std::int64_t>(operand_alignment, from.offset_bytes());
    STITCH_TRY(made.set(Attribute::tensor_unique_id, id));
    STITCH_TRY(made.set(Attribute::tensor_data_type, in_memory ? stored : compute_));
    STITCH_TRY(made.set(Attribute::tensor_byte_alignment, in_memory ? alignment : std::int64_t{operand_alignment}));
    STITCH_TRY(made.set(Attribute::tensor_dimensions, from.extents));
    STITCH_TRY(made.set(Attribute::tensor_strides, from.strides));
    STITCH_TRY(made.set(Attribute::tensor_is_virtual, !in_memory));
    STITCH_TRY(made.finalize());
    if (in_memory) tensors_.push_back({id, from.parameter, from.offset_bytes()});
    return made;
  }

  Status set_scalar(Descriptor& of, Attribute attribute, double value) const {
    if (compute_ == dnn::DataType::f64) return of.set(attribute, AttributeType::f64, 1, &value);
    const auto single = static_cast<float>(value);
    return of.set(attribute, AttributeType::f32, 1, &single);
  }

  Status add_convolution(bool last) {
    STITCH_ASSIGN(Descriptor how, Descriptor::make(api_, DescriptorType::convolution));
    const auto mode = how_.flipped ? dnn::ConvolutionMode::convolution : dnn::ConvolutionMode::cross_correlation;
    STITCH_TRY(how.set(Attribute::convolution_compute_type, compute_));
    STITCH_TRY(how.set(Attribute::convolution_mode, AttributeType::convolution_mode, 1, &mode));
    STITCH_TRY(how.set(Attribute::convolution_spatial_dims, std::int64_t{std::ssize(how_.strides)}));
    STITCH_TRY(how.set(Attribute::convolution_dilations, how_.dilation));
    STITCH_TRY(how.set(Attribute::convolution_strides, how_.strides));
    STITCH_TRY(how.set(Attribute::convolution_pre_paddings, how_.pre_padding));
    STITCH_TRY(how.set(Attribute::convolution_post_paddings, how_.post_padding));
    STITCH_TRY(how.finalize());
    const OperationNames names = names_of(how_.kind);
    STITCH_ASSIGN(Descriptor x, tensor(how_.input, last || how_.kind != Kind::backward_data));
    STITCH_ASSIGN(Descriptor w, tensor(how_.filter, last || how_.kind != Kind::backward_filter));
    STITCH_ASSIGN(Descriptor y, tensor(how_.output, last || how_.kind != Kind::forward));
    STITCH_ASSIGN(Descriptor operation, Descriptor::make(api_, names.type));
    STITCH_TRY(set_scalar(operation, names.alpha, last ? how_.scale : 1));
    STITCH_TRY(set_scalar(operation, names.beta, onto_result_ ? 1 : 0));
    STITCH_TRY(operation.set(names.convolution, how));
    STITCH_TRY(operation.set(names.x, x));
    STITCH_TRY(operation.set(names.w, w));
    STITCH_TRY(operation.set(names.y, y));
    STITCH_TRY(operation.finalize());
    operations_.push_back(std::move(operation));
    made_ = how_.kind == Kind::forward ? std::move(y) : how_.kind == Kind::backward_data ? std::move(x) : std::move(w);
    return {};
  }

  /// Adds `operand` to what was made before, or, where there is none, cuts it off at zero.
  Status add_pointwise(const StridedConvolution::Tensor* operand, double scale, bool last) {
    STITCH_ASSIGN(Descriptor how, Descriptor::make(api_, DescriptorType::pointwise));
    const auto mode = operand != nullptr ? dnn::PointwiseMode::add : dnn::PointwiseMode::relu;
    STITCH_TRY(how.set(Attribute::pointwise_mode, AttributeType::pointwise_mode, 1, &mode));
    STITCH_TRY(how.set(Attribute::pointwise_math_type, compute_));
    if (operand == nullptr) {
      const auto nan = dnn::NanPropagation::propagate;  // as docs/ir.md has maximum
      STITCH_TRY(how.set(Attribute::pointwise_nan_propagation, AttributeType::nan_propagation, 1, &nan));
    }
    STITCH_TRY(how.finalize());
    STITCH_ASSIGN(Descriptor operation, Descriptor::make(api_, DescriptorType::operation_pointwise));
    STITCH_TRY(operation.set(Attribute::operation_pointwise, how));
    STITCH_TRY(operation.set(Attribute::pointwise_x, *made_));
    if (scale != 1) STITCH_TRY(set_scalar(operation, Attribute::pointwise_alpha1, scale));
    if (operand != nullptr) {
      STITCH_ASSIGN(const Descriptor b, tensor(*operand, true));
      STITCH_TRY(operation.set(Attribute::pointwise_b, b));
    }
    STITCH_ASSIGN(Descriptor y, tensor(how_.result(), last));
    STITCH_TRY(operation.set(Attribute::pointwise_y, y));
    STITCH_TRY(operation.finalize());
    operations_.push_back(std::move(operation));
    made_ = std::move(y);
    return {};
  }

  const dnn::Api& api_;
  const dnn::Handle handle_;
  const StridedConvolution& how_;
  const bool onto_result_;
  dnn::DataType compute_ = dnn::DataType::f32;
  std::int64_t next_id_ = 1;
  std::vector<Descriptor> operations_;
  std::optional<Descriptor> made_;  ///< what the operations so far make
  std::vector<ConvolutionOperations::Tensor> tensors_;
};

}  // namespace

Result<ConvolutionOperations> describe_operations(const dnn::Api& api, dnn::Handle handle,
                                                  const StridedConvolution& convolution, bool onto_result) {
  return OperationsBuilder(api, handle, convolution, onto_result).build();
}

}  // namespace stitch::library
