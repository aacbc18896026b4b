#pragma once

#include "import/onnx/call.h"

/// The rules, by operator family; each family is one source file. rules.cpp has the table that assigns them to
/// operators and versions.
namespace stitch::import::onnx {

/// An operator that is one primitive on input 0.
template <graph::Op op>
Result<Values> unary(Call& c) {
  return Values{c.b.unary(op, c.in(0))};
}

// elementwise.cpp
Result<Values> add_rule(Call&c), subtract_rule(Call&c), multiply_rule(Call&c), divide_rule(Call&c);
Result<Values> and_rule(Call&c), or_rule(Call&c), xor_rule(Call&c), bit_shift(Call&c);
Result<Values> equal(Call&c), less(Call&c), less_or_equal(Call&c), greater(Call&c), greater_or_equal(Call&c);
Result<Values> sum_rule(Call&c), max_rule(Call&c), min_rule(Call&c), mean_rule(Call&c);
Result<Values> reciprocal(Call&c), where(Call&c), mod(Call&c), pow(Call&c), is_inf(Call&c);
Result<Values> clip(Call&c), clip_attributes(Call&c);

// cast.cpp
Result<Values> cast(Call&c), cast_like(Call&c), bit_cast(Call&c);

// activation.cpp
Result<Values> relu(Call&c), leaky_relu(Call&c), prelu(Call&c), elu(Call&c), celu(Call&c), selu(Call&c);
Result<Values> thresholded_relu(Call&c), shrink(Call&c), hard_sigmoid(Call&c), hard_swish(Call&c), swish(Call&c);
Result<Values> softplus(Call&c), softsign(Call&c), mish(Call&c), gelu(Call&c), quick_gelu(Call&c);
Result<Values> bias_gelu(Call&c), dropout(Call&c);

// shape.cpp
Result<Values> identity(Call&c), constant_rule(Call&c), shape(Call&c), size(Call&c), constant_of_shape(Call&c);
Result<Values> range(Call&c), eye_like(Call&c);

// layout.cpp, pad.cpp
Result<Values> reshape(Call&c), flatten(Call&c), squeeze(Call&c), unsqueeze(Call&c), transpose(Call&c);
Result<Values> expand(Call&c), tile(Call&c), concat(Call&c), split(Call&c), slice(Call&c);
Result<Values> depth_to_space(Call&c), space_to_depth(Call&c), trilu(Call&c), pad(Call&c), center_crop_pad(Call&c);

// indexing.cpp
Result<Values> gather(Call&c), gather_elements(Call&c), gather_nd(Call&c), scatter_nd(Call&c);
Result<Values> scatter_elements(Call&c), one_hot(Call&c), compress(Call&c), reverse_sequence(Call&c);
/// x with the first lengths[i] steps of every sequence i in reverse order, the others in place.
Value reverse_within(graph::Builder& b, Value x, Value lengths, std::int64_t batch, std::int64_t time);

// reduction.cpp
Result<Values> reduce_sum(Call&c), reduce_product(Call&c), reduce_max(Call&c), reduce_min(Call&c);
Result<Values> reduce_mean(Call&c), reduce_l1(Call&c), reduce_l2(Call&c), reduce_sum_square(Call&c);
Result<Values> reduce_log_sum(Call&c), reduce_log_sum_exp(Call&c), arg_max(Call&c), arg_min(Call&c);
Result<Values> cum_sum(Call&c), cum_prod(Call&c);

// normalization.cpp
Result<Values> layer_normalization(Call&c), rms_normalization(Call&c), skip_layer_normalization(Call&c);
Result<Values> instance_normalization(Call&c), group_normalization(Call&c), batch_normalization(Call&c);
Result<Values> mean_variance_normalization(Call&c), lp_normalization(Call&c), lrn(Call&c);
Result<Values> softmax(Call&c), log_softmax(Call&c), hardmax(Call&c);
Value softmax_of(graph::Builder& b, Value x, std::int64_t axis);
Value log_softmax_of(graph::Builder& b, Value x, std::int64_t axis);

// matrix.cpp, einsum.cpp
Result<Values> matmul(Call&c), fused_matmul(Call&c), matmul_integer(Call&c), qlinear_matmul(Call&c), gemm(Call&c);
Result<Values> einsum(Call& c);

// convolution.cpp, pooling.cpp
Result<Values> conv(Call&c), conv_transpose(Call&c), conv_integer(Call&c), qlinear_conv(Call&c);
Result<Values> max_pool(Call&c), average_pool(Call&c), lp_pool(Call&c), max_unpool(Call&c);
Result<Values> global_average_pool(Call&c), global_max_pool(Call&c), global_lp_pool(Call&c);

// attention.cpp
Result<Values> attention(Call&c), rotary_embedding(Call&c);

// recurrent.cpp
Result<Values> rnn(Call&c), gru(Call&c), lstm(Call&c);

// quantization.cpp
Result<Values> quantize_linear(Call&c), dequantize_linear(Call&c), dynamic_quantize_linear(Call&c);
/// round(scaled) + zero point, saturated to the zero point's type; the zero point broadcasts.
Value saturate_quantised(graph::Builder& b, Value scaled, Value zero_point);

// control_flow.cpp
Result<Values> if_rule(Call&c), loop_rule(Call&c), scan_rule(Call&c), scan_batched(Call&c);

// loss.cpp
Result<Values> negative_log_likelihood_loss(Call&c), softmax_cross_entropy_loss(Call&c);

// image.cpp
Result<Values> upsample(Call&c), resize(Call&c);

// signal.cpp
Result<Values> hann_window(Call&c), hamming_window(Call&c), blackman_window(Call&c), mel_weight_matrix(Call&c);

// optimizer.cpp
Result<Values> adagrad(Call&c), adam(Call&c), momentum(Call&c);

// random.cpp, boundary.cpp: boundaries whose types follow from the inputs
Result<Values> random_of_shape(Call&c), random_like(Call&c), multinomial(Call&c);
Result<Values> top_k(Call&c), determinant(Call&c), grid_sample(Call&c), roi_align(Call&c);

}  // namespace stitch::import::onnx
