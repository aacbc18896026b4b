#include "graph/infer.h"

#include "graph/infer_checks.h"

namespace stitch::graph {
namespace {

using Operands = OperandTypes;

Result<Types> infer_elementwise(Op op, Operands operands, const Attributes& attributes) {
  const OpInfo& row = info(op);
  const std::size_t first_data = op == Op::select ? 1 : 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].dims != operands[0].dims) {
      return bad("operand {} has shape {}, operand 0 has {}", i, to_string(operands[i]), to_string(operands[0]));
    }
    if (i >= first_data && operands[i].dtype != operands[first_data].dtype) {
      return bad("operand {} is {}, operand {} is {}", i, to_string(operands[i].dtype), first_data,
                 to_string(operands[first_data].dtype));
    }
    if (i >= first_data && !takes(row.domain, operands[i].dtype)) {
      return bad("operand {} is {}, which {} does not take", i, to_string(operands[i].dtype), row.name);
    }
  }
  TensorType result = operands[first_data];
  switch (op) {
    case Op::select:
      if (operands[0].dtype != DType::pred) return bad("operand 0 is {}, not pred", to_string(operands[0].dtype));
      break;
    case Op::compare:
    case Op::is_finite:
    case Op::is_nan:
    case Op::is_inf: result.dtype = DType::pred; break;
    case Op::convert: result.dtype = std::get<ConvertAttributes>(attributes).dtype; break;
    case Op::bitcast_convert:
      result.dtype = std::get<ConvertAttributes>(attributes).dtype;
      if (byte_size(result.dtype) != byte_size(operands[0].dtype)) {
        return bad("attribute 'dtype': {} and {} differ in size", to_string(result.dtype),
                   to_string(operands[0].dtype));
      }
      break;
    case Op::threefry2x32:
      if (result.dtype != DType::u32) return bad("operands are {}, not u32", to_string(result.dtype));
      return Types{result, result};
    case Op::philox4x32:
      if (result.dtype != DType::u32) return bad("operands are {}, not u32", to_string(result.dtype));
      return Types{result, result, result, result};
    default: break;
  }
  return Types{result};
}

Result<Types> infer_broadcast(const TensorType& operand, const BroadcastAttributes& a) {
  STITCH_TRY(check_extents("attribute 'dims'", a.dims));
  STITCH_TRY(check_length("mapping", a.mapping, operand.rank()));
  const int rank = a.dims.size();
  STITCH_TRY(check_dimensions("mapping", a.mapping, rank));
  if (!std::is_sorted(a.mapping.begin(), a.mapping.end())) {
    return bad("attribute 'mapping': {} is not increasing (transpose instead)", to_string(a.mapping));
  }
  for (std::size_t i = 0; i < a.mapping.size(); ++i) {
    if (operand.dims[i] != a.dims[a.mapping[i]]) {
      return bad("attribute 'mapping': operand dimension {} of extent {} becomes dimension {} of extent {}", i,
                 operand.dims[i], a.mapping[i], a.dims[a.mapping[i]]);
    }
  }
  return Types{{operand.dtype, a.dims}};
}

Result<Types> infer_reshape(const TensorType& operand, const ReshapeAttributes& a) {
  STITCH_TRY(check_extents("attribute 'dims'", a.dims));
  if (element_count(a.dims) != operand.elements()) {
    return bad("attribute 'dims': {} has {} elements, the operand {} has {}", to_string(a.dims), element_count(a.dims),
               to_string(operand), operand.elements());
  }
  return Types{{operand.dtype, a.dims}};
}

Result<Types> infer_transpose(const TensorType& operand, const TransposeAttributes& a) {
  STITCH_TRY(check_length("permutation", a.permutation, operand.rank()));
  STITCH_TRY(check_dimensions("permutation", a.permutation, operand.rank()));
  TensorType result{operand.dtype, {}};
  for (const std::int64_t d : a.permutation) result.dims.push_back(operand.dims[d]);
  return Types{result};
}

Result<Types> infer_slice(const TensorType& operand, const SliceAttributes& a) {
  STITCH_TRY(check_length("starts", a.starts, operand.rank()));
  STITCH_TRY(check_length("limits", a.limits, operand.rank()));
  STITCH_TRY(check_length("strides", a.strides, operand.rank()));
  TensorType result{operand.dtype, {}};
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    if (a.strides[d] < 1) return bad("attribute 'strides': {} in dimension {}", a.strides[d], d);
    if (a.starts[d] < 0 || a.starts[d] > a.limits[d] || a.limits[d] > operand.dims[d]) {
      return bad("slice [{}:{}] is out of range in dimension {} of {}", a.starts[d], a.limits[d], d,
                 to_string(operand));
    }
    const std::int64_t span = a.limits[d] - a.starts[d];
    result.dims.push_back(span / a.strides[d] + (span % a.strides[d] != 0));
  }
  return Types{result};
}

Result<Types> infer_concatenate(Operands operands, const ConcatenateAttributes& a) {
  TensorType result = operands[0];
  if (a.dimension < 0 || a.dimension >= result.rank()) {
    return bad("attribute 'dimension': {} is not a dimension of {}", a.dimension, to_string(result));
  }
  for (std::size_t i = 1; i < operands.size(); ++i) {
    TensorType expected = operands[0];
    if (operands[i].rank() == expected.rank()) expected.dims[a.dimension] = operands[i].dims[a.dimension];
    if (operands[i] != expected) {
      return bad("operand {} is {}, operand 0 is {}", i, to_string(operands[i]), to_string(operands[0]));
    }
    result.dims[a.dimension] += operands[i].dims[a.dimension];
  }
  return Types{result};
}

Result<Types> infer_pad(Operands operands, const PadAttributes& a) {
  const TensorType& operand = operands[0];
  STITCH_TRY(check_length("low", a.low, operand.rank()));
  STITCH_TRY(check_length("high", a.high, operand.rank()));
  STITCH_TRY(check_length("interior", a.interior, operand.rank()));
  STITCH_TRY(check_magnitude("low", a.low));
  STITCH_TRY(check_magnitude("high", a.high));
  STITCH_TRY(check_magnitude("interior", a.interior));
  if (operands[1].rank() != 0 || operands[1].dtype != operand.dtype) {
    return bad("operand 1 is {}, not a scalar of {}", to_string(operands[1]), to_string(operand.dtype));
  }
  TensorType result{operand.dtype, {}};
  for (std::size_t d = 0; d < operand.dims.size(); ++d) {
    if (a.interior[d] < 0) return bad("attribute 'interior': {} in dimension {}", a.interior[d], d);
    if (operand.dims[d] > most_elements / (a.interior[d] + 1)) {
      return bad("attribute 'interior': {} in dimension {} is out of range", a.interior[d], d);
    }
    const std::int64_t gaps = std::max<std::int64_t>(operand.dims[d] - 1, 0) * a.interior[d];
    const std::int64_t extent = operand.dims[d] + gaps + a.low[d] + a.high[d];
    if (extent < 0) return bad("padding leaves extent {} in dimension {}", extent, d);
    result.dims.push_back(extent);
  }
  return Types{result};
}

/// Parameters of a region must be `operands`; its result types are returned.
Result<Types> region_results(const RegionTypes& region, std::string_view what, Operands operands) {
  if (region.missing) return bad("{} is missing", what);
  if (region.parameters.size() != operands.size()) {
    return bad("{} takes {} parameters, {} are given", what, region.parameters.size(), operands.size());
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const TensorType& type = region.parameters[i];
    if (type != operands[i]) {
      return bad("{}: parameter {} is {}, {} is given", what, i, to_string(type), to_string(operands[i]));
    }
  }
  if (!region.fault.empty()) return bad("{}: {}", what, region.fault);
  return region.results;
}

Result<Types> infer_loop(Operands operands, const LoopAttributes& a, std::span<const RegionTypes> regions) {
  if (a.trip_count < -1) return bad("attribute 'trip_count': {}", a.trip_count);
  if (regions.size() != 2) return bad("has {} regions instead of body and condition", regions.size());
  STITCH_ASSIGN(Types carried, region_results(regions[0], "body", operands));
  if (!std::equal(carried.begin(), carried.end(), operands.begin(), operands.end())) {
    return bad("the body's results are not the types it carries");
  }
  STITCH_ASSIGN(const Types decision, region_results(regions[1], "condition", operands));
  if (decision != Types{{DType::pred, {}}}) return bad("the condition does not return one pred[]");
  return carried;
}

Result<Types> infer_conditional(Operands operands, std::span<const RegionTypes> regions) {
  if (regions.empty()) return bad("has no branches");
  if (operands[0].dtype == DType::pred && regions.size() != 2) {
    return bad("has {} branches for a pred selector, which needs 2", regions.size());
  }
  if (operands[0].rank() != 0 || !(operands[0].dtype == DType::pred || is_integer(operands[0].dtype))) {
    return bad("operand 0 is {}, not a scalar selector", to_string(operands[0]));
  }
  STITCH_ASSIGN(Types first, region_results(regions[0], "branch 0", operands.subspan(1)));
  for (std::size_t i = 1; i < regions.size(); ++i) {
    STITCH_ASSIGN(const Types other, region_results(regions[i], fmt::format("branch {}", i), operands.subspan(1)));
    if (other != first) return bad("branches 0 and {} return different types", i);
  }
  return first;
}

Result<Types> infer_constant(const ConstantAttributes& a) {
  STITCH_TRY(check_extents("attribute 'type'", a.type.dims));
  const bool splat = a.type.elements() > 0 && std::ssize(a.data) == byte_size(a.type.dtype);
  if (!splat && std::ssize(a.data) != a.type.bytes()) {
    return bad("attribute 'data' has {} bytes, {} needs {}", a.data.size(), to_string(a.type), a.type.bytes());
  }
  return Types{a.type};
}

Result<Types> infer_iota(const IotaAttributes& a) {
  STITCH_TRY(check_extents("attribute 'type'", a.type.dims));
  STITCH_TRY(check_dimensions("dimension", {a.dimension}, a.type.rank()));
  if (a.type.dtype == DType::pred) return bad("attribute 'type': {} is not a number", to_string(a.type));
  return Types{a.type};
}

/// The combiner takes a scalar of every operand from the left and then from the right, and gives one of each.
Result<Types> infer_associative_scan(Operands operands, const AssociativeScanAttributes& a,
                                     std::span<const RegionTypes> regions) {
  if (regions.size() != 1) return bad("has {} regions instead of a combiner", regions.size());
  STITCH_TRY(check_dimensions("dimension", {a.dimension}, operands[0].rank()));
  Types tuple, both;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].dims != operands[0].dims) {
      return bad("operand {} has shape {}, operand 0 has {}", i, to_string(operands[i]), to_string(operands[0]));
    }
    tuple.push_back({operands[i].dtype, {}});
  }
  both = tuple;
  both.insert(both.end(), tuple.begin(), tuple.end());
  STITCH_ASSIGN(const Types combined, region_results(regions[0], "combiner", both));
  if (combined != tuple) return bad("the combiner's results are not the types of what it combines");
  return Types(operands.begin(), operands.end());
}

/// The operator's rule, once operand count and kind of attributes are known to be right.
Result<Types> infer_by_rule(Op op, Operands operands, const Attributes& attributes,
                            std::span<const RegionTypes> regions) {
  if (info(op).category == OpCategory::elementwise) return infer_elementwise(op, operands, attributes);
  switch (op) {
    case Op::parameter: return Types{std::get<ParameterAttributes>(attributes).type};
    case Op::constant: return infer_constant(std::get<ConstantAttributes>(attributes));
    case Op::iota: return infer_iota(std::get<IotaAttributes>(attributes));
    case Op::broadcast: return infer_broadcast(operands[0], std::get<BroadcastAttributes>(attributes));
    case Op::reshape: return infer_reshape(operands[0], std::get<ReshapeAttributes>(attributes));
    case Op::transpose: return infer_transpose(operands[0], std::get<TransposeAttributes>(attributes));
    case Op::slice: return infer_slice(operands[0], std::get<SliceAttributes>(attributes));
    case Op::dynamic_slice: return infer_dynamic_slice(operands, std::get<DynamicSliceAttributes>(attributes));
    case Op::dynamic_update_slice: return infer_dynamic_update_slice(operands);
    case Op::concatenate: return infer_concatenate(operands, std::get<ConcatenateAttributes>(attributes));
    case Op::pad: return infer_pad(operands, std::get<PadAttributes>(attributes));
    case Op::reverse:
      STITCH_TRY(
          check_dimensions("dimensions", std::get<ReverseAttributes>(attributes).dimensions, operands[0].rank()));
      return Types{operands[0]};
    case Op::gather: return infer_gather(operands, std::get<GatherAttributes>(attributes));
    case Op::scatter: return infer_scatter(operands, std::get<ScatterAttributes>(attributes));
    case Op::reduce: return infer_reduce(operands[0], std::get<ReduceAttributes>(attributes));
    case Op::arg_reduce: return infer_arg_reduce(operands[0], std::get<ArgReduceAttributes>(attributes));
    case Op::max_exp_sum: return infer_max_exp_sum(operands[0], std::get<MaxExpSumAttributes>(attributes));
    case Op::reduce_window: return infer_reduce_window(operands[0], std::get<ReduceWindowAttributes>(attributes));
    case Op::select_and_scatter:
      return infer_select_and_scatter(operands, std::get<SelectAndScatterAttributes>(attributes));
    case Op::scan: return infer_scan(operands[0], std::get<ScanAttributes>(attributes));
    case Op::associative_scan:
      return infer_associative_scan(operands, std::get<AssociativeScanAttributes>(attributes), regions);
    case Op::sort: return infer_sort(operands, std::get<SortAttributes>(attributes));
    case Op::dot: return infer_dot(operands, std::get<DotAttributes>(attributes));
    case Op::convolution: return infer_convolution(operands, std::get<ConvolutionAttributes>(attributes));
    case Op::opaque: return std::get<OpaqueAttributes>(attributes).results;
    case Op::loop: return infer_loop(operands, std::get<LoopAttributes>(attributes), regions);
    case Op::conditional: return infer_conditional(operands, regions);
    default: return make_error(ErrorKind::internal, "no inference rule for {}", to_string(op));
  }
}

}  // namespace

Result<Types> infer(Op op, Operands operands, const Attributes& attributes, std::span<const RegionTypes> regions) {
  const OpInfo& row = info(op);
  const int given = operands.size();
  if (given < row.min_operands || (row.max_operands >= 0 && given > row.max_operands)) {
    return bad("takes {}{} operands, {} are given", row.min_operands, row.max_operands < 0 ? " or more" : "", given);
  }
  if (attributes.index() != default_attributes(op).index()) return bad("has attributes of another operator");
  if (row.category != OpCategory::control && op != Op::associative_scan && !regions.empty())
    return bad("has regions, which {} does not take", row.name);
  STITCH_ASSIGN(Types types, infer_by_rule(op, operands, attributes, regions));
  for (const TensorType& type : types) STITCH_TRY(check_extents("result", type.dims));
  return types;
}

}  // namespace stitch::graph
