#include <algorithm>

#include "graph/reference/evaluate_functions.h"
#include "graph/reference/evaluate_run.h"

// Loops and conditionals: their regions are graphs that get evaluations of their own.

namespace stitch::graph::reference {
namespace {

/// The one element of a scalar integer or pred block.
std::int64_t scalar(const Block& block) { return block.data->integers[0]; }

bool uncertain(const Block& block) { return !block.exact() && block.data->bounds[0] > 0; }

/// The same values, none of them to be checked: which ones are right hangs on an uncertain decision.
Result<Block> without_checks(Memory& memory, const Block& block) {
  STITCH_ASSIGN(StorageRef storage, memory.make(block.dtype, block.box.elements(), true));
  const Dims strides = row_major_strides(block.box.size);
  copy_values({block.box.size, strides, strides}, block, 0, *storage, 0);
  std::fill(storage->bounds.begin(), storage->bounds.end(), unchecked);
  return Block{block.dtype, block.box, std::move(storage), false};
}

/// The branch that a selector takes: of a pred the first when true; of an integer the last when out of range.
std::size_t selected_branch(const Node& node, const Block& selector) {
  const std::int64_t index = scalar(selector);
  if (selector.dtype == DType::pred) return index != 0 ? 0 : 1;
  const std::int64_t branches = node.regions.size();
  return index >= 0 && index < branches ? index : branches - 1;
}

}  // namespace

Status Evaluation::demand_control(NodeId id) {
  const Node& node = graph_.node(id);
  NodeState& s = state(id);
  std::vector<bool> wanted(node.results.size());
  std::vector<Value> branch_results;
  for (std::size_t r = 0; r < wanted.size(); ++r) {
    wanted[r] = !slot({id, static_cast<std::int32_t>(r)}).region.empty();
  }
  std::vector<bool> needed;  // per operand
  if (node.op == Op::loop) {
    needed = needed_carried(node, wanted);
  } else {
    STITCH_ASSIGN(Block selector, evaluate_ahead(node.operands[0], Box{}));
    const Graph& branch = *node.regions[selected_branch(node, selector)];
    s.indices.push_back({std::move(selector)});
    for (std::size_t r = 0; r < wanted.size(); ++r) {
      if (wanted[r]) branch_results.push_back(branch.results()[r]);
    }
    needed = used_parameters(branch, branch_results);
    needed.insert(needed.begin(), false);
  }
  for (std::size_t i = 0; i < needed.size(); ++i) {
    const Box whole = Box::whole(graph_.type(node.operands[i]).dims);
    if (!needed[i] || whole.empty()) continue;
    slot(node.operands[i]).region.add(whole);
    s.reads[i] = true;
  }
  return {};
}

Status Evaluation::compute_loop(NodeId id) {
  const Node& node = graph_.node(id);
  const Graph &body = *node.regions[0], &condition = *node.regions[1];
  std::vector<bool> needed(node.results.size());
  for (std::size_t r = 0; r < needed.size(); ++r) {
    needed[r] = !slot({id, static_cast<std::int32_t>(r)}).region.empty();
  }
  needed = needed_carried(node, needed);
  const OpContext c = context(id, 0);
  std::vector<Block> carried(needed.size());
  std::vector<Source> sources(needed.size());
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    const Box whole = Box::whole(node.results[i].dims);
    STITCH_ASSIGN(carried[i], c.operand(i, whole));
    sources[i].block = &carried[i];
    wanted.push_back({body.results()[i], {whole}});
  }
  bool doubtful = false;
  for (std::int64_t trip = 0;; ++trip) {
    Evaluation decide(condition, sources, options_, memory_, false);
    STITCH_ASSIGN(const auto decision, decide.run({{condition.results()[0], {Box{}}}}));
    doubtful = doubtful || uncertain(decision[0][0]);
    if (scalar(decision[0][0]) == 0) break;
    if (trip == options_.most_trips) {
      return make_error(ErrorKind::resource_exhausted, "runs for more than {} trips", options_.most_trips);
    }
    Evaluation step(body, sources, options_, memory_, false);
    STITCH_ASSIGN(auto blocks, step.run(wanted));
    for (std::size_t i = 0, next = 0; i < needed.size(); ++i) {
      if (needed[i]) carried[i] = std::move(blocks[next++][0]);
    }
  }
  for (std::size_t r = 0; r < needed.size(); ++r) {
    Slot& to = slot({id, static_cast<std::int32_t>(r)});
    for (const Box& box : to.region.boxes()) {
      STITCH_ASSIGN(Block block, extract(memory_, carried[r], box));
      if (doubtful) {
        STITCH_ASSIGN(block, without_checks(memory_, block));
      }
      to.blocks.push_back(std::move(block));
    }
  }
  return {};
}

Status Evaluation::compute_conditional(NodeId id) {
  const Node& node = graph_.node(id);
  const OpContext c = context(id, 0);
  const Block& selector = c.indices[0];
  const Graph& branch = *node.regions[selected_branch(node, selector)];
  std::vector<Block> arguments(node.operands.size() - 1);
  std::vector<Source> sources(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Box whole = Box::whole(c.operand_type(i + 1).dims);
    if (!state(id).reads[i + 1] && !whole.empty()) continue;
    STITCH_ASSIGN(arguments[i], c.operand(i + 1, whole));
    sources[i].block = &arguments[i];
  }
  std::vector<Wanted> wanted;
  for (std::size_t r = 0; r < node.results.size(); ++r) {
    const auto boxes = slot({id, static_cast<std::int32_t>(r)}).region.boxes();
    wanted.push_back({branch.results()[r], {boxes.begin(), boxes.end()}});
  }
  Evaluation inside(branch, sources, options_, memory_, false);
  STITCH_ASSIGN(auto blocks, inside.run(wanted));
  for (std::size_t r = 0; r < node.results.size(); ++r) {
    for (Block& block : blocks[r]) {
      if (uncertain(selector)) {
        STITCH_ASSIGN(block, without_checks(memory_, block));
      }
      slot({id, static_cast<std::int32_t>(r)}).blocks.push_back(std::move(block));
    }
  }
  return {};
}

}  // namespace stitch::graph::reference
