#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "graph/op.h"
#include "graph/tensor_type.h"

namespace stitch::graph {

// Each operator's attributes are a plain struct. `fields` lists a struct's members with their names once; the codec,
// the printer, hashing and tests all walk that list, so adding an attribute is one line here.

struct NoAttributes {
  template <class Self, class Visit>
  static void fields(Self&, Visit&&) {}
  bool operator==(const NoAttributes&) const = default;
};

struct ParameterAttributes {
  TensorType type;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("type", self.type);
  }
  bool operator==(const ParameterAttributes&) const = default;
};

struct ConstantAttributes {
  TensorType type;
  /// Little-endian, row-major: type.bytes() bytes, or those of one element, which all others equal (a splat: a few
  /// bytes of a message can say as many elements as they like). graph/literal.h reads both.
  std::vector<std::byte> data;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("type", self.type);
    visit("data", self.data);
  }
  bool operator==(const ConstantAttributes&) const = default;
};

struct IotaAttributes {
  TensorType type;
  std::int64_t dimension = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("type", self.type);
    visit("dimension", self.dimension);
  }
  bool operator==(const IotaAttributes&) const = default;
};

/// convert: numeric conversion, round to nearest even; floats to integers truncate and saturate, NaN gives 0.
/// bitcast_convert: same bits, dtypes of one size.
struct ConvertAttributes {
  DType dtype = DType::f32;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("dtype", self.dtype);
  }
  bool operator==(const ConvertAttributes&) const = default;
};

struct CompareAttributes {
  Comparison direction = Comparison::eq;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("direction", self.direction);
  }
  bool operator==(const CompareAttributes&) const = default;
};

/// Operand dimension i becomes result dimension mapping[i]; mapping is strictly increasing and extents agree.
struct BroadcastAttributes {
  Dims dims;
  Dims mapping;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("dims", self.dims);
    visit("mapping", self.mapping);
  }
  bool operator==(const BroadcastAttributes&) const = default;
};

struct ReshapeAttributes {
  Dims dims;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("dims", self.dims);
  }
  bool operator==(const ReshapeAttributes&) const = default;
};

/// Result dimension i is operand dimension permutation[i].
struct TransposeAttributes {
  Dims permutation;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("permutation", self.permutation);
  }
  bool operator==(const TransposeAttributes&) const = default;
};

/// Elements starts[d], starts[d] + strides[d], … below limits[d]; strides ≥ 1.
struct SliceAttributes {
  Dims starts, limits, strides;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("starts", self.starts);
    visit("limits", self.limits);
    visit("strides", self.strides);
  }
  bool operator==(const SliceAttributes&) const = default;
};

/// Operands: the tensor, then one scalar integer start per dimension, clamped so that the slice is in bounds.
struct DynamicSliceAttributes {
  Dims sizes;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("sizes", self.sizes);
  }
  bool operator==(const DynamicSliceAttributes&) const = default;
};

struct ConcatenateAttributes {
  std::int64_t dimension = 0;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("dimension", self.dimension);
  }
  bool operator==(const ConcatenateAttributes&) const = default;
};

/// Operands: the tensor, the scalar to fill with. low and high may be negative (cropping); interior ≥ 0.
struct PadAttributes {
  Dims low, high, interior;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("low", self.low);
    visit("high", self.high);
    visit("interior", self.interior);
  }
  bool operator==(const PadAttributes&) const = default;
};

struct ReverseAttributes {
  Dims dimensions;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("dimensions", self.dimensions);
  }
  bool operator==(const ReverseAttributes&) const = default;
};

/// dynamic-update-slice. Operands: tensor, update, a start index per dimension (clamped so that the update fits).
struct UpdateAttributes {
  /// Whoever runs the graph gives the result the tensor's memory: what the update does not cover is not written.
  bool in_place = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("in_place", self.in_place);
  }
  bool operator==(const UpdateAttributes&) const = default;
};

/// XLA's general gather; out-of-range starts are clamped. Operands: tensor, integer indices.
struct GatherAttributes {
  Dims offset_dims, collapsed_slice_dims, start_index_map, operand_batching_dims, start_indices_batching_dims;
  std::int64_t index_vector_dim = 0;
  Dims slice_sizes;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("offset_dims", self.offset_dims);
    visit("collapsed_slice_dims", self.collapsed_slice_dims);
    visit("start_index_map", self.start_index_map);
    visit("operand_batching_dims", self.operand_batching_dims);
    visit("start_indices_batching_dims", self.start_indices_batching_dims);
    visit("index_vector_dim", self.index_vector_dim);
    visit("slice_sizes", self.slice_sizes);
  }
  bool operator==(const GatherAttributes&) const = default;
};

/// XLA's general scatter; updates whose window is out of range are dropped. Operands: tensor, indices, updates.
struct ScatterAttributes {
  Dims update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims, input_batching_dims,
      scatter_indices_batching_dims;
  std::int64_t index_vector_dim = 0;
  ReduceKind combiner = ReduceKind::sum;  ///< replace: the last update in row-major order wins
  bool unique_indices = false;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("update_window_dims", self.update_window_dims);
    visit("inserted_window_dims", self.inserted_window_dims);
    visit("scatter_dims_to_operand_dims", self.scatter_dims_to_operand_dims);
    visit("input_batching_dims", self.input_batching_dims);
    visit("scatter_indices_batching_dims", self.scatter_indices_batching_dims);
    visit("index_vector_dim", self.index_vector_dim);
    visit("combiner", self.combiner);
    visit("unique_indices", self.unique_indices);
  }
  bool operator==(const ScatterAttributes&) const = default;
};

/// `dimensions` is sorted and without repeats; the initial value is the kind's identity.
struct ReduceAttributes {
  ReduceKind kind = ReduceKind::sum;
  Dims dimensions;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("kind", self.kind);
    visit("dimensions", self.dimensions);
  }
  bool operator==(const ReduceAttributes&) const = default;
};

/// Results: the extreme value along `dimension`, and its position as `index_dtype`. NaN counts as extreme.
struct ArgReduceAttributes {
  ReduceKind kind = ReduceKind::max;  ///< max or min
  std::int64_t dimension = 0;
  DType index_dtype = DType::s32;
  bool last = false;  ///< among equals the last position, else the first
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("kind", self.kind);
    visit("dimension", self.dimension);
    visit("index_dtype", self.index_dtype);
    visit("last", self.last);
  }
  bool operator==(const ArgReduceAttributes&) const = default;
};

/// Results: the maximum m along `dimensions` (sorted, without repeats), and Σ exp(x − m) there.
struct MaxExpSumAttributes {
  Dims dimensions;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("dimensions", self.dimensions);
  }
  bool operator==(const MaxExpSumAttributes&) const = default;
};

/// One entry per dimension of the operand. Padding contributes the identity of the kind.
struct ReduceWindowAttributes {
  ReduceKind kind = ReduceKind::sum;
  Dims sizes, strides, low, high, base_dilation, window_dilation;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("kind", self.kind);
    visit("sizes", self.sizes);
    visit("strides", self.strides);
    visit("low", self.low);
    visit("high", self.high);
    visit("base_dilation", self.base_dilation);
    visit("window_dilation", self.window_dilation);
  }
  bool operator==(const ReduceWindowAttributes&) const = default;
};

/// Backward of a max (or min) window: each source element is added to the element that its window selects (the first
/// among equals). Operands: the tensor, the source. Result: the tensor's shape, 0 where nothing is added.
struct SelectAndScatterAttributes {
  ReduceKind select = ReduceKind::max;  ///< max (select=GE) or min (select=LE)
  Dims sizes, strides, low, high;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("select", self.select);
    visit("sizes", self.sizes);
    visit("strides", self.strides);
    visit("low", self.low);
    visit("high", self.high);
  }
  bool operator==(const SelectAndScatterAttributes&) const = default;
};

/// Cumulative combination along one dimension.
struct ScanAttributes {
  ReduceKind kind = ReduceKind::sum;
  std::int64_t dimension = 0;
  bool reverse = false;    ///< from the end
  bool exclusive = false;  ///< element i combines those before it only
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("kind", self.kind);
    visit("dimension", self.dimension);
    visit("reverse", self.reverse);
    visit("exclusive", self.exclusive);
  }
  bool operator==(const ScanAttributes&) const = default;
};

/// Cumulative combination of tuples along one dimension by the operator's region, which is associative.
struct AssociativeScanAttributes {
  std::int64_t dimension = 0;
  bool reverse = false;  ///< from the end: the later element is the combiner's left operand
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("dimension", self.dimension);
    visit("reverse", self.reverse);
  }
  bool operator==(const AssociativeScanAttributes&) const = default;
};

/// Stable order of the lines along one dimension by the first operand's elements; the other operands go along.
struct SortAttributes {
  std::int64_t dimension = 0;
  bool descending = false;
  std::int64_t count = 0;  ///< how many of a line's first elements the results have
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("dimension", self.dimension);
    visit("descending", self.descending);
    visit("count", self.count);
  }
  bool operator==(const SortAttributes&) const = default;
};

/// General batched contraction; result dims: batch, free of the left, free of the right.
struct DotAttributes {
  Dims lhs_batch, rhs_batch, lhs_contracting, rhs_contracting;
  DType result = DType::f32;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("lhs_batch", self.lhs_batch);
    visit("rhs_batch", self.rhs_batch);
    visit("lhs_contracting", self.lhs_contracting);
    visit("rhs_contracting", self.rhs_contracting);
    visit("result", self.result);
  }
  bool operator==(const DotAttributes&) const = default;
};

/// XLA's general convolution. *_spatial list the spatial dimensions in order; sizes come from the operands.
struct ConvolutionAttributes {
  std::int64_t input_batch = 0, input_feature = 1;
  Dims input_spatial;
  std::int64_t kernel_input_feature = 1, kernel_output_feature = 0;
  Dims kernel_spatial;
  std::int64_t output_batch = 0, output_feature = 1;
  Dims output_spatial;
  Dims strides, low, high, input_dilation, kernel_dilation;
  std::vector<bool> window_reversal;
  std::int64_t feature_groups = 1, batch_groups = 1;
  DType result = DType::f32;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("input_batch", self.input_batch);
    visit("input_feature", self.input_feature);
    visit("input_spatial", self.input_spatial);
    visit("kernel_input_feature", self.kernel_input_feature);
    visit("kernel_output_feature", self.kernel_output_feature);
    visit("kernel_spatial", self.kernel_spatial);
    visit("output_batch", self.output_batch);
    visit("output_feature", self.output_feature);
    visit("output_spatial", self.output_spatial);
    visit("strides", self.strides);
    visit("low", self.low);
    visit("high", self.high);
    visit("input_dilation", self.input_dilation);
    visit("kernel_dilation", self.kernel_dilation);
    visit("window_reversal", self.window_reversal);
    visit("feature_groups", self.feature_groups);
    visit("batch_groups", self.batch_groups);
    visit("result", self.result);
  }
  bool operator==(const ConvolutionAttributes&) const = default;
};

/// An operator that we do not generate: what it was called where it came from, and its results' types.
struct OpaqueAttributes {
  std::string target;
  std::string config;  ///< the importer's rendering of its attributes; part of its identity
  std::vector<TensorType> results;
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("target", self.target);
    visit("config", self.config);
    visit("results", self.results);
  }
  bool operator==(const OpaqueAttributes&) const = default;
};

/// Operands and results are the carried values. Regions: body (carried → carried), condition (carried → pred[]).
struct LoopAttributes {
  std::int64_t trip_count = -1;  ///< -1: not known
  template <class Self, class Visit>
  static void fields(Self& self, Visit&& visit) {
    visit("trip_count", self.trip_count);
  }
  bool operator==(const LoopAttributes&) const = default;
};

using Attributes =
    std::variant<NoAttributes, ParameterAttributes, ConstantAttributes, IotaAttributes, ConvertAttributes,
                 CompareAttributes, BroadcastAttributes, ReshapeAttributes, TransposeAttributes, SliceAttributes,
                 DynamicSliceAttributes, UpdateAttributes, ConcatenateAttributes, PadAttributes, ReverseAttributes,
                 GatherAttributes, ScatterAttributes, ReduceAttributes, ArgReduceAttributes, ReduceWindowAttributes,
                 SelectAndScatterAttributes, ScanAttributes, DotAttributes, ConvolutionAttributes, OpaqueAttributes,
                 LoopAttributes, AssociativeScanAttributes, MaxExpSumAttributes, SortAttributes>;

/// Default-constructed attributes of the alternative that `op` uses; the codec fills it, the verifier compares kinds.
Attributes default_attributes(Op op);

}  // namespace stitch::graph
