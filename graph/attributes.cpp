#include "graph/attributes.h"

namespace stitch::graph {

Attributes default_attributes(Op op) {
  switch (op) {
    case Op::parameter: return ParameterAttributes{};
    case Op::constant: return ConstantAttributes{};
    case Op::iota: return IotaAttributes{};
    case Op::convert:
    case Op::bitcast_convert: return ConvertAttributes{};
    case Op::compare: return CompareAttributes{};
    case Op::broadcast: return BroadcastAttributes{};
    case Op::reshape: return ReshapeAttributes{};
    case Op::transpose: return TransposeAttributes{};
    case Op::slice: return SliceAttributes{};
    case Op::dynamic_slice: return DynamicSliceAttributes{};
    case Op::dynamic_update_slice: return UpdateAttributes{};
    case Op::concatenate: return ConcatenateAttributes{};
    case Op::pad: return PadAttributes{};
    case Op::reverse: return ReverseAttributes{};
    case Op::gather: return GatherAttributes{};
    case Op::scatter: return ScatterAttributes{};
    case Op::reduce: return ReduceAttributes{};
    case Op::arg_reduce: return ArgReduceAttributes{};
    case Op::max_exp_sum: return MaxExpSumAttributes{};
    case Op::reduce_window: return ReduceWindowAttributes{};
    case Op::select_and_scatter: return SelectAndScatterAttributes{};
    case Op::scan: return ScanAttributes{};
    case Op::associative_scan: return AssociativeScanAttributes{};
    case Op::sort: return SortAttributes{};
    case Op::dot: return DotAttributes{};
    case Op::convolution: return ConvolutionAttributes{};
    case Op::opaque: return OpaqueAttributes{};
    case Op::loop: return LoopAttributes{};
    default: return NoAttributes{};
  }
}

}  // namespace stitch::graph
