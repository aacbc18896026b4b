#include "driver/library/backend_descriptor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace stitch::driver {
namespace {

namespace dnn = cuda::dnn;
using dnn::Attribute;
using dnn::AttributeType;
using dnn::DescriptorType;
using Kind = ConvolutionOperation::Kind;

/// An attribute that can be set.
struct AttributeRow {
  DescriptorType of;
  Attribute attribute;
  AttributeType type;
  std::int64_t most = 1;
  bool required = true;
};

constexpr std::int64_t most_dimensions = 8;  // CUDNN_DIM_MAX
constexpr std::int64_t many = 64;

/// The tables of the manual, as far as they are emulated. Scalars of f32 may be given as f64.
constexpr AttributeRow attribute_rows[] = {
    {DescriptorType::tensor, Attribute::tensor_unique_id, AttributeType::int64},
    {DescriptorType::tensor, Attribute::tensor_data_type, AttributeType::data_type},
    {DescriptorType::tensor, Attribute::tensor_byte_alignment, AttributeType::int64},
    {DescriptorType::tensor, Attribute::tensor_dimensions, AttributeType::int64, most_dimensions},
    {DescriptorType::tensor, Attribute::tensor_strides, AttributeType::int64, most_dimensions},
    {DescriptorType::tensor, Attribute::tensor_is_virtual, AttributeType::boolean, 1, false},
    {DescriptorType::convolution, Attribute::convolution_compute_type, AttributeType::data_type},
    {DescriptorType::convolution, Attribute::convolution_mode, AttributeType::convolution_mode},
    {DescriptorType::convolution, Attribute::convolution_spatial_dims, AttributeType::int64},
    {DescriptorType::convolution, Attribute::convolution_dilations, AttributeType::int64, most_dimensions},
    {DescriptorType::convolution, Attribute::convolution_strides, AttributeType::int64, most_dimensions},
    {DescriptorType::convolution, Attribute::convolution_pre_paddings, AttributeType::int64, most_dimensions},
    {DescriptorType::convolution, Attribute::convolution_post_paddings, AttributeType::int64, most_dimensions},
    {DescriptorType::pointwise, Attribute::pointwise_mode, AttributeType::pointwise_mode},
    {DescriptorType::pointwise, Attribute::pointwise_math_type, AttributeType::data_type},
    {DescriptorType::pointwise, Attribute::pointwise_nan_propagation, AttributeType::nan_propagation, 1, false},
    {DescriptorType::convolution_forward, Attribute::forward_alpha, AttributeType::f32},
    {DescriptorType::convolution_forward, Attribute::forward_beta, AttributeType::f32},
    {DescriptorType::convolution_forward, Attribute::forward_convolution, AttributeType::descriptor},
    {DescriptorType::convolution_forward, Attribute::forward_w, AttributeType::descriptor},
    {DescriptorType::convolution_forward, Attribute::forward_x, AttributeType::descriptor},
    {DescriptorType::convolution_forward, Attribute::forward_y, AttributeType::descriptor},
    {DescriptorType::convolution_backward_data, Attribute::backward_data_alpha, AttributeType::f32},
    {DescriptorType::convolution_backward_data, Attribute::backward_data_beta, AttributeType::f32},
    {DescriptorType::convolution_backward_data, Attribute::backward_data_convolution, AttributeType::descriptor},
    {DescriptorType::convolution_backward_data, Attribute::backward_data_w, AttributeType::descriptor},
    {DescriptorType::convolution_backward_data, Attribute::backward_data_dx, AttributeType::descriptor},
    {DescriptorType::convolution_backward_data, Attribute::backward_data_dy, AttributeType::descriptor},
    {DescriptorType::convolution_backward_filter, Attribute::backward_filter_alpha, AttributeType::f32},
    {DescriptorType::convolution_backward_filter, Attribute::backward_filter_beta, AttributeType::f32},
    {DescriptorType::convolution_backward_filter, Attribute::backward_filter_convolution, AttributeType::descriptor},
    {DescriptorType::convolution_backward_filter, Attribute::backward_filter_dw, AttributeType::descriptor},
    {DescriptorType::convolution_backward_filter, Attribute::backward_filter_x, AttributeType::descriptor},
    {DescriptorType::convolution_backward_filter, Attribute::backward_filter_dy, AttributeType::descriptor},
    {DescriptorType::operation_pointwise, Attribute::operation_pointwise, AttributeType::descriptor},
    {DescriptorType::operation_pointwise, Attribute::pointwise_x, AttributeType::descriptor},
    {DescriptorType::operation_pointwise, Attribute::pointwise_b, AttributeType::descriptor, 1, false},
    {DescriptorType::operation_pointwise, Attribute::pointwise_y, AttributeType::descriptor},
    {DescriptorType::operation_pointwise, Attribute::pointwise_alpha1, AttributeType::f32, 1, false},
    {DescriptorType::operation_graph, Attribute::graph_handle, AttributeType::handle},
    {DescriptorType::operation_graph, Attribute::graph_operations, AttributeType::descriptor, many},
    {DescriptorType::engine_heuristics, Attribute::heuristics_graph, AttributeType::descriptor},
    {DescriptorType::engine_heuristics, Attribute::heuristics_mode, AttributeType::heuristic_mode},
    {DescriptorType::engine_configuration, Attribute::configuration_engine, AttributeType::descriptor},
    {DescriptorType::execution_plan, Attribute::plan_handle, AttributeType::handle},
    {DescriptorType::execution_plan, Attribute::plan_configuration, AttributeType::descriptor},
    {DescriptorType::variant_pack, Attribute::pack_unique_ids, AttributeType::int64, many},
    {DescriptorType::variant_pack, Attribute::pack_pointers, AttributeType::pointer, many},
    {DescriptorType::variant_pack, Attribute::pack_workspace, AttributeType::pointer, 1, false},
};

std::size_t size_of(AttributeType type) {
  switch (type) {
    case AttributeType::boolean: return sizeof(bool);
    case AttributeType::int64:
    case AttributeType::f64:
    case AttributeType::handle:
    case AttributeType::pointer:
    case AttributeType::descriptor: return 8;
    default: return 4;
  }
}

Outcome bad(std::string why) { return {dnn::Status::bad_param, std::move(why)}; }

Outcome outcome_of(const stitch::Status& status) {
  if (status) return {};
  const Error& error = status.error();
  return {error.kind == ErrorKind::unsupported ? dnn::Status::not_supported : dnn::Status::bad_param, error.message};
}

template <class T>
std::vector<T> list_of(const BackendDescriptor& descriptor, Attribute attribute) {
  const auto& value = descriptor.values.at(attribute);
  std::vector<T> list(value.count);
  std::memcpy(list.data(), value.bytes.data(), value.bytes.size());
  return list;
}
template <class T>
T value_of(const BackendDescriptor& descriptor, Attribute attribute, T otherwise = {}) {
  const auto found = descriptor.values.find(attribute);
  if (found != descriptor.values.end()) std::memcpy(&otherwise, found->second.bytes.data(), sizeof(T));
  return otherwise;
}
double scalar_of(const BackendDescriptor& descriptor, Attribute attribute) {
  const auto found = descriptor.values.find(attribute);
  if (found == descriptor.values.end()) return 1;
  return found->second.type == AttributeType::f64 ? value_of<double>(descriptor, attribute)
                                                  : value_of<float>(descriptor, attribute);
}

const BackendDescriptor& part_of(const BackendDescriptor& descriptor, Attribute attribute) {
  return *descriptor.values.at(attribute).descriptors[0];
}
const ConvolutionTensor* tensor_of(const BackendDescriptor& descriptor, Attribute attribute) {
  return std::get_if<ConvolutionTensor>(&part_of(descriptor, attribute).made);
}

Outcome make_tensor(BackendDescriptor& descriptor) {
  ConvolutionTensor tensor;
  tensor.id = value_of<std::int64_t>(descriptor, Attribute::tensor_unique_id);
  tensor.type = value_of<dnn::DataType>(descriptor, Attribute::tensor_data_type);
  tensor.alignment = value_of<std::int64_t>(descriptor, Attribute::tensor_byte_alignment);
  tensor.is_virtual = value_of<bool>(descriptor, Attribute::tensor_is_virtual);
  tensor.extents = list_of<std::int64_t>(descriptor, Attribute::tensor_dimensions);
  tensor.strides = list_of<std::int64_t>(descriptor, Attribute::tensor_strides);
  const Outcome checked = outcome_of(check_tensor(tensor));
  descriptor.made = std::move(tensor);
  return checked;
}

Outcome make_convolution(BackendDescriptor& descriptor) {
  ConvolutionOperation how;
  how.compute = value_of<dnn::DataType>(descriptor, Attribute::convolution_compute_type);
  how.flipped =
      value_of<dnn::ConvolutionMode>(descriptor, Attribute::convolution_mode) == dnn::ConvolutionMode::convolution;
  how.dilation = list_of<std::int64_t>(descriptor, Attribute::convolution_dilations);
  how.strides = list_of<std::int64_t>(descriptor, Attribute::convolution_strides);
  how.pre_padding = list_of<std::int64_t>(descriptor, Attribute::convolution_pre_paddings);
  how.post_padding = list_of<std::int64_t>(descriptor, Attribute::convolution_post_paddings);
  const auto spatial = value_of<std::int64_t>(descriptor, Attribute::convolution_spatial_dims);
  for (const auto* each : {&how.dilation, &how.strides, &how.pre_padding, &how.post_padding}) {
    if (std::ssize(*each) != spatial)
      return bad(fmt::format("{} values for {} spatial dimensions", each->size(), spatial));
    const std::int64_t least = each == &how.dilation || each == &how.strides ? 1 : 0;
    if (std::ranges::any_of(*each, [&](std::int64_t value) { return value < least; }))
      return bad("a stride or dilation below 1, or padding below 0");
  }
  descriptor.made = std::move(how);
  return {};
}

Outcome make_pointwise(BackendDescriptor& descriptor) {
  PointwiseOperation how;
  how.mode = value_of<dnn::PointwiseMode>(descriptor, Attribute::pointwise_mode);
  how.compute = value_of<dnn::DataType>(descriptor, Attribute::pointwise_math_type);
  how.propagates_nan =
      value_of<dnn::NanPropagation>(descriptor, Attribute::pointwise_nan_propagation) == dnn::NanPropagation::propagate;
  if (how.mode != dnn::PointwiseMode::add && how.mode != dnn::PointwiseMode::relu)
    return {dnn::Status::not_supported, "an element-wise function that is not emulated"};
  descriptor.made = how;
  return {};
}

/// A convolution's operation; its attributes follow `alpha` in the order of their enumeration.
Outcome make_convolution_operation(BackendDescriptor& descriptor, Kind kind, Attribute alpha, Attribute x, Attribute w,
                                   Attribute y) {
  const auto next = [&](int by) { return static_cast<Attribute>(static_cast<int>(alpha) + by); };
  const auto* shared = std::get_if<ConvolutionOperation>(&part_of(descriptor, next(2)).made);
  const ConvolutionTensor *of_x = tensor_of(descriptor, x), *of_w = tensor_of(descriptor, w),
                          *of_y = tensor_of(descriptor, y);
  if (shared == nullptr || of_x == nullptr || of_w == nullptr || of_y == nullptr)
    return bad("a part of the operation is a descriptor of another type");
  ConvolutionOperation how = *shared;
  how.kind = kind;
  how.alpha = scalar_of(descriptor, alpha);
  how.x = *of_x;
  how.w = *of_w;
  how.y = *of_y;
  how.beta = scalar_of(descriptor, next(1));
  const Outcome checked = outcome_of(check_convolution(how));
  descriptor.made = std::move(how);
  return checked;
}

Outcome make_pointwise_operation(BackendDescriptor& descriptor) {
  const auto* shared = std::get_if<PointwiseOperation>(&part_of(descriptor, Attribute::operation_pointwise).made);
  const ConvolutionTensor *x = tensor_of(descriptor, Attribute::pointwise_x),
                          *y = tensor_of(descriptor, Attribute::pointwise_y);
  if (shared == nullptr || x == nullptr || y == nullptr)
    return bad("a part of the operation is a descriptor of another type");
  PointwiseOperation how = *shared;
  how.alpha1 = scalar_of(descriptor, Attribute::pointwise_alpha1);
  how.x = *x;
  how.y = *y;
  if (descriptor.values.contains(Attribute::pointwise_b)) {
    const ConvolutionTensor* b = tensor_of(descriptor, Attribute::pointwise_b);
    if (b == nullptr) return bad("the second operand is no tensor");
    how.b = *b;
  }
  const Outcome checked = outcome_of(check_pointwise(how));
  descriptor.made = std::move(how);
  return checked;
}

Outcome make_graph(BackendDescriptor& descriptor) {
  if (value_of<dnn::Handle>(descriptor, Attribute::graph_handle) == nullptr) return bad("no handle");
  ConvolutionGraph graph;
  bool first = true;
  for (const SharedDescriptor& part : descriptor.values.at(Attribute::graph_operations).descriptors) {
    const auto* convolution = std::get_if<ConvolutionOperation>(&part->made);
    const auto* pointwise = std::get_if<PointwiseOperation>(&part->made);
    const bool operation = part->type != DescriptorType::convolution && part->type != DescriptorType::pointwise;
    if (!operation || (first ? convolution == nullptr : pointwise == nullptr))
      return {dnn::Status::not_supported_graph_pattern, "no convolution with element-wise operations behind it"};
    if (first) {
      graph.convolution = *convolution;
    } else {
      graph.behind.push_back(*pointwise);
    }
    first = false;
  }
  const Outcome checked = outcome_of(check_graph(graph));
  descriptor.made = std::move(graph);
  return checked;
}

Outcome make_suggestions(BackendDescriptor& descriptor) {
  const auto* graph = std::get_if<ConvolutionGraph>(&part_of(descriptor, Attribute::heuristics_graph).made);
  if (graph == nullptr) return bad("heuristics of what is no operation graph");
  const auto mode = value_of<dnn::HeuristicMode>(descriptor, Attribute::heuristics_mode);
  if (mode != dnn::HeuristicMode::a && mode != dnn::HeuristicMode::fallback)
    return {dnn::Status::not_supported, "a mode of the heuristics that is not emulated"};
  descriptor.made = suggestions_for(std::make_shared<const ConvolutionGraph>(*graph), mode);
  return {};
}

Outcome make_plan(BackendDescriptor& descriptor, Attribute from) {
  const auto* plan = std::get_if<ConvolutionPlan>(&part_of(descriptor, from).made);
  if (plan == nullptr) return bad("a plan of what is no engine's configuration");
  descriptor.made = *plan;
  return {};
}

Outcome make_pack(BackendDescriptor& descriptor) {
  const auto numbers = list_of<std::int64_t>(descriptor, Attribute::pack_unique_ids);
  const auto pointers = list_of<CUdeviceptr>(descriptor, Attribute::pack_pointers);
  if (numbers.size() != pointers.size())
    return bad(fmt::format("{} numbers and {} pointers", numbers.size(), pointers.size()));
  VariantPack pack;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (!pack.addresses.emplace(numbers[i], pointers[i]).second)
      return {dnn::Status::bad_param_duplicated_entries, fmt::format("tensor {} has two addresses", numbers[i])};
  }
  pack.workspace = value_of<CUdeviceptr>(descriptor, Attribute::pack_workspace);
  descriptor.made = std::move(pack);
  return {};
}

Outcome make(BackendDescriptor& descriptor) {
  switch (descriptor.type) {
    case DescriptorType::tensor: return make_tensor(descriptor);
    case DescriptorType::convolution: return make_convolution(descriptor);
    case DescriptorType::pointwise: return make_pointwise(descriptor);
    case DescriptorType::convolution_forward:
      return make_convolution_operation(descriptor, Kind::forward, Attribute::forward_alpha, Attribute::forward_x,
                                        Attribute::forward_w, Attribute::forward_y);
    case DescriptorType::convolution_backward_data:
      return make_convolution_operation(descriptor, Kind::backward_data, Attribute::backward_data_alpha,
                                        Attribute::backward_data_dx, Attribute::backward_data_w,
                                        Attribute::backward_data_dy);
    case DescriptorType::convolution_backward_filter:
      return make_convolution_operation(descriptor, Kind::backward_filter, Attribute::backward_filter_alpha,
                                        Attribute::backward_filter_x, Attribute::backward_filter_dw,
                                        Attribute::backward_filter_dy);
    case DescriptorType::operation_pointwise: return make_pointwise_operation(descriptor);
    case DescriptorType::operation_graph: return make_graph(descriptor);
    case DescriptorType::engine_heuristics: return make_suggestions(descriptor);
    case DescriptorType::engine_configuration: return make_plan(descriptor, Attribute::configuration_engine);
    case DescriptorType::execution_plan:
      if (value_of<dnn::Handle>(descriptor, Attribute::plan_handle) == nullptr) return bad("no handle");
      return make_plan(descriptor, Attribute::plan_configuration);
    case DescriptorType::variant_pack: return make_pack(descriptor);
    default: return bad("a descriptor that the library makes itself");
  }
}

}  // namespace

bool has_attributes(DescriptorType type) {
  return type == DescriptorType::engine || std::ranges::count(attribute_rows, type, &AttributeRow::of) > 0;
}

Outcome set_attribute(BackendDescriptor& descriptor, Attribute attribute, AttributeType type, std::int64_t count,
                      const void* elements, std::vector<SharedDescriptor> descriptors) {
  const auto name = static_cast<int>(attribute);
  if (descriptor.finalized) return bad(fmt::format("attribute {} of a descriptor that is finalised", name));
  const auto* row = std::ranges::find_if(attribute_rows, [&](const AttributeRow& each) {
    return each.of == descriptor.type && each.attribute == attribute;
  });
  if (row == std::end(attribute_rows))
    return bad(fmt::format("descriptors of type {} have no attribute {} that is emulated",
                           static_cast<int>(descriptor.type), name));
  if (type != row->type && !(row->type == AttributeType::f32 && type == AttributeType::f64))
    return {dnn::Status::bad_param_attribute_type, fmt::format("attribute {} has another type", name)};
  if (count < 1 || count > row->most) return bad(fmt::format("{} elements for attribute {}", count, name));
  if (elements == nullptr)
    return {dnn::Status::bad_param_null_pointer, fmt::format("no elements for attribute {}", name)};
  for (const SharedDescriptor& each : descriptors) {
    if (each == nullptr)
      return {dnn::Status::bad_param_null_pointer, fmt::format("no descriptor for attribute {}", name)};
    if (!each->finalized)
      return {dnn::Status::bad_param_not_finalized,
              fmt::format("a descriptor that is not finalised for attribute {}", name)};
  }
  BackendDescriptor::Value value{count, type, std::vector<std::byte>(count * size_of(type)), std::move(descriptors)};
  std::memcpy(value.bytes.data(), elements, value.bytes.size());
  descriptor.values[attribute] = std::move(value);
  return {};
}

Outcome finalize(BackendDescriptor& descriptor) {
  if (descriptor.finalized) return bad("a descriptor that is finalised");
  for (const AttributeRow& row : attribute_rows) {
    if (row.of == descriptor.type && row.required && !descriptor.values.contains(row.attribute))
      return bad(fmt::format("attribute {} is missing", static_cast<int>(row.attribute)));
  }
  Outcome made = make(descriptor);
  descriptor.finalized = static_cast<bool>(made);
  return made;
}

}  // namespace stitch::driver
