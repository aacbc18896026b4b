#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "graph/graph.h"

namespace stitch::graph {

/// A library call's convolution in the words of cuDNN ("Backend Descriptor Types", convolution and its operations):
/// input x [n, c, spatial…], filter w [k, c / groups, spatial…] and output y [n, k, spatial…], of which two are read
/// and one is made. All are sums of the same terms: for every position p of the output and r of the filter,
///
///     q = p · stride + r · dilation − pre_padding
///     forward:          y[n, k, p] = Σ_{c, r} x[n, c, q] · w[k, c, r]
///     backward data:    x[n, c, q] = Σ_{k, r} y[n, k, p] · w[k, c, r]
///     backward filter:  w[k, c, r] = Σ_{n, p} y[n, k, p] · x[n, c, q]
///
/// where x outside of its extents is zero, and the channel c of a filter belongs to the group of its k. What is made is
/// multiplied by `scale`, gets addend and bias, and is activated.
struct StridedConvolution {
  enum class Kind : std::uint8_t { forward, backward_data, backward_filter };

  /// Memory. Extents and strides have an entry for each dimension, strides count elements and are positive.
  struct Tensor {
    int parameter = -1;  ///< of the call's graph; -1: its result
    DType dtype = DType::f32;
    std::int64_t offset = 0;  ///< elements
    Dims extents, strides;

    /// Bytes from an address that is aligned like a buffer to the first element.
    [[nodiscard]] std::int64_t offset_bytes() const { return offset * byte_size(dtype); }
    bool operator==(const Tensor&) const = default;
  };
  Kind kind = Kind::forward;
  Tensor input, filter, output;
  /// Per spatial dimension, of which there are two or three: one of extent 1 stands before the only one of a sequence.
  Dims pre_padding, post_padding, strides, dilation;
  /// The filter is read backwards (a convolution in mathematics' sense, not a cross-correlation).
  bool flipped = false;
  std::int64_t groups = 1;
  std::optional<Tensor> addend;  ///< extents of what is made
  std::optional<Tensor> bias;    ///< extents 1 where it is repeated
  double scale = 1;
  bool relu = false;
  DType accumulation = DType::f32;  ///< what terms are summed in, and the epilogue computes in
  bool tf32 = false;                ///< operands of f32 may be rounded to TF32
  bool deterministic = false;       ///< sums in an order that is the same every time

  /// What is made.
  [[nodiscard]] const Tensor& result() const;
  /// Whether it has no elements.
  [[nodiscard]] bool is_empty() const;
};

/// What a call's graph (api::ProgramCall) asks of cuDNN. A convolution whose input is dilated, or whose filter is read
/// backwards, is a gradient with respect to data; one with groups of images, or whose features lie outside of its
/// images in memory, is one with respect to a filter. Error: unsupported, with what cuDNN has no words for: input and
/// window dilated at once, layouts that no strides describe, repeated operands, more than three spatial dimensions,
/// integers, unlike types.
Result<StridedConvolution> describe_convolution(const Graph& call);

}  // namespace stitch::graph
