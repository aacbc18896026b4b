#include <algorithm>
#include <numeric>

#include "import/grouped_products.h"
#include "import/hlo/attribute.h"
#include "import/hlo/lowering.h"
#include "import/hlo/rules.h"

namespace stitch::import::hlo {

using graph::Dims;

Result<Values> lower_dot(const Site& site) {
  if (site.operands.size() != 2) return site.lowering.opaque(site, "dot", "no kernels for sparse operands");
  const Instruction& instruction = site.instruction;
  graph::DotAttributes a;
  STITCH_ASSIGN(a.lhs_batch, list_attribute(instruction, "lhs_batch_dims"));
  STITCH_ASSIGN(a.rhs_batch, list_attribute(instruction, "rhs_batch_dims"));
  STITCH_ASSIGN(a.lhs_contracting, list_attribute(instruction, "lhs_contracting_dims"));
  STITCH_ASSIGN(a.rhs_contracting, list_attribute(instruction, "rhs_contracting_dims"));
  a.result = site.type().dtype;
  return Values{site.builder.dot(site.operand(0), site.operand(1), std::move(a))};
}

/// Groups of what the left operand keeps have a matrix each; of what is contracted they are a dimension of the result.
Result<Values> lower_ragged_dot(const Site& site) {
  const Instruction& instruction = site.instruction;
  graph::DotAttributes a;
  STITCH_ASSIGN(a.lhs_batch, list_attribute(instruction, "lhs_batch_dims"));
  STITCH_ASSIGN(a.rhs_batch, list_attribute(instruction, "rhs_batch_dims"));
  STITCH_ASSIGN(a.lhs_contracting, list_attribute(instruction, "lhs_contracting_dims"));
  STITCH_ASSIGN(a.rhs_contracting, list_attribute(instruction, "rhs_contracting_dims"));
  STITCH_ASSIGN(const Dims ragged, list_attribute(instruction, "lhs_ragged_dims"));
  STITCH_ASSIGN(const Dims groups, list_attribute(instruction, "rhs_group_dims"));
  const bool is_contracted = !ragged.empty() && std::ranges::count(a.lhs_contracting, ragged[0]) > 0;
  const bool is_batch = !ragged.empty() && std::ranges::count(a.lhs_batch, ragged[0]) > 0;
  if (ragged.size() != 1 || is_batch || site.operand_type(2).rank() != 1)
    return site.lowering.opaque(site, "ragged-dot", "no kernels for groups of batches, or of sizes for each batch");
  if (ragged[0] < 0 || ragged[0] >= site.operand_type(0).rank() || groups.size() != (is_contracted ? 0U : 1U))
    return site.error("attributes 'lhs_ragged_dims' and 'rhs_group_dims' do not fit the operands");
  graph::Builder& b = site.builder;
  const graph::Value left = for_groups(b, site.operand(0), ragged[0], group_ends(b, site.operand(2)));
  for (Dims* dimensions : {&a.lhs_batch, &a.lhs_contracting}) {
    for (std::int64_t& each : *dimensions) ++each;
  }
  if (!is_contracted) {
    a.lhs_contracting.insert(a.lhs_contracting.begin(), 0);
    a.rhs_contracting.insert(a.rhs_contracting.begin(), groups[0]);
  }
  a.result = site.type().dtype;
  const auto batches = std::ssize(a.lhs_batch);
  graph::Value result = b.dot(left, site.operand(1), std::move(a));
  if (is_contracted && batches > 0) {  // groups come before batches
    Dims order(site.type().dims.size());
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin(), order.begin() + batches, order.begin() + batches + 1);
    result = b.transpose(result, std::move(order));
  }
  return Values{result};
}

Result<Values> lower_convolution(const Site& site) {
  const Instruction& instruction = site.instruction;
  STITCH_ASSIGN(const DimLabels labels, dim_labels_attribute(instruction));
  const std::size_t spatial = labels.input.spatial.size();
  STITCH_ASSIGN(WindowText window, window_attribute(instruction, spatial));
  const Dims& kernel = site.operand_type(1).dims;
  if (kernel.size() != spatial + 2 || labels.kernel.spatial.size() != spatial) {
    return site.error("attribute 'dim_labels' does not fit the operands");
  }
  for (std::size_t i = 0; i < spatial; ++i) {
    if (window.sizes[i] != kernel[labels.kernel.spatial[i]]) {
      return site.error("the window's size is not the kernel's");
    }
  }
  graph::ConvolutionAttributes a;
  a.input_batch = labels.input.batch;
  a.input_feature = labels.input.feature;
  a.input_spatial = labels.input.spatial;
  a.kernel_input_feature = labels.kernel.batch;
  a.kernel_output_feature = labels.kernel.feature;
  a.kernel_spatial = labels.kernel.spatial;
  a.output_batch = labels.output.batch;
  a.output_feature = labels.output.feature;
  a.output_spatial = labels.output.spatial;
  a.strides = std::move(window.strides);
  a.low = std::move(window.low);
  a.high = std::move(window.high);
  a.input_dilation = std::move(window.base_dilation);
  a.kernel_dilation = std::move(window.window_dilation);
  a.window_reversal = std::move(window.reversal);
  STITCH_ASSIGN(a.feature_groups, integer_attribute(instruction, "feature_group_count", 1));
  STITCH_ASSIGN(a.batch_groups, integer_attribute(instruction, "batch_group_count", 1));
  a.result = site.type().dtype;
  return Values{site.builder.add(site.op, {site.operand(0), site.operand(1)}, std::move(a))};
}

}  // namespace stitch::import::hlo
