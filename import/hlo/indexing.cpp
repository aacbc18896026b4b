#include <algorithm>

#include "import/hlo/attribute.h"
#include "import/hlo/combiner.h"
#include "import/hlo/lowering.h"
#include "import/hlo/rules.h"

namespace stitch::import::hlo {
namespace {

using graph::Dims;
using graph::Value;

/// Start indices from operand `first` on: one scalar per dimension, or (older text) one vector of them.
Result<std::vector<Value>> start_indices(const Site& site, std::size_t first, std::int64_t rank) {
  std::vector<Value> starts;
  for (std::size_t i = first; i < site.operands.size(); ++i) starts.push_back(site.operand(i));
  if (starts.size() != 1 || site.builder.dims(starts[0]).size() != 1) return starts;
  const Value vector = starts[0];
  if (site.builder.dims(vector)[0] != rank) return site.error("the vector of start indices does not fit");
  starts.clear();
  for (std::int64_t d = 0; d < rank; ++d) {
    starts.push_back(site.builder.reshape(site.builder.slice(vector, {d}, {d + 1}), {}));
  }
  return starts;
}

Result<graph::ScatterAttributes> scatter_attributes(const Instruction& instruction) {
  graph::ScatterAttributes a;
  STITCH_ASSIGN(a.update_window_dims, list_attribute(instruction, "update_window_dims"));
  STITCH_ASSIGN(a.inserted_window_dims, list_attribute(instruction, "inserted_window_dims"));
  STITCH_ASSIGN(a.scatter_dims_to_operand_dims, list_attribute(instruction, "scatter_dims_to_operand_dims"));
  STITCH_ASSIGN(a.input_batching_dims, list_attribute(instruction, "input_batching_dims"));
  STITCH_ASSIGN(a.scatter_indices_batching_dims, list_attribute(instruction, "scatter_indices_batching_dims"));
  STITCH_ASSIGN(a.index_vector_dim, integer_attribute(instruction, "index_vector_dim"));
  STITCH_ASSIGN(a.unique_indices, flag_attribute(instruction, "unique_indices"));
  return a;
}

}  // namespace

Result<Values> lower_dynamic_slice(const Site& site) {
  graph::DynamicSliceAttributes a;
  STITCH_ASSIGN(a.sizes, list_attribute(site.instruction, "dynamic_slice_sizes"));
  STITCH_ASSIGN(std::vector<Value> operands, start_indices(site, 1, site.operand_type(0).rank()));
  operands.insert(operands.begin(), site.operand(0));
  return Values{site.builder.add(site.op, std::move(operands), std::move(a))};
}

Result<Values> lower_dynamic_update_slice(const Site& site) {
  STITCH_ASSIGN(std::vector<Value> operands, start_indices(site, 2, site.operand_type(0).rank()));
  operands.insert(operands.begin(), {site.operand(0), site.operand(1)});
  return Values{site.builder.add(site.op, std::move(operands), graph::UpdateAttributes{})};
}

Result<Values> lower_gather(const Site& site) {
  const Instruction& instruction = site.instruction;
  graph::GatherAttributes a;
  STITCH_ASSIGN(a.offset_dims, list_attribute(instruction, "offset_dims"));
  STITCH_ASSIGN(a.collapsed_slice_dims, list_attribute(instruction, "collapsed_slice_dims"));
  STITCH_ASSIGN(a.start_index_map, list_attribute(instruction, "start_index_map"));
  STITCH_ASSIGN(a.operand_batching_dims, list_attribute(instruction, "operand_batching_dims"));
  STITCH_ASSIGN(a.start_indices_batching_dims, list_attribute(instruction, "start_indices_batching_dims"));
  STITCH_ASSIGN(a.index_vector_dim, integer_attribute(instruction, "index_vector_dim"));
  STITCH_ASSIGN(a.slice_sizes, list_attribute(instruction, "slice_sizes"));
  return Values{site.builder.add(site.op, {site.operand(0), site.operand(1)}, std::move(a))};
}

Result<Values> lower_scatter(const Site& site) {
  // n tensors, one tensor of indices, n tensors of updates.
  if (site.operands.size() % 2 == 0) return site.error("the operands are not tensors, indices, updates");
  const std::size_t count = site.operands.size() / 2;
  STITCH_ASSIGN(graph::ScatterAttributes a, scatter_attributes(site.instruction));
  STITCH_ASSIGN(const Computation* computation, site.lowering.called(site, "to_apply"));
  STITCH_ASSIGN(const std::shared_ptr<const graph::Graph> combiner, site.lowering.shared_region(*computation));
  const auto kinds = independent_kinds(*combiner);
  if (!kinds || kinds->size() != count) {
    return site.lowering.opaque(site, "scatter", "its combining function is not one of ours");
  }
  Values results;
  for (std::size_t i = 0; i < count; ++i) {
    a.combiner = (*kinds)[i];
    results.push_back(
        site.builder.add(site.op, {site.operand(i), site.operand(count), site.operand(count + 1 + i)}, a));
  }
  return results;
}

}  // namespace stitch::import::hlo
